//===- TileScalar.h - One element of an accumulation ------------*- C++ -*-===//
//
// The conversion of block results to integers, element by element. The vector
// kernels use it wherever a tile is ragged or holds a value outside the fast
// range, and tests use it as the definition.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_TILESCALAR_H
#define MIXLE_RUNTIME_KERNELS_TILESCALAR_H

#include "mixle/MathConstants.h"
#include "runtime/kernels/Tile.h"

#include <cmath>
#include <cstring>

namespace mixle::runtime {

/// Fraction bits of the low limb of a double: |low| <= 2^31 per block, so that
/// 2^32 blocks cannot overflow it.
constexpr int lowLimbBits = 32;
/// Scaled values are clamped to +-2^62; a step that has one is rerun or
/// refused.
constexpr double scaledLimit = 0x1p62;
/// Below this magnitude, adding roundMagic rounds to an integer.
constexpr int fastBits = 51;
constexpr int64_t roundMagicBits = 0x4338000000000000;

template <typename T> inline BitsOf<T> magnitudeBits(T x) {
  BitsOf<T> bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits & (~BitsOf<T>(0) >> 1);
}

template <typename T> constexpr BitsOf<T> infinityBits();
template <> constexpr uint32_t infinityBits<float>() { return 0x7f800000u; }
template <> constexpr uint64_t infinityBits<double>() {
  return 0x7ff0000000000000u;
}

/// The bits of 2^exponent, infinity where it overflows.
template <typename T> inline BitsOf<T> powerBits(int exponent) {
  const T power = static_cast<T>(std::ldexp(1.0, exponent));
  return magnitudeBits(power);
}

/// high += rint(2^e x) and, where `low` is given, low += rint((2^e x - high)
/// 2^32); ties to even; zero for infinity and NaN. `scale` is 2^e.
template <typename T>
inline void addRoundedOne(int64_t *high, int64_t *low, T x, double scale) {
  if (magnitudeBits(x) >= infinityBits<T>())
    return;
  double v = static_cast<double>(x) * scale;
  v = v > scaledLimit ? scaledLimit : v;
  v = v < -scaledLimit ? -scaledLimit : v;
  const double h = std::nearbyint(v);
  *high += static_cast<int64_t>(h);
  if (low)
    *low += static_cast<int64_t>(std::nearbyint((v - h) * 0x1p32));
}

template <typename T>
inline void raiseMaximum(BitsOf<T> *maximum, BitsOf<T> value) {
  if (value > *maximum)
    *maximum = value;
}

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_TILESCALAR_H
