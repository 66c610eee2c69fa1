//===- TestSupport.h - What the kernels' tests share ------------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_KERNELS_TESTSUPPORT_H
#define MIXLE_TEST_RUNTIME_KERNELS_TESTSUPPORT_H

#include "runtime/kernels/Isa.h"
#include "runtime/kernels/Tile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace mixle::runtime::test {

/// The instruction sets of this machine; what it lacks is not tested here.
inline std::vector<Isa> supportedIsas() {
  std::vector<Isa> result;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (isSupported(isa))
      result.push_back(isa);
  return result;
}

template <typename T> BitsOf<T> bitsOf(T x) {
  BitsOf<T> bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

/// Equal bit for bit, but for the payload of NaN.
template <typename T> bool sameBits(T a, T b) {
  return bitsOf(a) == bitsOf(b) || (std::isnan(a) && std::isnan(b));
}

template <typename T>
::testing::AssertionResult sameBits(const std::vector<T> &expected,
                                    const std::vector<T> &got) {
  if (expected.size() != got.size())
    return ::testing::AssertionFailure()
           << "sizes " << expected.size() << " and " << got.size();
  for (size_t i = 0; i < expected.size(); ++i)
    if (!sameBits(expected[i], got[i]))
      return ::testing::AssertionFailure()
             << "element " << i << ": expected " << std::hexfloat
             << double(expected[i]) << ", got " << double(got[i]);
  return ::testing::AssertionSuccess();
}

class Values {
public:
  explicit Values(uint64_t seed) : engine(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % uint64_t(high - low + 1));
  }
  /// Signed values over some decades, so that sums round at every step.
  template <typename T> T value() {
    const double u = static_cast<double>(engine() >> 11) * 0x1p-52 - 1.0;
    return static_cast<T>(std::ldexp(u, static_cast<int>(engine() % 8)));
  }
  template <typename T> std::vector<T> values(int64_t count) {
    std::vector<T> result(count);
    for (T &x : result)
      x = value<T>();
    return result;
  }
  std::mt19937_64 engine;
};

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_KERNELS_TESTSUPPORT_H
