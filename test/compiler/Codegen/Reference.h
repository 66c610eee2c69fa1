//===- Reference.h - Scalar meaning of kernels ------------------*- C++ -*-===//
//
// What a kernel computes, one element after another, in the order that MixleOps.td
// states. Tests compare bit by bit, all NaN being equal.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TEST_CODEGEN_REFERENCE_H
#define MIXLE_TEST_CODEGEN_REFERENCE_H

#include "runtime/kernels/Math.h"
#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace mixle::test {

template <typename T> constexpr const char *typeName() {
  if constexpr (std::is_same_v<T, float>)
    return "f32";
  else if constexpr (std::is_same_v<T, double>)
    return "f64";
  else if constexpr (std::is_same_v<T, int32_t>)
    return "i32";
  else if constexpr (std::is_same_v<T, int64_t>)
    return "i64";
  else
    return "i1"; // uint8_t
}

/// 16 lanes: element i is added to lane i mod 16, then lanes are halved.
template <typename T> class LaneSum {
public:
  void add(T x) {
    lanes[next] = lanes[next] + x;
    next = (next + 1) % 16;
  }
  void addProduct(T x, T y) {
    lanes[next] = std::fma(x, y, lanes[next]);
    next = (next + 1) % 16;
  }
  T total() const {
    std::array<T, 16> l = lanes;
    for (int width = 8; width >= 1; width /= 2)
      for (int i = 0; i < width; ++i)
        l[i] = l[i] + l[i + width];
    return l[0];
  }

private:
  std::array<T, 16> lanes = {};
  int next = 0;
};

/// NaN if either is; -0 is below +0.
template <typename T> T maximum(T x, T y) {
  if (std::isnan(x) || std::isnan(y))
    return std::numeric_limits<T>::quiet_NaN();
  if (x == y)
    return std::signbit(x) ? y : x;
  return x > y ? x : y;
}
template <typename T> T minimum(T x, T y) { return -maximum<T>(-x, -y); }

template <typename T> T silu(T value) {
  double x = value;
  return static_cast<T>(x / (1.0 + math::exp(-x)));
}
inline double geluDenominator(double x) {
  double slope = std::fma(-2.0 * (0.79788456080286535588 * 0.044715), x * x,
                          -2.0 * 0.79788456080286535588);
  return 1.0 + math::exp(x * slope);
}
template <typename T> T gelu(T value, bool tanh) {
  double x = value;
  if (tanh)
    return static_cast<T>(x / geluDenominator(x));
  double half = x * 0.5;
  return static_cast<T>(
      std::fma(half, math::erf(x * 0.70710678118654752440), half));
}
template <typename T> T geluGrad(T value, T cotangent, bool tanh) {
  double x = value, slope;
  if (tanh) {
    double s = 1.0 / geluDenominator(x);
    double inner = std::fma(6.0 * (0.79788456080286535588 * 0.044715), x * x,
                            2.0 * 0.79788456080286535588);
    slope = std::fma((x * s) * (1.0 - s), inner, s);
  } else {
    double phi = std::fma(0.5, math::erf(x * 0.70710678118654752440), 0.5);
    slope = std::fma(x * 0.39894228040143267794,
                     math::exp((x * x) * -0.5), phi);
  }
  return static_cast<T>(slope * static_cast<double>(cotangent));
}

template <typename T> bool sameBits(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(x) && std::isnan(y))
      return true;
  return std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <typename T>
void expectSame(const std::vector<T> &got, const std::vector<T> &expected,
                const std::string &what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  int shown = 0;
  for (size_t i = 0; i < got.size() && shown < 4; ++i) {
    if (sameBits(got[i], expected[i]))
      continue;
    ++shown;
    ADD_FAILURE() << what << " at " << i << " of " << got.size() << ": got "
                  << +got[i] << ", expected " << +expected[i];
  }
}

/// Numbers of both signs and many magnitudes, and the special ones.
template <typename T> std::vector<T> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0,
                            1e-40, 1e300, -1e30, 88.5, -103.9, 0.5};
  for (size_t i = 0; i < count; ++i) {
    double x = std::normal_distribution<double>(0, 2)(random);
    if (random() % 8 == 0)
      x *= std::exp2(static_cast<int>(random() % 60) - 30);
    if (random() % 16 == 0)
      x = special[random() % (sizeof(special) / sizeof(special[0]))];
    values[i] = static_cast<T>(x);
  }
  return values;
}

/// Numbers without special ones.
template <typename T>
std::vector<T> plainNumbers(size_t count, unsigned seed, double scale = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(count);
  for (T &value : values)
    value = static_cast<T>(normal(random));
  return values;
}

/// An output buffer whose end is guarded: writes beyond it show.
template <typename T> class Output {
public:
  explicit Output(size_t count) : count(count), storage(count + 32, marker()) {}
  void *data() { return storage.data(); }
  std::vector<T> values() const {
    for (size_t i = count; i < storage.size(); ++i)
      EXPECT_TRUE(sameBits(storage[i], marker())) << "written past the end";
    return std::vector<T>(storage.begin(), storage.begin() + count);
  }

private:
  static T marker() { return static_cast<T>(77); }
  size_t count;
  std::vector<T> storage;
};

} // namespace mixle::test

#endif // MIXLE_TEST_CODEGEN_REFERENCE_H
