//===- AttentionScalar.h - Scalar parts of attention ------------*- C++ -*-===//
//
// Internal: constants and scalar steps that every instruction set shares.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_ATTENTIONSCALAR_H
#define MIXLE_RUNTIME_KERNELS_ATTENTIONSCALAR_H

#include "mixle/MathConstants.h"
#include "runtime/kernels/Workspace.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace mixle::runtime::detail {

/// Constants of 2^x for x <= 0 as attention takes it: `shifter`
/// is 1.5·2^(mantissa bits) plus the exponent bias, so x + shifter rounds x to
/// an integer n (halves to odd n) and holds n + bias in its low bits; then
/// exp2Fraction of x − n (mixle/MathConstants.h) times 2^n. x below minExponent
/// gives +0.
template <typename T> struct Exp2Constants;

template <> struct Exp2Constants<float> {
  static constexpr auto &coefficients = math::exp2CoefficientsFloat;
  static constexpr float shifter = math::roundMagicFloat + 127.0f;
  static constexpr float minExponent = -125.0f;
};

template <> struct Exp2Constants<double> {
  static constexpr auto &coefficients = math::exp2Coefficients;
  static constexpr double shifter = math::roundMagic + 1023.0;
  static constexpr double minExponent = -1021.0;
};

/// scale·log2(e), rounded to T from a product in double.
template <typename T> inline T attentionFactor(T scale) {
  return T(double(scale) * math::log2E);
}

/// The integer reference of a maximum: its ceiling, saved in m and returned as
/// a T; NaN and m = 0 where the maximum is not finite or beyond ±2^30.
template <typename T> inline T attentionReference(T maximum, int32_t &m) {
  constexpr T limit = T(1 << 30);
  T ceiling = std::ceil(maximum);
  bool usable = ceiling >= -limit && ceiling <= limit;
  m = usable ? int32_t(ceiling) : 0;
  return usable ? T(m) : std::numeric_limits<T>::quiet_NaN();
}

/// 2^n for n <= 0, +0 where that would be subnormal.
template <typename T> inline T powerOfTwo(int32_t n);

template <> inline float powerOfTwo<float>(int32_t n) {
  uint32_t bits = n < -126 ? 0 : uint32_t(n + 127) << 23;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

template <> inline double powerOfTwo<double>(int32_t n) {
  uint64_t bits = n < -1022 ? 0 : uint64_t(n + 1023) << 52;
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// One block of the thread's scratch, on a cache line.
inline char *attentionScratch(Workspace &workspace, int64_t bytes) {
  return static_cast<char *>(workspace.require(std::size_t(bytes)));
}

} // namespace mixle::runtime::detail

#endif // MIXLE_RUNTIME_KERNELS_ATTENTIONSCALAR_H
