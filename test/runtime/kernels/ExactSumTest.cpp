//===- ExactSumTest.cpp - Exact sums against long integers ----------------===//

#include "runtime/kernels/ExactSum.h"
#include "TestSupport.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

/// A signed integer times 2^-2200, bit by bit: slow, and plain to read.
class LongNumber {
public:
  static constexpr int bits = 4600, point = 2200;
  std::vector<bool> digits = std::vector<bool>(bits); // two's complement

  void add(int exponent, uint64_t significand, bool negative) {
    std::vector<bool> term(bits);
    for (int i = 0; i < 64; ++i)
      if (significand >> i & 1)
        term[point + exponent + i] = true;
    if (negative)
      negate(term);
    bool carry = false;
    for (int i = 0; i < bits; ++i) {
      const int sum = digits[i] + term[i] + carry;
      digits[i] = sum & 1;
      carry = sum >> 1;
    }
  }

  void add(double x) {
    int exponent;
    const double fraction = std::frexp(std::fabs(x), &exponent);
    add(exponent - 53, uint64_t(std::ldexp(fraction, 53)), std::signbit(x));
  }

  /// x * x of any double, by splitting the 106-bit integer.
  void addSquare(double x) {
    int exponent;
    const double fraction = std::frexp(std::fabs(x), &exponent);
    const unsigned __int128 m = uint64_t(std::ldexp(fraction, 53));
    const unsigned __int128 square = m * m;
    add(2 * (exponent - 53), uint64_t(square), false);
    add(2 * (exponent - 53) + 64, uint64_t(square >> 64), false);
  }

  double round() const {
    std::vector<bool> d = digits;
    const bool negative = d[bits - 1];
    if (negative)
      negate(d);
    int top = bits - 1;
    while (top >= 0 && !d[top])
      --top;
    if (top < 0)
      return 0;
    const int lowest = std::max(top - 52, point - 1074);
    double value = 0;
    for (int i = top; i >= lowest; --i)
      value = 2 * value + d[i];
    bool sticky = false;
    for (int i = lowest - 2; i >= 0; --i)
      sticky = sticky || d[i];
    if (d[lowest - 1] && (sticky || d[lowest]))
      value += 1;
    value = std::ldexp(value, lowest - point);
    return negative ? -value : value;
  }

private:
  static void negate(std::vector<bool> &d) {
    bool carry = true;
    for (int i = 0; i < bits; ++i) {
      const int sum = !d[i] + carry;
      d[i] = sum & 1;
      carry = sum >> 1;
    }
  }
};

struct Sum {
  std::vector<int64_t> limbs = std::vector<int64_t>(ExactSum::limbCount, 77);
  Sum() { view().clear(); }
  ExactSum view() { return ExactSum(limbs.data()); }
};

double anyDouble(Values &values, int64_t lowest, int64_t highest) {
  const double x =
      std::ldexp(values.value<double>(), int(values.integer(lowest, highest)));
  return std::isfinite(x) ? x : 1.0;
}

TEST(ExactSum, DoublesOverTheWholeRange) {
  Values values(1);
  for (int i = 0; i < 200; ++i) {
    Sum sum;
    LongNumber exact;
    const int64_t centre = values.integer(-1070, 1000);
    const int64_t spread = values.integer(0, 60);
    for (int j = 0; j < 40; ++j) {
      const double x =
          anyDouble(values, std::max<int64_t>(centre - spread, -1100),
                    std::min<int64_t>(centre + spread, 1015));
      sum.view().addDouble(x);
      exact.add(x);
      if (values.integer(0, 3) == 0) { // cancel something
        sum.view().addDouble(-x);
        exact.add(-x);
      }
    }
    EXPECT_TRUE(sameBits(exact.round(), sum.view().round()))
        << exact.round() << " " << sum.view().round();
  }
}

TEST(ExactSum, KnownSums) {
  const auto sumOf = [](std::vector<double> x) {
    Sum sum;
    sum.view().addDoubles(x.data(), x.size());
    return sum.view().round();
  };
  constexpr double tiny = 0x1p-1074, huge = std::numeric_limits<double>::max();
  EXPECT_TRUE(sameBits(0.0, sumOf({})));
  EXPECT_TRUE(sameBits(0.0, sumOf({-0.0})));
  EXPECT_TRUE(sameBits(0.0, sumOf({huge, tiny, -huge, -tiny})));
  EXPECT_EQ(tiny, sumOf({huge, tiny, -huge}));
  EXPECT_EQ(-tiny, sumOf({huge, -tiny, -huge}));
  EXPECT_EQ(huge, sumOf({huge, huge, huge, -huge, -huge}));
  EXPECT_EQ(std::numeric_limits<double>::infinity(), sumOf({huge, huge}));
  EXPECT_EQ(-std::numeric_limits<double>::infinity(), sumOf({-huge, -huge}));
  EXPECT_EQ(1.0, sumOf({1, 0x1p-53}));                   // tie to even
  EXPECT_EQ(1 + 0x1p-52, sumOf({1, 0x1p-53, tiny}));     // just above
  EXPECT_EQ(1.0, sumOf({1, 0x1p-53, -tiny}));            // just below
  EXPECT_EQ(1 + 0x1p-51, sumOf({1 + 0x1p-52, 0x1p-53})); // tie to even
  EXPECT_EQ(0x1p-1022, sumOf({0x1p-1022 - tiny, tiny}));
}

TEST(ExactSum, NonFinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto sumOf = [](std::vector<double> x) {
    Sum sum;
    sum.view().addDoubles(x.data(), x.size());
    return sum.view().round();
  };
  EXPECT_EQ(infinity, sumOf({1, infinity, infinity}));
  EXPECT_EQ(-infinity, sumOf({-infinity, 2}));
  EXPECT_TRUE(std::isnan(sumOf({infinity, 1, -infinity})));
  EXPECT_TRUE(std::isnan(sumOf({std::nan(""), 1})));
  // Flags are limbs: they travel with the sum.
  Sum a, b;
  a.view().addDouble(infinity);
  b.view().addDouble(-infinity);
  a.view().merge(b.limbs.data());
  EXPECT_TRUE(std::isnan(a.view().round()));
  for (Isa isa : supportedIsas()) {
    Sum squares;
    const std::vector<float> x = {1, -std::numeric_limits<float>::infinity()};
    squares.view().addSquares(x.data(), 2, isa);
    EXPECT_EQ(infinity, squares.view().round());
  }
  Sum overflow;
  const double large = 0x1p600;
  overflow.view().addSquares(&large, 1);
  EXPECT_EQ(infinity, overflow.view().round());
}

TEST(ExactSum, AnyOrderAndSplitGivesEqualLimbs) {
  Values values(2);
  std::vector<double> x;
  for (int i = 0; i < 500; ++i)
    x.push_back(anyDouble(values, -300, 300));
  Sum all;
  all.view().addDoubles(x.data(), x.size());
  for (int i = 0; i < 20; ++i) {
    std::shuffle(x.begin(), x.end(), values.engine);
    std::vector<int64_t> reduced(ExactSum::limbCount, 0); // as all_reduce adds
    for (size_t first = 0; first < x.size();) {
      const size_t n =
          std::min<size_t>(x.size() - first, values.integer(1, 200));
      Sum part;
      part.view().addDoubles(x.data() + first, n);
      for (int l = 0; l < ExactSum::limbCount; ++l)
        reduced[l] += part.limbs[l];
      first += n;
    }
    EXPECT_EQ(all.view().round(), ExactSum(reduced.data()).round());
    ExactSum(reduced.data()).normalize();
    EXPECT_EQ(all.limbs, reduced);
  }
}

TEST(ExactSum, SumsOfManyRanksFit) {
  // 2^14 ranks' normalised limbs, all at their largest, then 2^16 times that.
  std::vector<int64_t> limbs(ExactSum::limbCount, 0);
  for (int i = 0; i + 1 < ExactSum::valueLimbs; ++i)
    limbs[i] = 0xffffffff * (int64_t(1) << 30);
  ExactSum sum(limbs.data());
  const double before = sum.round();
  sum.normalize();
  EXPECT_EQ(before, sum.round());
  for (int i = 0; i + 1 < ExactSum::valueLimbs; ++i) {
    EXPECT_GE(limbs[i], 0);
    EXPECT_LE(limbs[i], 0xffffffff);
  }
}

TEST(ExactSum, SquaresOfFloats) {
  Values values(3);
  for (int i = 0; i < 60; ++i) {
    // From similar magnitudes (the fast path) to the whole range (the slow
    // one).
    const int64_t spread =
        i % 2 ? values.integer(0, 20) : values.integer(0, 140);
    const int64_t count = values.integer(1, 3000);
    std::vector<float> x(count);
    LongNumber exact;
    const int64_t kept = std::min<int64_t>(count, 300); // the reference is slow
    for (int64_t j = 0; j < kept; ++j) {
      x[j] = std::ldexp(values.value<float>(),
                        int(values.integer(-spread, 0)) - int(i % 3) * 40);
      exact.addSquare(x[j]);
    }
    std::shuffle(x.begin(), x.end(), values.engine);
    for (Isa isa : supportedIsas()) {
      Sum sum;
      sum.view().addSquares(x.data(), count, isa);
      EXPECT_TRUE(sameBits(exact.round(), sum.view().round()))
          << isaName(isa) << " spread " << spread;
    }
  }
}

TEST(ExactSum, SquaresOfFloatsHaveEqualLimbsOnEveryIsa) {
  Values values(4);
  std::vector<float> x = values.values<float>(100003);
  x[5] = std::numeric_limits<float>::max();
  x[70000] = std::numeric_limits<float>::denorm_min();
  Sum expected;
  expected.view().addSquares(x.data(), x.size(), Isa::portable);
  for (Isa isa : supportedIsas()) {
    Sum sum;
    for (size_t first = 0; first < x.size(); first += 7777)
      sum.view().addSquares(x.data() + first,
                            std::min<size_t>(7777, x.size() - first), isa);
    EXPECT_EQ(expected.limbs, sum.limbs) << isaName(isa);
  }
}

TEST(ExactSum, SquaresOfDoubles) {
  Values values(5);
  for (int i = 0; i < 100; ++i) {
    Sum sum;
    LongNumber exact;
    const int64_t centre = values.integer(-470, 480);
    for (int j = 0; j < 50; ++j) {
      const double x = anyDouble(values, centre - 5, centre + 5);
      sum.view().addSquares(&x, 1);
      exact.addSquare(x);
    }
    EXPECT_TRUE(sameBits(exact.round(), sum.view().round()));
  }
}

TEST(ExactSum, FloatsAreTheirDoubles) {
  Values values(6);
  const std::vector<float> x = values.values<float>(1000);
  const std::vector<double> wide(x.begin(), x.end());
  Sum a, b;
  a.view().addFloats(x.data(), x.size());
  b.view().addDoubles(wide.data(), wide.size());
  EXPECT_EQ(a.limbs, b.limbs);
}

} // namespace
