//===- MathConstants.h - Constants of our elementary functions --*- C++ -*-===//
//
// Elementary functions never come from libm or from a GPU's approximations:
// their bits would differ between machines. Each is a fixed sequence of
// correctly rounded IEEE operations (add, sub, mul, div, fma) and integer
// operations on the bits, free of branches: where cases differ, all are
// computed and one is selected. This header holds the constants and states the
// sequences; runtime/kernels/Math.h executes them on scalars, and the compiler
// emits them as vector code. Both must follow the sequences operation by
// operation, as the results have to agree bit for bit.
//
// Coefficients are in increasing powers, made by
// runtime/kernels/scripts/fit_math_constants.py.
//
// Notation, all on binary64 unless said otherwise:
//   fma(a, b, c)        a*b + c, rounded once; no other product and sum fuse
//   horner(c, x)        p = c[last]; for i = last-1 .. 0: p = fma(p, x, c[i])
//   bits(x), value(i)   the int64 with the bits of x, and back
//   i << k, i >>> k     shifts of int64 that fill with zeros
//   c ? a : b           select; ordered comparisons (false for NaN)
//   M                   roundMagic; (x + M) - M rounds to an integer, ties to
//                       even, and bits(x + M) has that integer in its low bits
//
// exp(x)
//   x  = x > expHighest ? expHighest : x
//   x  = x < expLowest ? expLowest : x            NaN passes both
//   n  = fma(x, log2E, M) - M
//   r  = fma(n, -ln2High, x)                      exact
//   r  = fma(n, -ln2Low, r)
//   p  = fma(horner(expCoefficients, r), r, 0.5)
//   y  = 1 + fma(r*r, p, r)
//   t1 = fma(n, 0.5, M);  n1 = t1 - M;  t2 = (n - n1) + M
//   s1 = value((bits(t1) + 1023) << 52);  s2 = value((bits(t2) + 1023) << 52)
//   exp = (y * s1) * s2
//   The scale is split in two so that results down to the subnormals are
//   rounded once and overflow gives infinity.
//
// exp2(x)
//   x  = x > exp2Highest ? exp2Highest : x
//   x  = x < exp2Lowest ? exp2Lowest : x
//   n  = (x + M) - M
//   f  = x - n                                    exact
//   y  = exp2Fraction(f)
//   then t1, n1, t2, s1, s2 and the result as in exp
// exp2Fraction(f), |f| <= 0.5: 2^f
//   double: fma(horner(exp2Coefficients, f), f, 1)
//   float:  fma(horner(exp2CoefficientsFloat, f), f, 1), all in binary32
//
// log1pParts(u, c): log(u) + c/u with u > 0, normal or not
//   tiny = u < smallestNormal
//   u1 = tiny ? u * 2^54 : u
//   o  = tiny ? logExponentOffsetTiny : logExponentOffset
//   e  = (bits(u1) - logSqrtHalfBits + (1023 << 52)) >>> 52
//   m  = value(bits(u1) - (e << 52) + (1023 << 52))     in [sqrt(1/2), sqrt(2))
//   k  = value(e | bits(2^52)) - o
//   f  = m - 1                                    exact
//   s  = f / (f + 2)
//   z  = s*s
//   R  = z * horner(logCoefficients, z)
//   h  = (f * 0.5) * f
//   w  = fma(s, h + R, fma(k, ln2Low, c/u))
//   result = fma(k, ln2High, f - (h - w))
// log(x)
//   y  = log1pParts(x) without c: w = fma(s, h + R, k * ln2Low)
//   y  = x == 0 ? -inf : y
//   y  = x < 0 ? NaN : y
//   log = x < inf ? y : x                         +inf and NaN
// log1p(x)
//   u  = x + 1;  b = u - 1
//   c  = (1 - (u - b)) + (x - b)                  x + 1 = u + c exactly
//   y  = log1pParts(u, c)
//   y  = x == -1 ? -inf : y;  y = x < -1 ? NaN : y
//   y  = x == 0 ? x : y                           keeps -0
//   log1p = x < inf ? y : x
//
// expm1Half(x): (e^x - 1)/2 as an unevaluated sum high + low, -40 <= x <= 710
//   n  = fma(x, log2E, M) - M;  t1 = n + M
//   a  = fma(n, -ln2High, x)                      exact
//   r  = fma(n, -ln2Low, a)
//   c  = fma(n, -ln2Low, a - r)                   what r lost
//   p  = fma(horner(expCoefficients, r), r, 0.5)
//   v  = fma(r*r, p, fma(c, r, c))
//   t  = r + v;  tl = (r - t) + v                 e^r - 1
//   s  = value((bits(t1) + 1022) << 52)           2^(n-1)
//   A  = s - 0.5;  B = s * t
//   high = A + B;  b = high - A
//   low  = fma(s, tl, (A - (high - b)) + (B - b))
// expm1(x)
//   y  = x > expHighest ? expHighest : x
//   y  = y < expm1Lowest ? expm1Lowest : y
//   (high, low) = expm1Half(y)
//   expm1 = |x| < tinyArgument ? x : 2 * (high + low)
// tanh(x)
//   a  = |x|;  b = a > tanhHighest ? tanhHighest : a
//   (high, low) = expm1Half(2 * b)                tanh = (E-1)/(E+1), E = e^2b
//   d  = high + 1;  g = d - high;  dl = ((high - (d - g)) + (1 - g)) + low
//   i  = 1 / d
//   q  = high * i
//   e  = fma(-q, dl, fma(-q, d, high) + low)
//   y  = fma(e, i, q)
//   y  = a < tinyArgument ? a : y
//   tanh = y with the sign bit of x (or-ed in)
//
// trigReduce(x): quarter turns n and the rest r + rl, |r| <= pi/4
//   t  = fma(x, twoOverPi, M);  n = t - M
//   a  = fma(n, -piOver2Parts[0], x)              exact
//   w  = n * piOver2Parts[1];  wl = fma(n, piOver2Parts[1], -w)
//   r  = a - w;  b = a - r
//   rl = fma(n, -piOver2Parts[2], ((b - w) + (a - (r + b))) - wl)
//   z  = r*r
//   S  = fma(z, fma(-0.5, rl, r * horner(sinCoefficients, z)), rl)
//        sin = r + S
//   C  = fma(z*z, horner(cosCoefficients, z), -(r * rl))
//        h = z * 0.5;  g = 1 - h;  cos = g + (((1 - g) - h) + C)
// sin(x)
//   y  = bits(t) & 1 ? cos : sin
//   y  = bits(t) & 2 ? -y : y
//   y  = |x| < tinyArgument ? x : y               keeps -0
//   sin = |x| <= trigLimit ? y : NaN
// cos(x)
//   y  = bits(t) & 1 ? sin : cos
//   y  = (bits(t) + 1) & 2 ? -y : y
//   cos = |x| <= trigLimit ? y : NaN
//
// erf(x)
//   a  = |x|
//   small = fma(a, horner(erfCoefficients, a*a), a)
//   b  = a > erfHighest ? erfHighest : a
//   large = 1 - exp(horner(erfcLogCoefficients, b - 1))
//   y  = a < 1 ? small : large
//   erf = y with the sign bit of x (or-ed in)
//
// powInt(x, n), an int64 n that is the same for all elements
//   k = |n|; y = 1; b = x
//   while k != 0: if (k & 1) y = y * b;  k >>= 1;  if (k != 0) b = b * b
//   powInt = n < 0 ? 1 / y : y
//   The relative error is below n * 2^-53.
//
// Functions of floats are those of doubles on the extended argument, rounded to
// float at the end; only exp2Fraction has a float form of its own (attention's
// inner loop).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_MATHCONSTANTS_H
#define MIXLE_MATHCONSTANTS_H

#include <cstdint>

namespace mixle::math {

/// 1.5 * 2^52: adding it rounds a double below 2^51 in magnitude to an integer.
constexpr double roundMagic = 0x1.8p52;
/// 1.5 * 2^23: the same for floats below 2^22.
constexpr float roundMagicFloat = 0x1.8p23f;

constexpr double log2E = 0x1.71547652b82fep+0;
/// ln 2 in two parts of 53 bits each.
constexpr double ln2High = 0x1.62e42fefa39efp-1;
constexpr double ln2Low = 0x1.abc9e3b39803fp-56;
/// log2(e) and ln 2 for floats, two parts of 24 bits each.
constexpr float log2EFloat = 0x1.715476p+0f;
constexpr float log2ELowFloat = 0x1.4ae0c0p-26f;
constexpr float ln2HighFloat = 0x1.62e430p-1f;
constexpr float ln2LowFloat = -0x1.05c610p-29f;

/// exp is infinity above and zero below; so are 2^exp2Highest and 2^exp2Lowest.
constexpr double expHighest = 710.0;
constexpr double expLowest = -750.0;
constexpr double exp2Highest = 1025.0;
constexpr double exp2Lowest = -1080.0;
/// e^x - 1 rounds to -1 from here down.
constexpr double expm1Lowest = -40.0;
/// tanh rounds to 1 from here up.
constexpr double tanhHighest = 20.0;
/// erf rounds to 1 from here up.
constexpr double erfHighest = 6.0;
/// f(x) rounds to x for f = expm1, tanh, sin below this magnitude.
constexpr double tinyArgument = 0x1p-54;
/// sin and cos give NaN beyond: the reduction has no more digits of pi.
constexpr double trigLimit = 0x1p30;

constexpr double smallestNormal = 0x1p-1022;
constexpr double subnormalScale = 0x1p54;
/// bits(sqrt(1/2)), below which a significand counts to the exponent before.
constexpr int64_t logSqrtHalfBits = 0x3fe6a09e667f3bcd;
constexpr int64_t oneBits = 0x3ff0000000000000;
/// bits(2^52): or-ing a small integer into it makes 2^52 + that integer.
constexpr int64_t twoTo52Bits = 0x4330000000000000;
constexpr double logExponentOffset = 0x1p52 + 1023;
constexpr double logExponentOffsetTiny = 0x1p52 + 1023 + 54;

constexpr double twoOverPi = 0x1.45f306dc9c883p-1;
/// pi/2 in three parts of 53 bits each.
constexpr double piOver2Parts[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                    -0x1.f1976b7ed8fbcp-110};

/// (e^r - 1 - r - r^2/2) / r^3 on |r| <= 0.34661 (ln2/2), degree 8; the error
/// of e^r is below 2^-57.2.
constexpr double expCoefficients[9] = {
    0x1.555555555555cp-3,  0x1.5555555553167p-5,  0x1.111111110e56bp-7,
    0x1.6c16c17cf55d8p-10, 0x1.a01a01b679be1p-13, 0x1.a019aa91ab818p-16,
    0x1.71dde8704c7bdp-19, 0x1.28a022da0744dp-22, 0x1.af794ef1b728cp-26};

/// (2^f - 1) / f on |f| <= 0.5, degree 10; the error of 2^f is below 2^-55.9,
/// all but 2^-58 of it from rounding ln2.
constexpr double exp2Coefficients[11] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a5p-3,  0x1.c6b08d704a0d7p-5,
    0x1.3b2ab6fb9ff50p-7,  0x1.5d87fe78a0e09p-10, 0x1.4309130f30af8p-13,
    0x1.ffcbfc7c50ab9p-17, 0x1.62bfc6c9ba9edp-20, 0x1.b524cdd9e5fe2p-24,
    0x1.e61cada8cf3ccp-28, 0x1.ea185bf5d312bp-32};

/// The same in float, degree 5; the error of 2^f is below 2^-25.9 (2^-28.9
/// before the coefficients are rounded).
constexpr float exp2CoefficientsFloat[6] = {0x1.62e430p-1f,  0x1.ebfbe0p-3f,
                                            0x1.c6aed0p-5f,  0x1.3b29aap-7f,
                                            0x1.5f47b4p-10f, 0x1.448fc6p-13f};

/// (log((1+s)/(1-s))/s - 2) / z with z = s^2 on 0 <= z <= 0.0295, degree 6;
/// the error of the logarithm is below 2^-61.1.
constexpr double logCoefficients[7] = {
    0x1.55555555555d8p-1, 0x1.999999996db2ep-2, 0x1.2492494f77505p-2,
    0x1.c71c4863b87dap-3, 0x1.746807a1e7037p-3, 0x1.397778b78abf6p-3,
    0x1.309172201fdeap-3};

/// (sin(r)/r - 1) / z with z = r^2 on |r| <= 0.7855 (pi/4), degree 5; the error
/// of sin(r)/r is below 2^-57.2.
constexpr double sinCoefficients[6] = {
    -0x1.5555555555549p-3, 0x1.111111110f87ap-7,   -0x1.a01a019c119acp-13,
    0x1.71de3577b72c9p-19, -0x1.ae5e663aa4466p-26, 0x1.5d9300eec41f9p-33};

/// (cos(r) - 1 + z/2) / z^2 with z = r^2 on |r| <= 0.7855, degree 5; the error
/// of cos(r) is below 2^-59.9.
constexpr double cosCoefficients[6] = {
    0x1.555555555554cp-5,   -0x1.6c16c16c1517ep-10, 0x1.a01a019cb1bdep-16,
    -0x1.27e4f809f07fep-22, 0x1.1ee9ebe8f954ap-29,  -0x1.8fae9c51d2f71p-37};

/// erf(a)/a - 1 in z = a^2 on 0 <= a <= 1, degree 12; error below 2^-55.7.
constexpr double erfCoefficients[13] = {
    0x1.06eba8214db69p-3,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b34p-4,
    -0x1.b82ce31284f35p-6,  0x1.565bcd0dbd8c4p-8,   -0x1.c02db3db488b9p-11,
    0x1.f9a321e4a11ffp-14,  -0x1.f4d1e4333af4ap-17, 0x1.b9df304c0c99cp-20,
    -0x1.5f1f4081cac42p-23, 0x1.f7b9991fed0bdp-27,  -0x1.38ac170d74618p-30,
    0x1.06273f487d1a1p-34};

/// log(erfc(1 + u)) on 0 <= u <= 5, degree 18; the error times erfc(1 + u),
/// that is the error of erf, is below 2^-55.8.
constexpr double erfcLogCoefficients[19] = {
    -0x1.d97fbf27aa2a1p+0,  -0x1.51c9b0006c23bp+1,  -0x1.afabc11a29180p-1,
    -0x1.5477f09c643b9p-5,  0x1.48c9d3fc0535fp-7,   -0x1.033f676c916afp-9,
    0x1.f1b3fdbcb84d1p-13,  0x1.b8d474a2952a2p-16,  -0x1.c793ef34b8273p-16,
    0x1.423715fd63278p-17,  -0x1.13adbd4013705p-19, 0x1.2aad77515a6d3p-23,
    0x1.a9f2a54cf9c1fp-24,  -0x1.c2504fd6d65d5p-25, 0x1.00377a006fae0p-26,
    -0x1.858564f6c5b4ap-29, 0x1.8a76689416f96p-32,  -0x1.e37de62d95b2cp-36,
    0x1.0f8228a8039e1p-40};

} // namespace mixle::math

#endif // MIXLE_MATHCONSTANTS_H
