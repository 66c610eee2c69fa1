//===- Math.h - Elementary functions with fixed bits ------------*- C++ -*-===//
//
// The sequences that mixle/MathConstants.h states, on scalars. Every function
// is free of branches and always inlined, so that loops over it vectorise in
// whatever target the caller is compiled for; the bits are the same in all of
// them. Round-to-nearest mode is assumed. Maximum errors in units in the last
// place, measured against long double on millions of points (MathTest keeps
// them below 1.2): exp 1.03, exp2 0.88, log 0.85, log1p 0.82, expm1 1.10, tanh
// 0.92, sin 0.79, cos 0.82 (|x| <= 1e9), erf 1.13, exp2Fraction in float 0.96.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_MATH_H
#define MIXLE_RUNTIME_KERNELS_MATH_H

#include "mixle/MathConstants.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#define MIXLE_INLINE inline __attribute__((always_inline))

namespace mixle::math {

MIXLE_INLINE int64_t bitsOf(double x) {
  int64_t i;
  std::memcpy(&i, &x, sizeof(i));
  return i;
}

MIXLE_INLINE double valueOf(int64_t i) {
  double x;
  std::memcpy(&x, &i, sizeof(x));
  return x;
}

/// i << k without the undefined behaviour of shifting negative numbers.
MIXLE_INLINE int64_t shiftLeft(int64_t i, int k) {
  return static_cast<int64_t>(static_cast<uint64_t>(i) << k);
}

MIXLE_INLINE double absolute(double x) {
  return valueOf(bitsOf(x) & std::numeric_limits<int64_t>::max());
}

/// `magnitude`, not negative, with the sign bit of `x`.
MIXLE_INLINE double withSign(double magnitude, double x) {
  return valueOf(bitsOf(magnitude) |
                 (bitsOf(x) & std::numeric_limits<int64_t>::min()));
}

template <typename T, int n> MIXLE_INLINE T horner(const T (&c)[n], T x) {
  T p = c[n - 1];
#pragma GCC unroll 32
  for (int i = n - 2; i >= 0; --i)
    p = std::fma(p, x, c[i]);
  return p;
}

/// y * 2^n for an integral n of at most 1100 in magnitude, rounded once.
MIXLE_INLINE double scaleByPower(double y, double n) {
  const double t1 = std::fma(n, 0.5, roundMagic);
  const double n1 = t1 - roundMagic;
  const double t2 = (n - n1) + roundMagic;
  const double s1 = valueOf(shiftLeft(bitsOf(t1) + 1023, 52));
  const double s2 = valueOf(shiftLeft(bitsOf(t2) + 1023, 52));
  return (y * s1) * s2;
}

MIXLE_INLINE double exp(double x) {
  x = x > expHighest ? expHighest : x;
  x = x < expLowest ? expLowest : x;
  const double n = std::fma(x, log2E, roundMagic) - roundMagic;
  double r = std::fma(n, -ln2High, x);
  r = std::fma(n, -ln2Low, r);
  const double p = std::fma(horner(expCoefficients, r), r, 0.5);
  return scaleByPower(1.0 + std::fma(r * r, p, r), n);
}

/// 2^f for |f| <= 0.5: what is left of exp once an integral power of two is
/// taken out. Attention's inner loop.
MIXLE_INLINE double exp2Fraction(double f) {
  return std::fma(horner(exp2Coefficients, f), f, 1.0);
}
MIXLE_INLINE float exp2Fraction(float f) {
  return std::fma(horner(exp2CoefficientsFloat, f), f, 1.0f);
}

MIXLE_INLINE double exp2(double x) {
  x = x > exp2Highest ? exp2Highest : x;
  x = x < exp2Lowest ? exp2Lowest : x;
  const double n = (x + roundMagic) - roundMagic;
  return scaleByPower(exp2Fraction(x - n), n);
}

/// log(u) + c/u for u > 0; `withRest` says whether there is a c.
template <bool withRest> MIXLE_INLINE double log1pParts(double u, double c) {
  const bool tiny = u < smallestNormal;
  const double u1 = tiny ? u * subnormalScale : u;
  const double offset = tiny ? logExponentOffsetTiny : logExponentOffset;
  const uint64_t bits = static_cast<uint64_t>(bitsOf(u1));
  const uint64_t bias = static_cast<uint64_t>(oneBits);
  const uint64_t e =
      (bits - static_cast<uint64_t>(logSqrtHalfBits) + bias) >> 52;
  const double m = valueOf(static_cast<int64_t>(bits - (e << 52) + bias));
  const double k =
      valueOf(static_cast<int64_t>(e | static_cast<uint64_t>(twoTo52Bits))) -
      offset;
  const double f = m - 1.0;
  const double s = f / (f + 2.0);
  const double z = s * s;
  const double R = z * horner(logCoefficients, z);
  const double h = (f * 0.5) * f;
  const double low = withRest ? std::fma(k, ln2Low, c / u) : k * ln2Low;
  const double w = std::fma(s, h + R, low);
  return std::fma(k, ln2High, f - (h - w));
}

MIXLE_INLINE double log(double x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double y = log1pParts<false>(x, 0.0);
  y = x == 0.0 ? -infinity : y;
  y = x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : y;
  return x < infinity ? y : x;
}

MIXLE_INLINE double log1p(double x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double u = x + 1.0;
  const double b = u - 1.0;
  const double c = (1.0 - (u - b)) + (x - b);
  double y = log1pParts<true>(u, c);
  y = x == -1.0 ? -infinity : y;
  y = x < -1.0 ? std::numeric_limits<double>::quiet_NaN() : y;
  y = x == 0.0 ? x : y;
  return x < infinity ? y : x;
}

/// (e^x - 1) / 2 = high + low for -40 <= x <= 710.
MIXLE_INLINE void expm1Half(double x, double &high, double &low) {
  const double n = std::fma(x, log2E, roundMagic) - roundMagic;
  const double t1 = n + roundMagic;
  const double a = std::fma(n, -ln2High, x);
  const double r = std::fma(n, -ln2Low, a);
  const double c = std::fma(n, -ln2Low, a - r);
  const double p = std::fma(horner(expCoefficients, r), r, 0.5);
  const double v = std::fma(r * r, p, std::fma(c, r, c));
  const double t = r + v;
  const double tl = (r - t) + v;
  const double s = valueOf(shiftLeft(bitsOf(t1) + 1022, 52));
  const double A = s - 0.5;
  const double B = s * t;
  high = A + B;
  const double b = high - A;
  low = std::fma(s, tl, (A - (high - b)) + (B - b));
}

MIXLE_INLINE double expm1(double x) {
  double y = x > expHighest ? expHighest : x;
  y = y < expm1Lowest ? expm1Lowest : y;
  double high, low;
  expm1Half(y, high, low);
  return absolute(x) < tinyArgument ? x : 2.0 * (high + low);
}

MIXLE_INLINE double tanh(double x) {
  const double a = absolute(x);
  const double b = a > tanhHighest ? tanhHighest : a;
  double high, low;
  expm1Half(2.0 * b, high, low);
  const double d = high + 1.0;
  const double g = d - high;
  const double dl = ((high - (d - g)) + (1.0 - g)) + low;
  const double i = 1.0 / d;
  const double q = high * i;
  const double e = std::fma(-q, dl, std::fma(-q, d, high) + low);
  double y = std::fma(e, i, q);
  y = a < tinyArgument ? a : y;
  return withSign(y, x);
}

/// sin and cos of the rest of x after `t` quarter turns (in t's low bits).
MIXLE_INLINE void trigParts(double x, int64_t &quarter, double &sine,
                            double &cosine) {
  const double t = std::fma(x, twoOverPi, roundMagic);
  const double n = t - roundMagic;
  quarter = bitsOf(t);
  const double a = std::fma(n, -piOver2Parts[0], x);
  const double w = n * piOver2Parts[1];
  const double wl = std::fma(n, piOver2Parts[1], -w);
  const double r = a - w;
  const double b = a - r;
  const double rl =
      std::fma(n, -piOver2Parts[2], ((b - w) + (a - (r + b))) - wl);
  const double z = r * r;
  const double S =
      std::fma(z, std::fma(-0.5, rl, r * horner(sinCoefficients, z)), rl);
  sine = r + S;
  const double C = std::fma(z * z, horner(cosCoefficients, z), -(r * rl));
  const double h = z * 0.5;
  const double g = 1.0 - h;
  cosine = g + (((1.0 - g) - h) + C);
}

MIXLE_INLINE double sin(double x) {
  int64_t quarter;
  double sine, cosine;
  trigParts(x, quarter, sine, cosine);
  double y = (quarter & 1) != 0 ? cosine : sine;
  y = (quarter & 2) != 0 ? -y : y;
  const double a = absolute(x);
  y = a < tinyArgument ? x : y;
  return a <= trigLimit ? y : std::numeric_limits<double>::quiet_NaN();
}

MIXLE_INLINE double cos(double x) {
  int64_t quarter;
  double sine, cosine;
  trigParts(x, quarter, sine, cosine);
  double y = (quarter & 1) != 0 ? sine : cosine;
  y = ((quarter + 1) & 2) != 0 ? -y : y;
  return absolute(x) <= trigLimit ? y
                                  : std::numeric_limits<double>::quiet_NaN();
}

MIXLE_INLINE double erf(double x) {
  const double a = absolute(x);
  const double small = std::fma(a, horner(erfCoefficients, a * a), a);
  const double b = a > erfHighest ? erfHighest : a;
  const double large = 1.0 - exp(horner(erfcLogCoefficients, b - 1.0));
  return withSign(a < 1.0 ? small : large, x);
}

/// x^n by repeated squaring.
inline double powInt(double x, int64_t n) {
  uint64_t k = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  double y = 1.0, b = x;
  while (k != 0) {
    if (k & 1)
      y = y * b;
    k >>= 1;
    if (k != 0)
      b = b * b;
  }
  return n < 0 ? 1.0 / y : y;
}

MIXLE_INLINE float exp(float x) { return static_cast<float>(exp(double(x))); }
MIXLE_INLINE float exp2(float x) { return static_cast<float>(exp2(double(x))); }
MIXLE_INLINE float log(float x) { return static_cast<float>(log(double(x))); }
MIXLE_INLINE float log1p(float x) {
  return static_cast<float>(log1p(double(x)));
}
MIXLE_INLINE float expm1(float x) {
  return static_cast<float>(expm1(double(x)));
}
MIXLE_INLINE float tanh(float x) { return static_cast<float>(tanh(double(x))); }
MIXLE_INLINE float sin(float x) { return static_cast<float>(sin(double(x))); }
MIXLE_INLINE float cos(float x) { return static_cast<float>(cos(double(x))); }
MIXLE_INLINE float erf(float x) { return static_cast<float>(erf(double(x))); }
inline float powInt(float x, int64_t n) {
  return static_cast<float>(powInt(double(x), n));
}

} // namespace mixle::math

#endif // MIXLE_RUNTIME_KERNELS_MATH_H
