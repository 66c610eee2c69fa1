//===- GradientTest.cpp - Gradients against finite differences ------------===//
//
// Every case of every op with a gradient: the vector-Jacobian product that
// buildGradient makes, interpreted, against differences of the op itself.
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

/// Relative error allowed. The differences below are of fourth order: with
/// h = 1e-3 their truncation is about h^4 = 1e-12 times a fifth derivative and
/// their rounding 2^-53 / h = 1e-13 times the value, both far below this.
constexpr double kTolerance = 1e-6;
constexpr double kStep = 1e-3;

/// A sum that stands for real numbers: its cotangent is one, by definition.
bool isSum(Value value) {
  return isa<AccType, ExactType>(elementTypeOf(value));
}

/// An op with its gradient built behind it.
struct Differentiated {
  TestEntry &test;
  SmallVector<Tensor> arguments;
  Tensor cotangent;
  SmallVector<Value> operandCotangents;

  Differentiated(TestEntry &test, SmallVector<Tensor> values)
      : test(test), arguments(std::move(values)) {
    Operation *op = test.op();
    Value result = op->getResult(0);
    auto type = cast<RankedTensorType>(result.getType());
    // Only the first result has a cotangent: the others are statistics.
    SmallVector<Value> cotangents(op->getNumResults());
    TestRandom random(7);
    cotangent = reals(type.getShape(),
                      isSum(result) ? std::vector<double>{1}
                                    : random.spread(type.getNumElements(), -1, 2));
    if (!isSum(result)) {
      Block &body = test.entry().getBody().front();
      cotangents[0] = body.addArgument(type, op->getLoc());
      arguments.push_back(cotangent);
    }
    OpBuilder builder(op->getBlock()->getTerminator());
    EXPECT_TRUE(succeeded(cast<GradientOpInterface>(op).buildGradient(
        builder, cotangents, operandCotangents)));
    EXPECT_EQ(operandCotangents.size(), op->getNumOperands());
  }

  /// Interprets up to and with the gradient.
  ValueMap run() {
    Block &body = test.entry().getBody().front();
    ValueMap values;
    for (auto [value, tensor] : llvm::zip_equal(body.getArguments(), arguments))
      values[value] = tensor;
    for (Operation &op : body.without_terminator())
      EXPECT_TRUE(succeeded(interpretOp(&op, values)));
    return values;
  }

  /// <cotangent, op(arguments)>.
  double objective(Operation *op) {
    ValueMap values;
    Block &body = test.entry().getBody().front();
    for (auto [value, tensor] : llvm::zip_equal(body.getArguments(), arguments))
      values[value] = tensor;
    EXPECT_TRUE(succeeded(interpretOp(op, values)));
    const Tensor &result = values[op->getResult(0)];
    double sum = 0;
    for (size_t i = 0; i < result.reals.size(); ++i)
      sum += cotangent.reals[i] * result.reals[i];
    return sum;
  }

  /// The derivative of the objective by one element of one argument.
  double difference(Operation *op, size_t argument, size_t element) {
    double &x = arguments[argument].reals[element];
    double center = x;
    auto at = [&](double step) {
      x = center + step;
      return objective(op);
    };
    double near = at(kStep) - at(-kStep), far = at(2 * kStep) - at(-2 * kStep);
    x = center;
    return (8 * near - far) / (12 * kStep);
  }
};

std::vector<OpCase> differentiableCases() {
  std::vector<OpCase> cases;
  for (const OpCase &opCase : opCases()) {
    TestEntry test(opCase.arguments, opCase.op);
    // An exact sum of squares is the end of a program: nothing is behind it.
    if (isa<GradientOpInterface>(test.op()) && opCase.name != "exact_sum_square")
      cases.push_back(opCase);
  }
  return cases;
}

class GradientTest : public testing::TestWithParam<OpCase> {};

} // namespace

TEST_P(GradientTest, MatchesFiniteDifferences) {
  TestEntry test(GetParam().arguments, GetParam().op);
  ASSERT_TRUE(test.parsed());
  Operation *op = test.op();
  Differentiated gradient(test, argumentsOf(GetParam(), test));
  ValueMap values = gradient.run();
  bool any = false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (isSum(operand))
      continue; // adding to a sum passes its cotangent on unchanged
    Value cotangent = gradient.operandCotangents[i];
    if (elementTypeOf(operand).isInteger()) {
      EXPECT_FALSE(cotangent) << "operand " << i << " is an integer";
      continue;
    }
    any |= static_cast<bool>(cotangent);
    auto argument = cast<BlockArgument>(operand).getArgNumber();
    const Tensor &point = gradient.arguments[argument];
    if (cotangent) {
      ASSERT_EQ(cotangent.getType(), operand.getType()) << "operand " << i;
      ASSERT_EQ(values[cotangent].shape, point.shape) << "operand " << i;
    }
    for (size_t e = 0; e < point.reals.size(); ++e) {
      double expected = gradient.difference(op, argument, e);
      // No cotangent is a claim that the result does not depend on the operand.
      double actual = cotangent ? values[cotangent].reals[e] : 0;
      double scale = std::max({std::fabs(expected), std::fabs(actual), 1e-4});
      EXPECT_LE(std::fabs(actual - expected), kTolerance * scale)
          << "operand " << i << ", element " << e << ": gradient " << actual
          << ", difference " << expected;
    }
  }
  // Conversions from integers are the only ones without any.
  EXPECT_EQ(any, GetParam().name != "convert_integer");
}

INSTANTIATE_TEST_SUITE_P(
    Ops, GradientTest, testing::ValuesIn(differentiableCases()),
    [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Points without a derivative: what the project chooses there
//===----------------------------------------------------------------------===//

/// The cotangents of every operand for a cotangent of ones.
static SmallVector<Tensor> gradientAt(TestEntry &test,
                                      SmallVector<Tensor> arguments) {
  Differentiated gradient(test, std::move(arguments));
  for (double &x : gradient.arguments.back().reals)
    x = 1;
  ValueMap values = gradient.run();
  SmallVector<Tensor> cotangents;
  for (Value cotangent : gradient.operandCotangents)
    if (cotangent)
      cotangents.push_back(values[cotangent]);
  return cotangents;
}

TEST(GradientAtKinks, EqualMaximaShareTheCotangent) {
  for (const char *name : {"max", "min"}) {
    TestEntry test("%a: tensor<2xf64>, %b: tensor<2xf64>",
                   std::string("%r = mixle.") + name + " %a, %b : tensor<2xf64>");
    auto g = gradientAt(test, {reals({2}, {1, 0}), reals({2}, {1, 3})});
    bool max = std::string(name) == "max";
    EXPECT_EQ(g[0].reals, (std::vector<double>{0.5, max ? 0.0 : 1.0}));
    EXPECT_EQ(g[1].reals, (std::vector<double>{0.5, max ? 1.0 : 0.0}));
  }
}

TEST(GradientAtKinks, NothingFlowsIntoThePaddingRow) {
  for (const char *attribute : {"", "{padding = 1 : i64} "}) {
    TestEntry test("%t: tensor<3x1xf64>, %i: tensor<4xi32>",
                   std::string("%r = mixle.embedding %t, %i ") + attribute +
                       ": tensor<3x1xf64>, tensor<4xi32> -> tensor<4x1xf64>");
    auto g = gradientAt(test, {reals({3, 1}, {5, 6, 7}), integers({4}, {1, 2, 1, 0})});
    bool padded = *attribute;
    EXPECT_EQ(g[0].reals, (std::vector<double>{1, padded ? 0.0 : 2.0, 1}));
  }
}

TEST(GradientAtKinks, EveryElementThatAttainsTheMaximumShares) {
  TestEntry test("%a: tensor<4xf64>",
                 "%r = mixle.reduce \"max\" %a dims = [0] : tensor<4xf64> -> tensor<f64>");
  auto g = gradientAt(test, {reals({4}, {2, 5, 5, 1})});
  EXPECT_EQ(g[0].reals, (std::vector<double>{0, 0.5, 0.5, 0}));
}

TEST(GradientAtKinks, AbsoluteValueHasNoSlopeAtZero) {
  TestEntry test("%a: tensor<3xf64>", "%r = mixle.abs %a : tensor<3xf64>");
  auto g = gradientAt(test, {reals({3}, {-2, 0, 3})});
  EXPECT_EQ(g[0].reals, (std::vector<double>{-1, 0, 1}));
}

//===----------------------------------------------------------------------===//
// What has no gradient says so
//===----------------------------------------------------------------------===//

/// Gives every result a cotangent and expects one error with `message`.
static void expectNoGradient(const std::string &arguments,
                             const std::string &text,
                             const std::string &message) {
  TestEntry test(arguments, text);
  Operation *op = test.op();
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&test.getContext(), [&](Diagnostic &d) {
    diagnostics += d.str() + "\n";
  });
  SmallVector<Value> cotangents(op->getResults()), operands;
  OpBuilder builder(op->getBlock()->getTerminator());
  EXPECT_TRUE(failed(cast<GradientOpInterface>(op).buildGradient(
      builder, cotangents, operands)));
  EXPECT_NE(diagnostics.find(message), std::string::npos) << diagnostics;
}

TEST(GradientErrors, StatisticsAreNotDifferentiated) {
  expectNoGradient("%x: tensor<2x4xf64>, %g: tensor<4xf64>",
                   "%r:3 = mixle.layer_norm %x, %g, %g eps = 0.1 : "
                   "(tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64>) -> "
                   "(tensor<2x4xf64>, tensor<2xf64>, tensor<2xf64>)",
                   "has no gradient through its mean and rstd results");
  expectNoGradient("%x: tensor<2x4xf64>, %g: tensor<4xf64>",
                   "%r:2 = mixle.rms_norm %x, %g eps = 0.1 : (tensor<2x4xf64>, "
                   "tensor<4xf64>) -> (tensor<2x4xf64>, tensor<2xf64>)",
                   "has no gradient through its rstd result");
  expectNoGradient("%q: tensor<1x2x3x1x2xf64>",
                   "%r:3 = mixle.attention %q scale = 1.0 causal = true : "
                   "(tensor<1x2x3x1x2xf64>) -> (tensor<1x2x1x2xf64>, "
                   "tensor<1x1x2xi32>, tensor<1x1x2xf64>)",
                   "has no gradient through its statistics");
  expectNoGradient("%a: tensor<!mixle.exact<f64>>, %x: tensor<3xf64>",
                   "%r = mixle.exact_sum %a, %x {square = true} : "
                   "(tensor<!mixle.exact<f64>>, tensor<3xf64>) -> "
                   "tensor<!mixle.exact<f64>>",
                   "has no gradient for squares");
}
