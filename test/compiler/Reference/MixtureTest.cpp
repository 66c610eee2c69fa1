//===- MixtureTest.cpp - Gaussian mixtures against written-out densities --===//

#include "Support.h"

#include <cmath>
#include <tuple>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static constexpr double kTwoPi = 6.283185307179586477;

/// log w + log N((x, y); (mx, my), [[a, b], [b, c]]).
static double logDensity(double w, double x, double y, double mx, double my,
                         double a, double b, double c) {
  double det = a * c - b * b, dx = x - mx, dy = y - my;
  double quadratic = (c * dx * dx - 2 * b * dx * dy + a * dy * dy) / det;
  return std::log(w) - std::log(kTwoPi) - 0.5 * std::log(det) - 0.5 * quadratic;
}

/// Scores of two rows under one component, by features or by centred form.
static Tensor scores(bool full, bool centred, std::vector<double> covariance) {
  std::string c = full ? "tensor<1x2x2xf64>" : "tensor<1x2xf64>";
  std::string f = full ? "6" : "5", is = full ? "true" : "false";
  TestEntry test(
      "%x: tensor<2x2xf64>, %w: tensor<1xf64>, %m: tensor<1x2xf64>, %c: " + c +
          ", %a: tensor<2xf64>, %s: tensor<2xf64>",
      "%n:4 = mixle.mixture_forms %w, %m, %c, %a, %s full = " + is +
          (centred ? " {centre_all = true}" : "") +
          " : (tensor<1xf64>, tensor<1x2xf64>, " + c +
          ", tensor<2xf64>, tensor<2xf64>) -> (tensor<1x" + f + "xf64>, " + c +
          ", tensor<1xf64>, tensor<1xi32>)\n"
          "%f = mixle.mixture_features %x, %a, %s full = " + is +
          " : (tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<2x" + f +
          "xf64>\n"
          "%d = mixle.dot_general %f, %n#0 contract = [1] x [1] : tensor<2x" + f +
          "xf64>, tensor<1x" + f + "xf64> -> tensor<2x1xf64>\n"
          "%r = mixle.centred_scores %d, %x, %m, %n#1, %n#2, %n#3 full = " + is +
          " : (tensor<2x1xf64>, tensor<2x2xf64>, tensor<1x2xf64>, " + c +
          ", tensor<1xf64>, tensor<1xi32>) -> tensor<2x1xf64>");
  SmallVector<int64_t> shape{1, 2};
  if (full)
    shape.push_back(2);
  return test.run({reals({2, 2}, {1, 2, -3, 0.5}), reals({1}, {0.25}),
                   reals({1, 2}, {0.5, -1}), reals(shape, std::move(covariance)),
                   reals({2}, {1, -2}), reals({2}, {4, 0.5})})[0];
}

TEST(MixtureMeaning, ScoresAreLogDensitiesInBothForms) {
  for (bool centred : {false, true}) {
    Tensor diagonal = scores(false, centred, {2, 3});
    Tensor full = scores(true, centred, {2, 0.7, 0.7, 3});
    for (auto [r, x, y] : {std::tuple(0, 1.0, 2.0), std::tuple(1, -3.0, 0.5)}) {
      EXPECT_NEAR(diagonal.reals[r],
                  logDensity(0.25, x, y, 0.5, -1, 2, 0, 3), 1e-12);
      EXPECT_NEAR(full.reals[r],
                  logDensity(0.25, x, y, 0.5, -1, 2, 0.7, 3), 1e-12);
    }
  }
}

TEST(MixtureMeaning, CentringIsChosenWhereTheProductWouldCancel) {
  TestEntry test("%w: tensor<2xf64>, %m: tensor<2x1xf64>, %c: tensor<2x1xf64>, "
                 "%a: tensor<1xf64>, %s: tensor<1xf64>",
                 "%n:4 = mixle.mixture_forms %w, %m, %c, %a, %s full = false : "
                 "(tensor<2xf64>, tensor<2x1xf64>, tensor<2x1xf64>, "
                 "tensor<1xf64>, tensor<1xf64>) -> (tensor<2x3xf64>, "
                 "tensor<2x1xf64>, tensor<2xf64>, tensor<2xi32>)");
  // A deviation of 1e-6 a unit away from the anchor, and one of 1.
  auto r = test.run({reals({2}, {0.5, 0.5}), reals({2, 1}, {1, 1}),
                     reals({2, 1}, {1e-12, 1}), reals({1}, {0}), reals({1}, {2})});
  EXPECT_EQ(r[3].integers, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(r[0].reals[1], 0);
  EXPECT_NE(r[0].reals[4], 0);
}

/// An M-step of one component from rows, features about 1 in units of 2.
static SmallVector<Tensor> stepOf(const std::string &spec, bool full,
                                  std::vector<std::pair<double, double>> rows) {
  std::string f = full ? "6" : "5";
  std::string c = full ? "tensor<1x2x2xf64>" : "tensor<1x2xf64>";
  std::vector<double> sums(full ? 6 : 5, 0.0);
  for (auto [x, y] : rows) {
    double u = (x - 1) / 2, v = (y - 1) / 2;
    std::vector<double> feature =
        full ? std::vector<double>{1, u, v, u * u, u * v, v * v}
             : std::vector<double>{1, u, v, u * u, v * v};
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += feature[i];
  }
  std::string escaped;
  for (char character : spec)
    escaped += character == '"' ? std::string("\\22") : std::string(1, character);
  TestEntry test(
      "%t: tensor<1x" + f + "xf64>, %n: tensor<f64>, %a: tensor<2xf64>, "
      "%s: tensor<2xf64>, %w: tensor<1xf64>, %m: tensor<1x2xf64>, %c: " + c,
      "%r:3 = mixle.mixture_step %t, %n, %a, %s, %w, %m, %c spec = \"" + escaped +
          "\" : (tensor<1x" + f + "xf64>, tensor<f64>, tensor<2xf64>, "
          "tensor<2xf64>, tensor<1xf64>, tensor<1x2xf64>, " + c +
          ") -> (tensor<1xf64>, tensor<1x2xf64>, " + c + ")");
  SmallVector<int64_t> shape{1, 2};
  if (full)
    shape.push_back(2);
  auto width = static_cast<int64_t>(sums.size());
  return test.run(
      {reals({1, width}, sums), reals({}, {static_cast<double>(rows.size())}),
       reals({2}, {1, 1}), reals({2}, {2, 2}), reals({1}, {1}),
       reals({1, 2}, {7, 8}),
       reals(shape, full ? std::vector<double>{5, 1, 1, 6}
                         : std::vector<double>{5, 6})});
}

/// A specification of one full component with more keys.
static std::string fullSpec(const std::string &more) {
  return "{\"family\": \"gaussian_mixture\", \"dim\": 2, \"components\": 1, "
         "\"covariance\": \"full\", " + more + "}";
}
static const char *kUnregularized =
    "\"regularization\": {\"kind\": \"absolute\", \"value\": 0.0}";

TEST(MixtureMeaning, StepIsMeanAndCovariance) {
  auto r = stepOf(fullSpec(kUnregularized), true, {{0, 0}, {4, 2}, {2, 4}});
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[0].reals[0], 1);
  expectNear(r[1], reals({1, 2}, {2, 2}), 1e-14, "mean");
  // Deviations (-2,-2), (2,0), (0,2); their products divided by three.
  expectNear(r[2], reals({1, 2, 2}, {8.0 / 3, 4.0 / 3, 4.0 / 3, 8.0 / 3}), 1e-14,
             "covariance");
}

TEST(MixtureMeaning, RegularizationIsAddedToTheDiagonal) {
  auto r = stepOf(
      fullSpec("\"regularization\": {\"kind\": \"absolute\", \"value\": 0.5}"),
      true, {{0, 0}, {4, 2}, {2, 4}});
  ASSERT_EQ(r.size(), 3u);
  expectNear(r[2],
             reals({1, 2, 2}, {8.0 / 3 + 0.5, 4.0 / 3, 4.0 / 3, 8.0 / 3 + 0.5}),
             1e-14, "covariance");
}

// As many pseudo rows as rows: means half way to the prior's, the covariance
// from both means and the prior's covariance.
TEST(MixtureMeaning, PseudoCountsPullTowardsThePrior) {
  auto r = stepOf(fullSpec(std::string(kUnregularized) +
                           ", \"pseudo_count\": {\"means\": 3, \"covariances\": 1}, "
                           "\"prior_statistics\": {\"means\": [4, 0], "
                           "\"covariances\": [[1, 0], [0, 1]]}"),
                  true, {{0, 0}, {4, 2}, {2, 4}});
  ASSERT_EQ(r.size(), 3u);
  expectNear(r[1], reals({1, 2}, {3, 1}), 1e-14, "mean");
  // Rows about (3, 1): their sum of products is that about (2, 2) plus
  // 3 (1, -1)(1, -1)^T; the prior adds the unit matrix and (1, -1)(1, -1)^T.
  expectNear(r[2],
             reals({1, 2, 2}, {(8 + 3 + 1 + 1) / 4.0, (4 - 3 - 1) / 4.0,
                               (4 - 3 - 1) / 4.0, (8 + 3 + 1 + 1) / 4.0}),
             1e-13, "covariance");
}

TEST(MixtureMeaning, WithoutWeightAComponentStays) {
  auto r = stepOf(fullSpec(kUnregularized), true, {});
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[0].reals[0], 1);
  EXPECT_EQ(r[1].reals, (std::vector<double>{7, 8}));
  EXPECT_EQ(r[2].reals, (std::vector<double>{5, 1, 1, 6}));
}

TEST(MixtureMeaning, ConstantDataHasNoSpread) {
  auto r = stepOf("{\"family\": \"gaussian_mixture\", \"dim\": 2, "
                  "\"components\": 1, \"covariance\": \"diag\", "
                  "\"regularization\": {\"kind\": \"mixle\"}}",
                  false, {{3, 0.1}, {3, 0.1}, {3, 0.1}});
  ASSERT_EQ(r.size(), 3u);
  expectNear(r[1], reals({1, 2}, {3, 0.1}), 1e-14, "mean");
  EXPECT_EQ(r[2].reals, (std::vector<double>{1e-8, 1e-8}));
}

/// Interprets a step of one component with this spec; the diagnostic, "" if none.
static std::string stepError(const std::string &keys) {
  std::string escaped;
  for (char character : "{\"family\": \"gaussian_mixture\", \"dim\": 2, " + keys + "}")
    escaped += character == '"' ? std::string("\\22") : std::string(1, character);
  TestEntry test("%t: tensor<2x6xf64>, %n: tensor<f64>, %a: tensor<2xf64>, "
                 "%w: tensor<2xf64>, %m: tensor<2x2xf64>, %c: tensor<2x2x2xf64>",
                 "%r:3 = mixle.mixture_step %t, %n, %a, %a, %w, %m, %c spec = \"" +
                     escaped +
                     "\" : (tensor<2x6xf64>, tensor<f64>, tensor<2xf64>, "
                     "tensor<2xf64>, tensor<2xf64>, tensor<2x2xf64>, "
                     "tensor<2x2x2xf64>) -> (tensor<2xf64>, tensor<2x2xf64>, "
                     "tensor<2x2x2xf64>)");
  std::string message;
  ScopedDiagnosticHandler handler(&test.getContext(),
                                  [&](Diagnostic &d) { message = d.str(); });
  ValueMap values;
  auto arguments = test.entry().getBody().front().getArguments();
  values[arguments[0]] = Tensor::zeros({2, 6});
  values[arguments[1]] = reals({}, {0});
  values[arguments[2]] = reals({2}, {1, 1});
  values[arguments[3]] = reals({2}, {0.5, 0.5});
  values[arguments[4]] = Tensor::zeros({2, 2});
  values[arguments[5]] = Tensor::zeros({2, 2, 2});
  const bool refused = failed(interpretOp(test.op(), values));
  EXPECT_EQ(refused, !message.empty());
  return message;
}

// A part of a mixture does not say which part it is: where the spec has a weight
// for each component, and where it has fewer components, nothing is guessed.
TEST(MixtureMeaning, PartsOfAMixtureWithNamedWeightsAreRefused) {
  EXPECT_EQ(stepError("\"components\": 3"), "");
  EXPECT_NE(stepError("\"components\": 1").find("has 2 components, its spec 1"),
            std::string::npos);
  EXPECT_EQ(stepError("\"components\": 2, \"fixed_weights\": [0.4, 0.6]"), "");
  for (const char *keys :
       {"\"components\": 3, \"fixed_weights\": [0.2, 0.3, 0.5]",
        "\"components\": 3, \"pseudo_count\": 2, \"prior_statistics\": "
        "{\"weights\": [0.2, 0.3, 0.5]}"})
    EXPECT_NE(stepError(keys).find(
                  "has 2 components, its spec 3 with a weight for each"),
              std::string::npos)
        << stepError(keys);
}

TEST(MixtureMeaning, StatusNamesTheFirstFromTheEnd) {
  TestEntry test("%c: tensor<4x1xf64>",
                 "%r = mixle.mixture_status %c full = false : "
                 "(tensor<4x1xf64>) -> tensor<i64>");
  EXPECT_EQ(test.run({reals({4, 1}, {1, 2, 3, 4})})[0].integers[0], 0);
  EXPECT_EQ(test.run({reals({4, 1}, {1, 0, 3, -4})})[0].integers[0], 3);
}

TEST(MixtureMeaning, IndefiniteCovarianceIsAnError) {
  TestEntry test("%w: tensor<1xf64>, %m: tensor<1x2xf64>, %c: tensor<1x2x2xf64>, "
                 "%a: tensor<2xf64>",
                 "%n:4 = mixle.mixture_forms %w, %m, %c, %a, %a full = true : "
                 "(tensor<1xf64>, tensor<1x2xf64>, tensor<1x2x2xf64>, "
                 "tensor<2xf64>, tensor<2xf64>) -> (tensor<1x6xf64>, "
                 "tensor<1x2x2xf64>, tensor<1xf64>, tensor<1xi32>)");
  std::string message;
  ScopedDiagnosticHandler handler(&test.getContext(),
                                  [&](Diagnostic &d) { message = d.str(); });
  ValueMap values;
  auto arguments = test.entry().getBody().front().getArguments();
  values[arguments[0]] = reals({1}, {1});
  values[arguments[1]] = reals({1, 2}, {0, 0});
  values[arguments[2]] = reals({1, 2, 2}, {1, 2, 2, 1});
  values[arguments[3]] = reals({2}, {1, 1});
  EXPECT_TRUE(failed(interpretOp(test.op(), values)));
  EXPECT_NE(message.find("component 0 has a covariance that is not positive "
                         "definite"),
            std::string::npos)
      << message;
}
