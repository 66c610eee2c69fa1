#!/usr/bin/env python3
"""Fits the polynomials of runtime/include/mixle/MathConstants.h (needs mpmath).

Each polynomial is a weighted minimax fit by Remez exchange in 200 bits, rounded
coefficient by coefficient; the leading exact terms (1, r, r^2/2) are taken out of
the fitted function, so that rounding costs little. Prints every coefficient as a
hexadecimal literal, lowest power first, and the errors before and after rounding as
powers of two: the maximum of |w(x) (p(x) - g(x))| over the interval.
"""
import mpmath as mp

mp.mp.prec = 200


def to_precision(value, bits):
    """Nearest value with that many significant bits."""
    if value == 0:
        return mp.mpf(0)
    with mp.workprec(bits):
        return +value


def hexadecimal(value, suffix=""):
    return float(value).hex().replace("0000000p", "p") + suffix


def solve_on(points, g, w, powers):
    """Coefficients and levelled error that alternate in sign on `points`."""
    n = len(points)
    a = mp.matrix(n, n)
    b = mp.matrix(n, 1)
    for i, x in enumerate(points):
        for j, power in enumerate(powers):
            a[i, j] = x**power
        a[i, n - 1] = (-1) ** i / w(x)
        b[i] = g(x)
    solution = mp.lu_solve(a, b)
    return [solution[j] for j in range(len(powers))]


def remez(g, w, lo, hi, powers, rounds=8, grid=600):
    n = len(powers) + 1
    points = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * i / (n - 1))
              for i in range(n)]
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / grid)
          for i in range(grid)]
    xs[0], xs[-1] = lo, hi
    gs = [g(x) for x in xs]
    ws = [w(x) for x in xs]
    for _ in range(rounds):
        c = solve_on(points, g, w, powers)
        err = [wi * (sum(cj * x**p for cj, p in zip(c, powers)) - gi)
               for x, gi, wi in zip(xs, gs, ws)]
        # One extremum per run of equal sign, then the n strongest neighbours.
        extrema = []
        for x, e in zip(xs, err):
            if extrema and (e > 0) == (extrema[-1][1] > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > n:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n:
            break
        points = [x for x, _ in extrema]
    return c


def fit(name, g, w, lo, hi, degree, bits=53):
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    # Weights that vanish at zero would make the system singular there.
    floor = (hi - lo) / 512
    weight = lambda x: w(x if abs(x) > floor else floor)
    exact = remez(g, weight, lo, hi, list(range(degree + 1)))
    rounded = [to_precision(c, bits) for c in exact]

    def worst(coefficients):
        e = max(abs(w(x) * (sum(c * x**j for j, c in enumerate(coefficients)) - g(x)))
                for x in (lo + (hi - lo) * i / 997 for i in range(1, 998)))
        return mp.nstr(mp.log(e, 2), 4)

    print(f"// {name}: degree {degree} on [{mp.nstr(lo, 6)}, {mp.nstr(hi, 6)}], "
          f"weighted error 2^{worst(exact)}, rounded 2^{worst(rounded)}")
    for c in rounded:
        print("   ", hexadecimal(c, "f" if bits == 24 else "") + ",")


def safe(f, x, limit):
    return f(x) if abs(x) > mp.mpf(2) ** -25 else limit(x)


def split(name, value, bits):
    """value as a sum of numbers with the given significant bits each."""
    rest = value
    for i, b in enumerate(bits):
        part = to_precision(rest, b)
        print(f"// {name} part {i}: {hexadecimal(part)}")
        rest -= part


if __name__ == "__main__":
    half_log2 = mp.log(2) / 2 * mp.mpf("1.0001")
    quarter_pi = mp.pi / 4 * mp.mpf("1.0001")
    split("ln2", mp.log(2), [53, 53])
    split("ln2 with 11 trailing zeros", mp.log(2), [42, 53])
    split("log2(e)", 1 / mp.log(2), [53])
    split("log2(e) float", 1 / mp.log(2), [24, 24])
    split("ln2 float", mp.log(2), [24, 24])
    split("pi/2", mp.pi / 2, [53, 53, 53])
    split("2/pi", 2 / mp.pi, [53])

    fit("exp: (e^r - 1 - r - r^2/2)/r^3",
        lambda r: safe(lambda t: (mp.exp(t) - 1 - t - t**2 / 2) / t**3, r,
                       lambda t: mp.mpf(1) / 6 + t / 24 + t * t / 120),
        lambda r: abs(r)**3, -half_log2, half_log2, 8)
    fit("exp2: (2^f - 1)/f",
        lambda f: safe(lambda t: (2**t - 1) / t, f,
                       lambda t: mp.log(2) + t * mp.log(2)**2 / 2),
        lambda f: abs(f), -mp.mpf("0.50001"), mp.mpf("0.50001"), 10)
    fit("exp2 float: (2^f - 1)/f",
        lambda f: safe(lambda t: (2**t - 1) / t, f,
                       lambda t: mp.log(2) + t * mp.log(2)**2 / 2),
        lambda f: abs(f), -mp.mpf("0.50001"), mp.mpf("0.50001"), 5, bits=24)
    fit("log: (log((1+s)/(1-s))/s - 2)/s^2 in z = s^2",
        lambda z: safe(lambda t: (mp.log((1 + mp.sqrt(t)) / (1 - mp.sqrt(t)))
                                  / mp.sqrt(t) - 2) / t, z,
                       lambda t: mp.mpf(2) / 3 + 2 * t / 5),
        lambda z: z**1.5, 0, 0.0295, 6)
    fit("sin: (sin r / r - 1)/z in z = r^2",
        lambda z: safe(lambda t: (mp.sin(mp.sqrt(t)) / mp.sqrt(t) - 1) / t, z,
                       lambda t: -mp.mpf(1) / 6 + t / 120),
        lambda z: z, 0, quarter_pi**2, 5)
    fit("cos: (cos r - 1 + z/2)/z^2 in z = r^2",
        lambda z: safe(lambda t: (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2, z,
                       lambda t: mp.mpf(1) / 24 - t / 720),
        lambda z: z * z, 0, quarter_pi**2, 5)
    fit("erf: erf(x)/x - 1 in z = x^2",
        lambda z: safe(lambda t: mp.erf(mp.sqrt(t)) / mp.sqrt(t) - 1, z,
                       lambda t: 2 / mp.sqrt(mp.pi) * (1 - t / 3) - 1),
        lambda z: 1, 0, 1, 12)
    fit("erfc: log(erfc(1 + u))",
        lambda u: mp.log(mp.erfc(1 + u)), lambda u: mp.erfc(1 + u), 0, 5, 18)
