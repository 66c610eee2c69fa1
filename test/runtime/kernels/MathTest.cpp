//===- MathTest.cpp - Errors and special values of our functions ----------===//

#include "runtime/kernels/Math.h"
#include "TestSupport.h"

#include <cmath>
#include <limits>

using namespace mixle;
using namespace mixle::runtime::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

/// |got - exact| in units in the last place of a double near `exact`.
double errorInUlps(double got, long double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, -1021);
  return static_cast<double>(std::fabs(got - exact) /
                             std::ldexp(1.0L, exponent - 53));
}

struct Range {
  double low, high;
  bool logarithmic; ///< both signs, magnitudes spread evenly over the exponents
};

template <typename Ours, typename Exact>
void expectAccurate(const char *name, Ours ours, Exact exact,
                    std::vector<Range> ranges, double bound) {
  std::mt19937_64 engine(17);
  double worst = 0, at = 0;
  for (const Range &range : ranges)
    for (int i = 0; i < 200000; ++i) {
      const double u = static_cast<double>(engine() >> 11) * 0x1p-53;
      double x = range.low + u * (range.high - range.low);
      if (range.logarithmic)
        x = double(range.low * std::pow((long double)range.high / range.low,
                                        (long double)u));
      if (range.logarithmic && range.low < 1e-300 && (engine() & 1))
        x = -x;
      const double error = errorInUlps(ours(x), exact(x));
      if (!(error <= worst)) {
        worst = error;
        at = x;
      }
    }
  EXPECT_LE(worst, bound) << name << " at " << std::hexfloat << at;
  ::testing::Test::RecordProperty(name, std::to_string(worst));
}

#define OURS(f) [](double x) { return math::f(x); }
#define EXACT(f) [](double x) -> long double { return f((long double)(x)); }

TEST(Math, ErrorsAgainstLongDouble) {
  expectAccurate("exp", OURS(exp), EXACT(std::exp),
                 {{-745, 709.7, false}, {-1, 1, false}, {-745, -700, false}},
                 1.1);
  expectAccurate("exp2", OURS(exp2), EXACT(std::exp2),
                 {{-1074, 1023.9, false}, {-1, 1, false}}, 1.0);
  expectAccurate("log", OURS(log), EXACT(std::log),
                 {{0.3, 3, false}, {0.99, 1.01, false}, {1e-290, 1e308, true}},
                 1.0);
  expectAccurate("log subnormal", OURS(log), EXACT(std::log),
                 {{0x1p-1074, 0x1p-1020, false}}, 1.0);
  expectAccurate("log1p", OURS(log1p), EXACT(std::log1p),
                 {{-0.9999, 3, false}, {1e-290, 1e300, true}}, 1.0);
  expectAccurate("expm1", OURS(expm1), EXACT(std::expm1),
                 {{-2, 2, false}, {1e-310, 700, true}, {-50, 709.7, false}},
                 1.2);
  expectAccurate("tanh", OURS(tanh), EXACT(std::tanh),
                 {{-2, 2, false}, {1e-310, 30, true}}, 1.0);
  const std::vector<Range> angles = {
      {-7, 7, false}, {1e-310, 1e9, true}, {-1e6, 1e6, false}};
  expectAccurate("sin", OURS(sin), EXACT(std::sin), angles, 1.0);
  expectAccurate("cos", OURS(cos), EXACT(std::cos), angles, 1.0);
  expectAccurate("erf", OURS(erf), EXACT(std::erf),
                 {{-1.2, 1.2, false}, {-7, 7, false}, {1e-310, 6, true}}, 1.2);
}

TEST(Math, SineNearMultiplesOfPi) {
  // Where cancellation in the reduction is worst: doubles next to n * pi / 2.
  for (int n = 1; n < 200000; n += 37)
    for (double x : {n * 0x1.921fb54442d18p+0,
                     std::nextafter(n * 0x1.921fb54442d18p+0, 0.0)}) {
      EXPECT_LE(errorInUlps(math::sin(x), std::sin((long double)x)), 1.05) << x;
      EXPECT_LE(errorInUlps(math::cos(x), std::cos((long double)x)), 1.05) << x;
    }
}

TEST(Math, FloatFunctionsAreRoundedDoubles) {
  std::mt19937_64 engine(3);
  for (int i = 0; i < 20000; ++i) {
    const float x =
        static_cast<float>(static_cast<double>(engine() >> 40) * 0x1p-20 - 8);
    EXPECT_EQ(math::exp(x), float(math::exp(double(x))));
    EXPECT_EQ(math::tanh(x), float(math::tanh(double(x))));
    EXPECT_LE(std::fabs(math::erf(x) - std::erf((long double)x)), 0x1p-24);
  }
}

TEST(Math, Exp2FractionOfFloats) {
  double worst = 0;
  for (int i = 0; i <= 1000000; ++i) {
    const float f = static_cast<float>(i) * 1e-6f - 0.5f;
    const long double exact = std::exp2((long double)f);
    const double ulp = exact < 1 ? 0x1p-24 : 0x1p-23;
    worst =
        std::max(worst, double(std::fabs(math::exp2Fraction(f) - exact) / ulp));
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_EQ(1.0f, math::exp2Fraction(0.0f));
  EXPECT_EQ(1.0, math::exp2Fraction(0.0));
}

#define EXPECT_SAME(expected, got)                                             \
  EXPECT_TRUE(sameBits(double(expected), double(got)))                         \
      << #got " = " << (got) << ", expected " << double(expected)

TEST(Math, SpecialValues) {
  EXPECT_SAME(1, math::exp(0.0));
  EXPECT_SAME(1, math::exp(-0.0));
  EXPECT_SAME(infinity, math::exp(infinity));
  EXPECT_SAME(infinity, math::exp(709.79));
  EXPECT_SAME(0, math::exp(-infinity));
  EXPECT_SAME(0, math::exp(-745.2));
  EXPECT_SAME(0x1p-1074, math::exp(-745.0));
  EXPECT_SAME(nan, math::exp(nan));

  EXPECT_SAME(infinity, math::exp2(1024.0));
  EXPECT_SAME(0, math::exp2(-1076.0));
  EXPECT_SAME(nan, math::exp2(nan));
  for (int n = -1074; n < 1024; ++n)
    EXPECT_SAME(std::ldexp(1.0, n), math::exp2(double(n)));

  EXPECT_SAME(0, math::log(1.0));
  EXPECT_SAME(-infinity, math::log(0.0));
  EXPECT_SAME(-infinity, math::log(-0.0));
  EXPECT_SAME(infinity, math::log(infinity));
  EXPECT_SAME(nan, math::log(-1.0));
  EXPECT_SAME(nan, math::log(-infinity));
  EXPECT_SAME(nan, math::log(nan));

  EXPECT_SAME(0, math::log1p(0.0));
  EXPECT_SAME(-0.0, math::log1p(-0.0));
  EXPECT_SAME(-infinity, math::log1p(-1.0));
  EXPECT_SAME(infinity, math::log1p(infinity));
  EXPECT_SAME(nan, math::log1p(-1.5));
  EXPECT_SAME(nan, math::log1p(nan));
  EXPECT_SAME(0x1p-1074, math::log1p(0x1p-1074));

  EXPECT_SAME(-0.0, math::expm1(-0.0));
  EXPECT_SAME(-1, math::expm1(-infinity));
  EXPECT_SAME(infinity, math::expm1(infinity));
  EXPECT_SAME(nan, math::expm1(nan));

  EXPECT_SAME(-0.0, math::tanh(-0.0));
  EXPECT_SAME(-1, math::tanh(-infinity));
  EXPECT_SAME(1, math::tanh(25.0));
  EXPECT_SAME(nan, math::tanh(nan));

  EXPECT_SAME(-0.0, math::sin(-0.0));
  EXPECT_SAME(1, math::cos(0.0));
  for (double x : {infinity, -infinity, nan, 0x1.1p30}) {
    EXPECT_SAME(nan, math::sin(x));
    EXPECT_SAME(nan, math::cos(x));
  }

  EXPECT_SAME(-0.0, math::erf(-0.0));
  EXPECT_SAME(-1, math::erf(-infinity));
  EXPECT_SAME(1, math::erf(6.5));
  EXPECT_SAME(nan, math::erf(nan));
}

TEST(Math, IntegerPowers) {
  EXPECT_SAME(1, math::powInt(0.0, 0));
  EXPECT_SAME(1024, math::powInt(2.0, 10));
  EXPECT_SAME(-8, math::powInt(-2.0, 3));
  EXPECT_SAME(0.125, math::powInt(2.0, -3));
  EXPECT_SAME(0.9, math::powInt(0.9, 1));
  EXPECT_SAME(0.9 * 0.9, math::powInt(0.9, 2));
  for (int64_t n : {10, 100, 1000, 10000}) {
    const long double exact = std::pow(0.999L + 0.0L, (long double)n);
    const double got = math::powInt(0.999, n);
    // 0.999 itself is rounded to double.
    const long double base = 0.999;
    EXPECT_LE(std::fabs(got / std::pow(base, (long double)n) - 1), n * 0x1p-53);
    EXPECT_NEAR(double(exact), got, 1e-10);
  }
}

/// A hash of a function's bits over many arguments, special ones among them.
template <typename Function> uint64_t hashOf(Function function) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](double x) {
    double y = function(x);
    y = std::isnan(y) ? nan : y; // payloads and signs of NaN are not promised
    hash = (hash ^ bitsOf(std::fabs(y)) ^ (y < 0 ? 1 : 0)) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  for (double x : {0.0, -0.0, 1.0, -1.0, infinity, -infinity, nan, 1e300})
    mix(x);
  for (int i = -20000; i < 20000; ++i) {
    const double x = i * 0x1.3p-11;
    mix(x);
    mix(x * 16);
    mix(std::ldexp(x, i % 200));
  }
  return hash;
}

TEST(Math, BitsAreFixed) {
  // Of the sequences in MathConstants.h on any machine. A difference here means
  // other bits in every trained model: it is never to be "updated" lightly.
  EXPECT_EQ(0xf1d5220c66050faau, hashOf(OURS(exp)));
  EXPECT_EQ(0xc1596ab8116abf47u, hashOf(OURS(exp2)));
  EXPECT_EQ(0xa823f39bb8257ae4u, hashOf(OURS(log)));
  EXPECT_EQ(0x95a11c9a2ef50f83u, hashOf(OURS(log1p)));
  EXPECT_EQ(0x6bb6a227a8cbaa6au, hashOf(OURS(expm1)));
  EXPECT_EQ(0x1d6b0f03b6e3de12u, hashOf(OURS(tanh)));
  EXPECT_EQ(0x752d0c17c9d4954du, hashOf(OURS(sin)));
  EXPECT_EQ(0x14932d5df29f0f5du, hashOf(OURS(cos)));
  EXPECT_EQ(0xe075c2694b698940u, hashOf(OURS(erf)));
}

} // namespace
