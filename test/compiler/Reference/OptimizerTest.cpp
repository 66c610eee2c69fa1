//===- OptimizerTest.cpp - Optimizer steps against hand-made values -------===//

#include "Support.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static Tensor scalar(double x) { return reals({}, {x}); }

static std::vector<double> schedule(const std::string &text, int64_t steps) {
  TestEntry test("%s: tensor<i64>",
                 "%r:3 = mixle.schedule %s {lr = 1.0 : f64, schedule = \"" + text +
                     "\", beta1 = 0.9 : f64, beta2 = 0.99 : f64} : (tensor<i64>) "
                     "-> (tensor<f64>, tensor<f64>, tensor<f64>)");
  std::vector<double> rates;
  for (int64_t step = 0; step < steps; ++step) {
    auto r = test.run({integers({}, {step})});
    rates.push_back(r[0].reals[0]);
    EXPECT_NEAR(r[1].reals[0], 1 - std::pow(0.9, step + 1), 1e-15);
    EXPECT_NEAR(r[2].reals[0], 1 - std::pow(0.99, step + 1), 1e-15);
  }
  return rates;
}

TEST(Schedule, FirstWarmUpStepIsNotZero) {
  std::vector<double> expected{0.25,    0.5,     0.75,    1,       6.0 / 7,
                               5.0 / 7, 4.0 / 7, 3.0 / 7, 2.0 / 7, 1.0 / 7};
  EXPECT_EQ(schedule("linear,warmup=4,total=10", 10), expected);
  EXPECT_EQ(schedule("linear,warmup=4,total=10", 12)[11], 0);
}

TEST(Schedule, ConstantAndCosine) {
  EXPECT_EQ(schedule("constant", 3), (std::vector<double>{1, 1, 1}));
  std::vector<double> cosine = schedule("cosine,warmup=2,total=6,min_ratio=0.2", 8);
  EXPECT_EQ(cosine[0], 0.5);
  EXPECT_EQ(cosine[1], 1);
  EXPECT_NEAR(cosine[3], 0.6, 1e-15); // half way from 1 to 0.2
  EXPECT_NEAR(cosine[5], 0.2, 1e-15);
  EXPECT_EQ(cosine[7], cosine[5]);
}

TEST(Schedule, UnknownTextIsAnError) {
  TestEntry test("%s: tensor<i64>",
                 "%r:3 = mixle.schedule %s {lr = 1.0 : f64, schedule = "
                 "\"staircase\", beta1 = 0.9 : f64, beta2 = 0.99 : f64} : "
                 "(tensor<i64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)");
  std::string message;
  ScopedDiagnosticHandler handler(&test.getContext(),
                                  [&](Diagnostic &d) { message = d.str(); });
  ValueMap values;
  values[test.entry().getArgument(0)] = integers({}, {0});
  EXPECT_TRUE(failed(interpretOp(test.op(), values)));
  EXPECT_NE(message.find("unknown schedule 'staircase'"), std::string::npos) << message;
}

TEST(Clip, CoefficientIsAtMostOne) {
  TestEntry test("%q: tensor<!mixle.exact<f32>>",
                 "%r:2 = mixle.clip_coefficient %q {max_norm = 2.0 : f64} : "
                 "(tensor<!mixle.exact<f32>>) -> (tensor<f64>, tensor<f64>)");
  EXPECT_EQ(test.run({scalar(1)})[0].reals[0], 1);
  auto r = test.run({scalar(16)});
  EXPECT_DOUBLE_EQ(r[0].reals[0], 2 / (4 + 1e-6));
  EXPECT_EQ(r[1].reals[0], 4);
  EXPECT_TRUE(std::isnan(test.run({scalar(std::nan(""))})[0].reals[0]));
  EXPECT_EQ(test.run({scalar(HUGE_VAL)})[0].reals[0], 0);
}

TEST(Sgd, MomentumAndDecoupledDecay) {
  TestEntry test("%p: tensor<1xf64>, %m: tensor<1xf64>, %g: tensor<1xf64>, "
                 "%l: tensor<f64>, %c: tensor<f64>",
                 "%r:2 = mixle.sgd_step %p, %m, %g, %l, %c {mu = 0.5 : f64, "
                 "weight_decay = 0.25 : f64} : (tensor<1xf64>, tensor<1xf64>, "
                 "tensor<1xf64>, tensor<f64>, tensor<f64>) -> (tensor<1xf64>, tensor<1xf64>)");
  // m = 0.5 * 4 + 0.5 * 6 = 5; p = 8 (1 - 0.5 * 0.25) - 0.5 * 5 = 4.5.
  auto r = test.run({reals({1}, {8}), reals({1}, {4}), reals({1}, {6}), scalar(0.5), scalar(0.5)});
  EXPECT_EQ(r[0].reals[0], 4.5);
  EXPECT_EQ(r[1].reals[0], 5);
}

/// The first step from zero moments: bias correction makes the moments g and
/// g^2, whatever the betas.
static double firstAdamStep(double p, double g, bool decoupled) {
  TestEntry test(
      "%p: tensor<1xf64>, %m: tensor<1xf64>, %v: tensor<1xf64>, %g: tensor<1xf64>, "
      "%l: tensor<f64>, %c1: tensor<f64>, %c2: tensor<f64>, %c: tensor<f64>",
      std::string("%r:3 = mixle.adam_step %p, %m, %v, %g, %l, %c1, %c2, %c {beta1 = 0.9 "
                  ": f64, beta2 = 0.99 : f64, epsilon = 0.5 : f64, weight_decay = "
                  "0.1 : f64, decoupled = ") +
          (decoupled ? "true" : "false") +
          "} : (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, "
          "tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<1xf64>, "
          "tensor<1xf64>, tensor<1xf64>)");
  return test.run({reals({1}, {p}), reals({1}, {0}), reals({1}, {0}), reals({1}, {g}),
                   scalar(0.2), scalar(1 - 0.9), scalar(1 - 0.99), scalar(1)})[0]
      .reals[0];
}

TEST(Adam, FirstStep) {
  EXPECT_NEAR(firstAdamStep(3, -2, true), 3 * (1 - 0.2 * 0.1) + 0.2 * 2 / 2.5, 1e-14);
  double g = -2 + 0.1 * 3;
  EXPECT_NEAR(firstAdamStep(3, -2, false), 3 - 0.2 * g / (std::fabs(g) + 0.5), 1e-14);
}
