//===- AccumulateTest.cpp - Integer sums against a scalar reference -------===//

#include "runtime/kernels/Accumulate.h"
#include "TestSupport.h"

#include <algorithm>
#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

/// Accumulator storage of one test.
template <typename T> struct Sums {
  std::vector<int64_t> high, low;
  BitsOf<T> amax = 0;
  int32_t exponent;

  Sums(int64_t count, int32_t exponent)
      : high(count, 0), low(sizeof(T) == 8 ? count : 0, 0), exponent(exponent) {
  }
  Accumulator<T> view() {
    return {high.data(), low.empty() ? nullptr : low.data(), exponent, &amax};
  }
  bool operator==(const Sums &o) const {
    return high == o.high && low == o.low && amax == o.amax;
  }
};

/// The definition: a block result into limbs, in long double and __int128 only.
template <typename T> void addReference(Sums<T> &sums, int64_t at, T x) {
  sums.amax = std::max(sums.amax, BitsOf<T>(bitsOf(x) & (~BitsOf<T>(0) >> 1)));
  if (!std::isfinite(x))
    return;
  // 64 bits of significand hold any T times a power of two.
  long double v = std::ldexp((long double)x, sums.exponent);
  v = std::min(std::max(v, -0x1p62L), 0x1p62L);
  const long double h = std::nearbyint(v);
  sums.high[at] += int64_t(h);
  if (!sums.low.empty())
    sums.low[at] += int64_t(std::nearbyint((v - h) * 0x1p32L));
}

template <typename T>
Sums<T> dotReference(const TokenBlocks &tokens, int64_t k, int64_t n,
                     const std::vector<T> &x, const std::vector<T> &y,
                     int32_t exponent) {
  Sums<T> sums(k * n, exponent);
  for (int64_t s = 0; s < tokens.sequences; ++s)
    for (int64_t b = 0; b < tokens.tokensPerSequence; b += tokens.blockLength)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) {
          T sum = 0;
          for (int64_t t = b;
               t < std::min(b + tokens.blockLength, tokens.tokensPerSequence);
               ++t) {
            const int64_t row = s * tokens.tokensPerSequence + t;
            sum = std::fma(x[row * k + i], y[row * n + j], sum);
          }
          addReference(sums, i * n + j, sum);
        }
  return sums;
}

template <typename T> class AccumulateTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AccumulateTest, Types);

TYPED_TEST(AccumulateTest, RandomShapes) {
  using T = TypeParam;
  Values values(1);
  Workspace workspace;
  for (int i = 0; i < 150; ++i) {
    const TokenBlocks tokens{values.integer(1, 4), values.integer(1, 70),
                             values.integer(1, 40)};
    const int64_t k = values.integer(1, 33), n = values.integer(1, 40);
    const int32_t exponent = int32_t(values.integer(10, 40));
    const int64_t rows = tokens.sequences * tokens.tokensPerSequence;
    const std::vector<T> x = values.values<T>(rows * k);
    const std::vector<T> y = values.values<T>(rows * n);
    const Sums<T> expected = dotReference(tokens, k, n, x, y, exponent);
    for (Isa isa : supportedIsas()) {
      Sums<T> got(k * n, exponent);
      accumulateDot<T>(tokens, k, n, x.data(), k, y.data(), n, got.view(), n,
                       workspace, isa);
      EXPECT_TRUE(expected == got) << isaName(isa) << " case " << i;
    }
  }
}

TYPED_TEST(AccumulateTest, LargeShapesCrossStretchesAndGroups) {
  using T = TypeParam;
  Values values(2);
  Workspace workspace;
  const TokenBlocks tokens{3, 1500, 128};
  const int64_t k = 55, n = 530;
  const std::vector<T> x = values.values<T>(4500 * k);
  const std::vector<T> y = values.values<T>(4500 * n);
  const Sums<T> expected = dotReference(tokens, k, n, x, y, 30);
  for (Isa isa : supportedIsas()) {
    Sums<T> got(k * n, 30);
    accumulateDot<T>(tokens, k, n, x.data(), k, y.data(), n, got.view(), n,
                     workspace, isa);
    EXPECT_TRUE(expected == got) << isaName(isa);
  }
}

TYPED_TEST(AccumulateTest, ABlockLongerThanAStretch) {
  using T = TypeParam;
  Values values(3);
  Workspace workspace;
  const TokenBlocks tokens{1, 2500, 2500};
  const std::vector<T> x = values.values<T>(2500 * 3);
  const std::vector<T> y = values.values<T>(2500 * 20);
  const Sums<T> expected = dotReference(tokens, 3, 20, x, y, 30);
  for (Isa isa : supportedIsas()) {
    Sums<T> got(3 * 20, 30);
    accumulateDot<T>(tokens, 3, 20, x.data(), 3, y.data(), 20, got.view(), 20,
                     workspace, isa);
    EXPECT_TRUE(expected == got) << isaName(isa);
  }
}

TYPED_TEST(AccumulateTest, AnySplitOfSequencesIntoCallsGivesEqualIntegers) {
  using T = TypeParam;
  Values values(4);
  Workspace workspace;
  const int64_t k = 13, n = 21, sequences = 12, length = 50;
  const std::vector<T> x = values.values<T>(sequences * length * k);
  const std::vector<T> y = values.values<T>(sequences * length * n);
  Sums<T> whole(k * n, 30);
  accumulateDot<T>({sequences, length, 16}, k, n, x.data(), k, y.data(), n,
                   whole.view(), n, workspace);
  for (int i = 0; i < 20; ++i) {
    // Parts in any order, each into its own accumulator or a shared one.
    std::vector<int64_t> cuts = {0, sequences};
    for (int c = 0; c < 3; ++c)
      cuts.push_back(values.integer(0, sequences));
    std::sort(cuts.begin(), cuts.end());
    Sums<T> sum(k * n, 30), other(k * n, 30);
    for (size_t c = cuts.size() - 1; c-- > 0;) {
      const int64_t first = cuts[c] * length;
      accumulateDot<T>({cuts[c + 1] - cuts[c], length, 16}, k, n,
                       x.data() + first * k, k, y.data() + first * n, n,
                       (c % 2 ? sum : other).view(), n, workspace);
    }
    for (int64_t j = 0; j < k * n; ++j) {
      sum.high[j] += other.high[j];
      if (!sum.low.empty())
        sum.low[j] += other.low[j];
    }
    sum.amax = std::max(sum.amax, other.amax);
    EXPECT_TRUE(whole == sum);
  }
}

TYPED_TEST(AccumulateTest, SumsOfSmallIntegersAreExact) {
  using T = TypeParam;
  // x = 1 and y = its row number: every sum is known in closed form.
  const int64_t rows = 300, n = 19;
  std::vector<T> x(rows, T(1)), y(rows * n);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t j = 0; j < n; ++j)
      y[t * n + j] = T(t - j);
  Workspace workspace;
  for (Isa isa : supportedIsas()) {
    Sums<T> sums(n, 3);
    accumulateDot<T>({2, 150, 64}, 1, n, x.data(), 1, y.data(), n, sums.view(),
                     n, workspace, isa);
    accumulateRows<T>(rows, n, y.data(), n, sums.view(), isa);
    std::vector<T> out(n);
    resolve<T>(n, sums.high.data(), sums.low.data(), 3, T(2), out.data());
    for (int64_t j = 0; j < n; ++j)
      EXPECT_EQ(T(rows * (rows - 1) / 2 - rows * j), out[j]);
  }
}

/// Values in every range of the conversion: ties, huge, tiny, not finite.
template <typename T> std::vector<T> extremeValues(Values &values) {
  std::vector<T> x;
  for (int e = std::numeric_limits<T>::min_exponent - 30;
       e <= std::numeric_limits<T>::max_exponent; e += sizeof(T) == 4 ? 1 : 5)
    for (int i = 0; i < 6; ++i)
      x.push_back(std::ldexp(values.value<T>() / 128, e));
  for (int i = -9; i < 9; ++i)
    x.push_back(T(i) / 2);
  for (int e : {50, 51, 52, 53, 61, 62, 63, 64})
    for (T sign : {T(1), T(-1)}) {
      x.push_back(sign * std::ldexp(T(1), e));
      x.push_back(sign * std::nextafter(std::ldexp(T(1), e), T(0)));
      x.push_back(sign * (std::ldexp(T(1), e) + T(0.5)));
    }
  for (T v :
       {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(),
        std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::max(),
        std::numeric_limits<T>::denorm_min(), T(-0.0)})
    x.push_back(v);
  return x;
}

TYPED_TEST(AccumulateTest, ConversionInEveryRange) {
  using T = TypeParam;
  Values values(5);
  const std::vector<T> x = extremeValues<T>(values);
  Workspace workspace;
  for (int32_t exponent : {-126, -60, -1, 0, 1, 10, 40, 60, 126})
    for (T one : x) {
      // Alone in a row of 32 among zeros, and through a product with 1.
      const int64_t at = 11;
      std::vector<T> row(32, T(0));
      row[at] = one;
      Sums<T> expected(32, exponent);
      addReference(expected, at, one);
      for (Isa isa : supportedIsas()) {
        Sums<T> rows(32, exponent), dot(32, exponent);
        accumulateRows<T>(1, 32, row.data(), 32, rows.view(), isa);
        const T factor = 1;
        accumulateDot<T>({1, 1, 1}, 1, 32, &factor, 1, row.data(), 32,
                         dot.view(), 32, workspace, isa);
        EXPECT_TRUE(expected == rows)
            << isaName(isa) << " exponent " << exponent << " value "
            << std::hexfloat << double(one);
        EXPECT_TRUE(expected == dot)
            << isaName(isa) << " exponent " << exponent << " value "
            << std::hexfloat << double(one);
      }
    }
}

TYPED_TEST(AccumulateTest, RowsInAnyNumberAndWidth) {
  using T = TypeParam;
  Values values(6);
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = values.integer(0, 40), columns = values.integer(1, 40);
    const int64_t ld = columns + values.integer(0, 3);
    const std::vector<T> x = values.values<T>(rows * ld);
    Sums<T> expected(columns, 25);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < columns; ++j)
        addReference(expected, j, x[t * ld + j]);
    for (Isa isa : supportedIsas()) {
      Sums<T> got(columns, 25);
      accumulateRows<T>(rows, columns, x.data(), ld, got.view(), isa);
      EXPECT_TRUE(expected == got) << isaName(isa);
    }
  }
}

TYPED_TEST(AccumulateTest, ScatterOverShards) {
  using T = TypeParam;
  Values values(7);
  const int64_t tokens = 60, columns = 19, rows = 10;
  const std::vector<T> x = values.values<T>(tokens * columns);
  std::vector<int32_t> ids(tokens);
  for (int32_t &id : ids)
    id = int32_t(values.integer(0, rows - 1));
  Sums<T> expected(rows * columns, 25);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < columns; ++j)
      addReference(expected, ids[t] * columns + j, x[t * columns + j]);
  for (Isa isa : supportedIsas()) {
    Sums<T> got(rows * columns, 25);
    for (int64_t first : {0, 4, 9}) {
      const int64_t held = (first == 0 ? 4 : first == 4 ? 9 : 10) - first;
      Accumulator<T> shard = got.view();
      shard.high += first * columns;
      if (shard.low)
        shard.low += first * columns;
      accumulateScatter<T>(tokens, columns, ids.data(), first, held, x.data(),
                           columns, shard, columns, isa);
    }
    EXPECT_TRUE(expected == got) << isaName(isa);
  }
}

TYPED_TEST(AccumulateTest, NonFiniteInputsStayOutOfOtherElements) {
  using T = TypeParam;
  // Zero padding times infinity must not become a NaN in amax.
  const int64_t k = 5, n = 3;
  std::vector<T> x(4 * k, T(1)), y(4 * n, T(1));
  Workspace workspace;
  for (Isa isa : supportedIsas()) {
    x[2] = std::numeric_limits<T>::infinity();
    Sums<T> sums(k * n, 4);
    accumulateDot<T>({1, 4, 4}, k, n, x.data(), k, y.data(), n, sums.view(), n,
                     workspace, isa);
    EXPECT_EQ(bitsOf(std::numeric_limits<T>::infinity()), sums.amax);
    for (int64_t i = 0; i < k * n; ++i)
      EXPECT_EQ(i / n == 2 ? 0 : 4 * 16, sums.high[i]);
  }
}

TEST(Resolve, FloatIsRoundedOnce) {
  const std::vector<int64_t> sums = {0,
                                     1,
                                     -1,
                                     (int64_t(1) << 24) + 1,
                                     (int64_t(1) << 24) + 3,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min(),
                                     (int64_t(1) << 53) + (int64_t(1) << 29) +
                                         1};
  for (int32_t exponent : {-60, 0, 20, 126}) {
    std::vector<float> out(sums.size());
    resolve<float>(sums.size(), sums.data(), nullptr, exponent, 3.0f,
                   out.data());
    for (size_t i = 0; i < sums.size(); ++i) {
      // long double holds an int64 exactly; one rounding to float, exact
      // scaling.
      const float rounded = static_cast<float>((long double)sums[i]);
      EXPECT_EQ(float(std::ldexp(double(rounded), -exponent)) / 3.0f, out[i]);
    }
  }
}

TEST(Resolve, DoubleCombinesLimbsAndRoundsOnce) {
  const auto one = [](int64_t high, int64_t low, int32_t exponent) {
    double out;
    resolve<double>(1, &high, &low, exponent, 1.0, &out);
    return out;
  };
  EXPECT_EQ(1.5, one(1, int64_t(1) << 31, 0));
  EXPECT_EQ(-0.5, one(-1, int64_t(1) << 31, 0));
  EXPECT_EQ(0x1p-126 * 0x1p-32, one(0, 1, 126));
  // 2^53 + 1 + 2^-32: rounding the high limb first would lose the tie-breaker.
  EXPECT_EQ(0x1p53 + 2, one((int64_t(1) << 53) + 1, 1, 0));
  EXPECT_EQ(0x1p53, one((int64_t(1) << 53) + 1, -1, 0));
  EXPECT_EQ(0x1p53, one((int64_t(1) << 53) + 1, 0, 0));
}

} // namespace
