//===- RandomTest.cpp - Philox and what is drawn from it ------------------===//

#include "runtime/kernels/Random.h"
#include "TestSupport.h"

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ((Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}),
            philox4x32({0, 0, 0, 0}, {0, 0}));
  EXPECT_EQ((Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}),
            philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}));
  EXPECT_EQ((Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
            philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}));
}

TEST(Philox, ElementsAreKeyedBySeedIdAndIndex) {
  EXPECT_EQ(philox4x32({0x89abcdef, 0x01234567, 5, 6}, {7, 8}),
            philoxElement(0x800000007, 0x600000005, 0x0123456789abcdef));
}

template <typename T> class RandomTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RandomTest, Types);

TYPED_TEST(RandomTest, AnyShardMakesItsOwnElements) {
  using T = TypeParam;
  std::vector<T> all(1000), part(1);
  philoxNormal<T>(1, 2, 0, 1000, 0.5, 2, all.data());
  for (int64_t i : {0, 1, 17, 999}) {
    philoxNormal<T>(1, 2, i, 1, 0.5, 2, part.data());
    EXPECT_EQ(all[i], part[0]);
  }
  philoxUniform<T>(1, 2, 0, 1000, -1, 1, all.data());
  for (int64_t i : {0, 1, 17, 999}) {
    philoxUniform<T>(1, 2, i, 1, -1, 1, part.data());
    EXPECT_EQ(all[i], part[0]);
  }
}

TYPED_TEST(RandomTest, IdsAndSeedsDiffer) {
  using T = TypeParam;
  T a, b, c;
  philoxNormal<T>(1, 2, 0, 1, 0, 1, &a);
  philoxNormal<T>(1, 3, 0, 1, 0, 1, &b);
  philoxNormal<T>(2, 2, 0, 1, 0, 1, &c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

TYPED_TEST(RandomTest, Moments) {
  using T = TypeParam;
  constexpr int64_t n = 1 << 18;
  std::vector<T> x(n);
  const auto moment = [&](double center, int power) {
    double sum = 0;
    for (T v : x)
      sum += std::pow(double(v) - center, power);
    return sum / n;
  };
  // Six standard errors of each moment.
  philoxNormal<T>(11, 5, 0, n, 3, 2, x.data());
  EXPECT_NEAR(3, moment(0, 1), 6 * 2 / std::sqrt(double(n)));
  EXPECT_NEAR(4, moment(3, 2), 6 * 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(0, moment(3, 3), 6 * 8 * std::sqrt(15.0 / n));
  EXPECT_NEAR(48, moment(3, 4), 6 * 16 * std::sqrt(96.0 / n));
  philoxUniform<T>(11, 5, 0, n, -1, 3, x.data());
  EXPECT_NEAR(1, moment(0, 1), 6 * std::sqrt(4.0 / 3 / n));
  EXPECT_NEAR(4.0 / 3, moment(1, 2), 6 * std::sqrt(64.0 / 45 / n));
}

TYPED_TEST(RandomTest, UniformStaysBelowItsUpperEnd) {
  using T = TypeParam;
  // One unit in the last place wide: rounding alone would give the end half the
  // time.
  const T low = 1, high = std::nextafter(T(1), T(2));
  std::vector<T> x(1000);
  philoxUniform<T>(1, 1, 0, 1000, low, high, x.data());
  for (T v : x)
    EXPECT_EQ(low, v);
}

TEST(Random, BitsAreFixed) {
  // From the first version; a change here changes every initialisation.
  float f[2];
  double d[2];
  philoxNormal<float>(42, 7, 1000000, 2, 0, 0.02, f);
  philoxNormal<double>(42, 7, 1000000, 2, 0, 0.02, d);
  EXPECT_EQ(f[0], float(d[0]));
  EXPECT_EQ(f[1], float(d[1]));
  philoxUniform<double>(0, 0, 0, 1, 0, 1, d);
  EXPECT_EQ(double(0xe169c58d6627e8d5u >> 11) * 0x1p-53, d[0]);
}

} // namespace
