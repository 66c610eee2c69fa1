//===- Random.cpp - Counter-based random numbers --------------------------===//

#include "runtime/kernels/Random.h"
#include "runtime/kernels/Math.h"

#include <cmath>

namespace mixle::runtime {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * counter[0];
    const uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::array<uint32_t, 4> philoxElement(uint64_t seed, uint64_t id,
                                      uint64_t index) {
  return philox4x32(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
       static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

namespace {

/// The upper 53 of 64 bits.
uint64_t significand(uint32_t low, uint32_t high) {
  return (uint64_t(high) << 32 | low) >> 11;
}

} // namespace

template <typename T>
void philoxUniform(uint64_t seed, uint64_t id, uint64_t first, int64_t count,
                   double low, double high, T *out) {
  const T bound = static_cast<T>(high);
  const T below = std::nextafter(bound, static_cast<T>(low));
  for (int64_t i = 0; i < count; ++i) {
    const std::array<uint32_t, 4> w = philoxElement(seed, id, first + i);
    const double u = static_cast<double>(significand(w[0], w[1])) * 0x1p-53;
    const T value = static_cast<T>(std::fma(u, high - low, low));
    out[i] = value < bound ? value : below;
  }
}

template <typename T>
void philoxNormal(uint64_t seed, uint64_t id, uint64_t first, int64_t count,
                  double mean, double deviation, T *out) {
  constexpr double twoPi = 4.0 * math::piOver2Parts[0];
  for (int64_t i = 0; i < count; ++i) {
    const std::array<uint32_t, 4> w = philoxElement(seed, id, first + i);
    // In (0, 1], so that the logarithm is finite.
    const double u = static_cast<double>(significand(w[0], w[1]) + 1) * 0x1p-53;
    const double v = static_cast<double>(significand(w[2], w[3])) * 0x1p-53;
    const double radius = std::sqrt(-2.0 * math::log(u));
    const double z = radius * math::cos(twoPi * v);
    out[i] = static_cast<T>(std::fma(deviation, z, mean));
  }
}

#define MIXLE_INSTANTIATE(T)                                                   \
  template void philoxUniform<T>(uint64_t, uint64_t, uint64_t, int64_t,        \
                                 double, double, T *);                         \
  template void philoxNormal<T>(uint64_t, uint64_t, uint64_t, int64_t, double, \
                                double, T *);
MIXLE_INSTANTIATE(float)
MIXLE_INSTANTIATE(double)
#undef MIXLE_INSTANTIATE

} // namespace mixle::runtime
