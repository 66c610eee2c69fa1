//===- UnitTest.cpp - When a unit is kept, rerun or refused ---------------===//

#include "TestSupport.h"
#include "runtime/kernels/Accumulate.h"

#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

template <typename T>
UnitDecision decide(int32_t exponent, T amax, uint64_t blocks,
                    bool oneToken = false) {
  return decideUnit<T>(exponent, bitsOf(amax), blocks, oneToken);
}

template <typename T> class UnitTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(UnitTest, Types);

TYPED_TEST(UnitTest, KeepsWithinBothBoundsOnly) {
  using T = TypeParam;
  // Unit 2^-20, 8 blocks: at most 2^62-3-20 = 2^39, at least 2^5.
  EXPECT_EQ(UnitDecision::keep, decide<T>(20, T(0x1p39), 8).action);
  EXPECT_EQ(UnitDecision::rerun,
            decide<T>(20, std::nextafter(T(0x1p39), T(0x1p60)), 8).action);
  EXPECT_EQ(UnitDecision::keep, decide<T>(20, T(32), 8).action);
  EXPECT_EQ(UnitDecision::rerun,
            decide<T>(20, std::nextafter(T(32), T(0)), 8).action);
  EXPECT_EQ(20, decide<T>(20, T(32), 8).scaleExponent);
}

TYPED_TEST(UnitTest, NewUnitLeavesTheMargin) {
  using T = TypeParam;
  // 8 * 1 * 2^12 = 2^62 u, u = 2^-47; one-token blocks: u = 2^-51.
  EXPECT_EQ(47, decide<T>(unsetScaleExponent, T(1), 8).scaleExponent);
  EXPECT_EQ(51, decide<T>(unsetScaleExponent, T(1), 8, true).scaleExponent);
  // Not a power of two: rounded to the coarser unit.
  EXPECT_EQ(46, decide<T>(unsetScaleExponent, T(1.25), 8).scaleExponent);
  EXPECT_EQ(46, decide<T>(unsetScaleExponent, T(1), 9).scaleExponent);
}

TYPED_TEST(UnitTest, OneRerunSuffices) {
  using T = TypeParam;
  Values values(1);
  for (int i = 0; i < 20000; ++i) {
    const T amax = std::ldexp(std::fabs(values.value<T>()) + T(0x1p-20),
                              int(values.integer(-140, 100)));
    if (amax == 0 || !std::isfinite(amax))
      continue;
    const uint64_t blocks = uint64_t(1) << values.integer(0, 40);
    const bool oneToken = values.integer(0, 1);
    const int32_t before =
        i % 5 ? int32_t(values.integer(-126, 126)) : unsetScaleExponent;
    const UnitDecision first = decide<T>(before, amax, blocks, oneToken);
    EXPECT_GE(first.scaleExponent, minScaleExponent);
    EXPECT_LE(first.scaleExponent, maxScaleExponent);
    const UnitDecision second =
        decide<T>(first.scaleExponent, amax, blocks, oneToken);
    EXPECT_EQ(UnitDecision::keep, second.action)
        << double(amax) << " " << blocks;
    EXPECT_EQ(first.scaleExponent, second.scaleExponent);
    // And the sums fit.
    EXPECT_LE(std::ldexp((long double)amax, first.scaleExponent) * blocks,
              0x1p62L);
  }
}

TYPED_TEST(UnitTest, ZeroKeepsAndUnsetReruns) {
  using T = TypeParam;
  EXPECT_EQ(UnitDecision::keep, decide<T>(17, T(0), 8).action);
  EXPECT_EQ(17, decide<T>(17, T(0), 8).scaleExponent);
  EXPECT_EQ(UnitDecision::keep, decide<T>(unsetScaleExponent, T(0), 8).action);
  EXPECT_EQ(unsetScaleExponent,
            decide<T>(unsetScaleExponent, T(0), 8).scaleExponent);
  EXPECT_EQ(UnitDecision::rerun, decide<T>(unsetScaleExponent, T(1), 8).action);
}

TYPED_TEST(UnitTest, TinyGradientsEndAtTheFinestUnit) {
  using T = TypeParam;
  const T tiny = T(0x1p-120);
  EXPECT_EQ(126, decide<T>(20, tiny, 8).scaleExponent);
  EXPECT_EQ(UnitDecision::keep, decide<T>(126, tiny, 8).action);
}

TYPED_TEST(UnitTest, NonFiniteNeitherRerunsNorCommits) {
  using T = TypeParam;
  for (int32_t exponent : {unsetScaleExponent, 10}) {
    EXPECT_EQ(
        UnitDecision::nonFinite,
        decide<T>(exponent, std::numeric_limits<T>::infinity(), 8).action);
    EXPECT_EQ(
        UnitDecision::nonFinite,
        decide<T>(exponent, std::numeric_limits<T>::quiet_NaN(), 8).action);
  }
}

TEST(Unit, LargestFloatHasAUnit) {
  const UnitDecision d =
      decide<float>(10, std::numeric_limits<float>::max(), 1 << 20);
  EXPECT_EQ(UnitDecision::rerun, d.action);
  EXPECT_EQ(-(128 + 20 + 12 - 62), d.scaleExponent);
}

TEST(Unit, HugeDoublesHaveNone) {
  EXPECT_EQ(UnitDecision::outOfRange, decide<double>(10, 0x1p200, 8).action);
  EXPECT_EQ(UnitDecision::rerun, decide<double>(10, 0x1p185, 8).action);
  EXPECT_EQ(-126, decide<double>(10, 0x1p185, 8).scaleExponent);
}

} // namespace
