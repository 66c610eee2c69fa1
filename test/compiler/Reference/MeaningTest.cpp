//===- MeaningTest.cpp - Values of ops against hand-made ones -------------===//

#include "Support.h"

#include "compiler/Reference/TensorJson.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static Tensor runOne(const std::string &arguments, const std::string &op,
                     ArrayRef<Tensor> values) {
  TestEntry test(arguments, op);
  SmallVector<Tensor> results = test.run(values);
  return results.empty() ? Tensor() : results[0];
}

TEST(Meaning, MovingElements) {
  Tensor x = integers({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(runOne("%a: tensor<2x3xi32>",
                   "%r = mixle.transpose %a perm = [1, 0] : tensor<2x3xi32> -> tensor<3x2xi32>",
                   {x}).integers,
            (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(runOne("%a: tensor<2x3xi32>",
                   "%r = mixle.slice %a[1 : 1, 3] : tensor<2x3xi32> -> tensor<2x2xi32>",
                   {x}).integers,
            (std::vector<int64_t>{2, 3, 5, 6}));
  EXPECT_EQ(runOne("%a: tensor<2x3xi32>",
                   "%r = mixle.pad %a[0 : 1, 0] : tensor<2x3xi32> -> tensor<3x3xi32>",
                   {x}).integers,
            (std::vector<int64_t>{0, 0, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(runOne("%a: tensor<2x3xi32>",
                   "%r = mixle.concat %a, %a dim = 1 : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x6xi32>",
                   {x}).integers,
            (std::vector<int64_t>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(runOne("%a: tensor<2xi32>, %l: tensor<?x3xi32>",
                   "%b = mixle.broadcast %a like %l dims = [0] : tensor<2xi32>, tensor<?x3xi32> -> tensor<?x3xi32>\n"
                   "%r = mixle.reshape %b : tensor<?x3xi32> -> tensor<?x1x3xi32>",
                   {integers({2}, {7, 8}), x}).integers,
            (std::vector<int64_t>{7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(runOne("", "%r = mixle.iota {dimension = 0 : i64} : tensor<2x2xi64>", {}).integers,
            (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(runOne("", "%r = mixle.constant dense<[true, false]> : tensor<2xi1>", {}).integers,
            (std::vector<int64_t>{1, 0}));
}

// y = W x + bias, the bias once: [110, 230].
TEST(Meaning, ProductAndBias) {
  Tensor y = runOne("%x: tensor<1x4xf64>, %w: tensor<2x4xf64>, %b: tensor<1x2xf64>",
                    "%p = mixle.dot_general %x, %w contract = [1] x [1] : "
                    "tensor<1x4xf64>, tensor<2x4xf64> -> tensor<1x2xf64>\n"
                    "%r = mixle.add %p, %b : tensor<1x2xf64>",
                    {reals({1, 4}, {1, 2, 3, 4}),
                     reals({2, 4}, {1, 1, 1, 1, 1, 2, 3, 4}),
                     reals({1, 2}, {100, 200})});
  EXPECT_EQ(y.reals, (std::vector<double>{110, 230}));
}

// The result has the batch dimensions first, then those of lhs, then of rhs.
TEST(Meaning, BatchedProduct) {
  Tensor y = runOne("%a: tensor<2x2xf64>, %b: tensor<1x2x2xf64>",
                    "%r = mixle.dot_general %a, %b contract = [0] x [1] {lhs_batch = "
                    "array<i64: 1>, rhs_batch = array<i64: 2>} : tensor<2x2xf64>, "
                    "tensor<1x2x2xf64> -> tensor<2x1xf64>",
                    {reals({2, 2}, {1, 2, 3, 4}), reals({1, 2, 2}, {5, 6, 7, 8})});
  // Batch 0: 1*5 + 3*7; batch 1: 2*6 + 4*8.
  EXPECT_EQ(y.reals, (std::vector<double>{26, 44}));
}

// Repeated ids add up; those outside the table are someone else's.
TEST(Meaning, ScatterAddOfRepeatedIds) {
  Tensor t = runOne("%i: tensor<5xi32>, %u: tensor<5x1xf64>",
                    "%r = mixle.scatter_add %i, %u rows = 4 : tensor<5xi32>, "
                    "tensor<5x1xf64> -> tensor<4x1xf64>",
                    {integers({5}, {1, 1, 3, 1, 4}), reals({5, 1}, {0.5, 0.25, 2, 1, 9})});
  EXPECT_EQ(t.reals, (std::vector<double>{0, 1.75, 0, 2}));
  Tensor e = runOne("%t: tensor<2x2xf64>, %i: tensor<3xi32>",
                    "%r = mixle.embedding %t, %i : tensor<2x2xf64>, tensor<3xi32> -> tensor<3x2xf64>",
                    {reals({2, 2}, {1, 2, 3, 4}), integers({3}, {1, -1, 2})});
  EXPECT_EQ(e.reals, (std::vector<double>{3, 4, 0, 0, 0, 0}));
}

TEST(Meaning, NormsOfOneRow) {
  // Mean 3, variance 5.
  const std::vector<double> x{0, 2, 4, 6};
  TestEntry layer("%x: tensor<1x4xf64>, %g: tensor<4xf64>, %b: tensor<4xf64>",
                  "%r:3 = mixle.layer_norm %x, %g, %b eps = 4.0 : (tensor<1x4xf64>, "
                  "tensor<4xf64>, tensor<4xf64>) -> (tensor<1x4xf64>, tensor<1xf64>, tensor<1xf64>)");
  auto r = layer.run({reals({1, 4}, x), reals({4}, {1, 1, 3, 1}), reals({4}, {0, 0, 0, 1})});
  expectNear(r[0], reals({1, 4}, {-1, -1.0 / 3, 1, 2}), 1e-15, "layer_norm");
  EXPECT_EQ(r[1].reals[0], 3);
  EXPECT_DOUBLE_EQ(r[2].reals[0], 1.0 / 3);
  // Mean square 14.
  TestEntry rms("%x: tensor<1x4xf64>, %g: tensor<4xf64>",
                "%r:2 = mixle.rms_norm %x, %g eps = 2.0 : (tensor<1x4xf64>, "
                "tensor<4xf64>) -> (tensor<1x4xf64>, tensor<1xf64>)");
  auto s = rms.run({reals({1, 4}, x), reals({4}, {1, 1, 2, 1})});
  EXPECT_EQ(s[0].reals, (std::vector<double>{0, 0.5, 2, 1.5}));
  EXPECT_EQ(s[1].reals[0], 0.25);
}

TEST(Meaning, GeluForms) {
  auto gelu = [](const char *form, double x) {
    return runOne("%a: tensor<1xf64>",
                  std::string("%r = mixle.gelu %a {approximate = \"") + form + "\"} : tensor<1xf64>",
                  {reals({1}, {x})}).reals[0];
  };
  // x times the normal distribution function, 0.841344746068542948...
  EXPECT_NEAR(gelu("none", 1), 0.84134474606854294859, 1e-15);
  EXPECT_NEAR(gelu("none", -1), -0.15865525393145705141, 1e-15);
  // 0.5 (1 + tanh(sqrt(2/pi) 1.044715)), and the forms differ.
  EXPECT_NEAR(gelu("tanh", 1), 0.84119199060827, 1e-13);
  EXPECT_EQ(gelu("tanh", 0), 0);
}

TEST(Meaning, NanIsNotLost) {
  double nan = std::nan("");
  for (const char *op : {"max", "min"}) {
    Tensor r = runOne("%a: tensor<2xf64>, %b: tensor<2xf64>",
                      std::string("%r = mixle.") + op + " %a, %b : tensor<2xf64>",
                      {reals({2}, {nan, 1}), reals({2}, {1, nan})});
    EXPECT_TRUE(std::isnan(r.reals[0]) && std::isnan(r.reals[1])) << op;
  }
  Tensor m = runOne("%a: tensor<3xf64>",
                    "%r = mixle.reduce \"max\" %a dims = [0] : tensor<3xf64> -> tensor<f64>",
                    {reals({3}, {1, nan, 2})});
  EXPECT_TRUE(std::isnan(m.reals[0]));
  Tensor c = runOne("%a: tensor<1xf64>",
                    "%r = mixle.compare \"ne\" %a, %a : tensor<1xf64> -> tensor<1xi1>",
                    {reals({1}, {nan})});
  EXPECT_EQ(c.integers[0], 1);
}

// Terms that plain addition would lose.
TEST(Meaning, ExactSumsAreExact) {
  Tensor r = runOne("%a: tensor<!mixle.exact<f64>>, %x: tensor<4xf64>",
                    "%r = mixle.exact_sum %a, %x : (tensor<!mixle.exact<f64>>, "
                    "tensor<4xf64>) -> tensor<!mixle.exact<f64>>",
                    {reals({}, {1}), reals({4}, {1e100, 1, -1e100, 1})});
  EXPECT_EQ(r.reals[0], 3);
  Tensor s = runOne("%a: tensor<!mixle.exact<f64>>, %x: tensor<2xf64>",
                    "%r = mixle.exact_sum %a, %x {square = true} : "
                    "(tensor<!mixle.exact<f64>>, tensor<2xf64>) -> tensor<!mixle.exact<f64>>",
                    {reals({}, {1}), reals({2}, {3, 4})});
  EXPECT_EQ(s.reals[0], 26);
}

TEST(Meaning, AccumulatorsAreMeansOfCountedLabels) {
  Tensor r = runOne("%a: tensor<1x1x!mixle.acc<f32>>, %n: tensor<i64>, %x: tensor<?x2x1xf32>, "
                    "%y: tensor<?x2xi32>",
                    "%s = mixle.accumulate_dot @w %a, %x, %x data_dims = 2 block = 2 : "
                    "(tensor<1x1x!mixle.acc<f32>>, tensor<?x2x1xf32>, tensor<?x2x1xf32>) -> "
                    "tensor<1x1x!mixle.acc<f32>>\n"
                    "%c = mixle.count_labels %n, %y : (tensor<i64>, tensor<?x2xi32>) -> tensor<i64>\n"
                    "%r = mixle.resolve @w %s, %c : (tensor<1x1x!mixle.acc<f32>>, tensor<i64>) -> tensor<1x1xf32>",
                    {reals({1, 1}, {10}), integers({}, {1}), reals({1, 2, 1}, {1, 3}),
                     integers({1, 2}, {5, -100})});
  EXPECT_EQ(r.reals[0], 10); // (10 + 1 + 9) / 2
}

TEST(Meaning, RoundingIsAnOption) {
  TestEntry test("%a: tensor<1xf32>", "%r = mixle.exp %a : tensor<1xf32>");
  InterpreterOptions rounded;
  rounded.roundToType = true;
  double exact = test.run({reals({1}, {1})})[0].reals[0];
  EXPECT_EQ(exact, std::exp(1.0));
  EXPECT_EQ(test.run({reals({1}, {1})}, rounded)[0].reals[0],
            static_cast<double>(static_cast<float>(exact)));
}

//===----------------------------------------------------------------------===//
// Entries and their errors
//===----------------------------------------------------------------------===//

/// Interprets the entry; gives the error, or an empty text.
static std::string entryError(TestEntry &test, ArrayRef<Tensor> arguments) {
  std::string message;
  ScopedDiagnosticHandler handler(&test.getContext(),
                                  [&](Diagnostic &d) { message += d.str(); });
  SmallVector<Tensor> results;
  bool ok = succeeded(interpret(test.entry(), arguments, results));
  EXPECT_EQ(ok, message.empty());
  return message;
}

TEST(Entry, ArgumentsAreChecked) {
  TestEntry test("%a: tensor<?x2xf64>, %b: tensor<?x2xf64>, %i: tensor<i64>", "");
  Tensor two = reals({2, 2}, {1, 2, 3, 4}), one = reals({1, 2}, {1, 2});
  Tensor count = integers({}, {1});
  EXPECT_EQ(entryError(test, {two, two, count}), "");
  EXPECT_NE(entryError(test, {two, two}).find("'e' takes 3 arguments, got 2"), std::string::npos);
  EXPECT_NE(entryError(test, {two, one, count}).find("argument 1 has 1 rows, an earlier argument has 2"),
            std::string::npos);
  EXPECT_NE(entryError(test, {two, reals({2, 1}, {1, 2}), count})
                .find("has shape [2, 1], but the program expects 'tensor<?x2xf64>'"),
            std::string::npos);
  EXPECT_NE(entryError(test, {two, two, reals({}, {1})}).find("needs 1 integers"), std::string::npos);
}

TEST(Entry, RunTimeShapesAreChecked) {
  TestEntry test("%i: tensor<?x2xi32>, %b: tensor<2xf64>",
                 "%c = mixle.convert %i : tensor<?x2xi32> -> tensor<?x2xf64>\n"
                 "%x = mixle.broadcast %b like %c dims = [0] : tensor<2xf64>, tensor<?x2xf64> -> tensor<?x2xf64>");
  EXPECT_NE(entryError(test, {integers({3, 2}, {1, 2, 3, 4, 5, 6}), reals({2}, {1, 2})})
                .find("dimension 0 has run-time size 2, dimension 0 of the target has 3"),
            std::string::npos);
}

TEST(Entry, ResultsComeInOrder) {
  MLIRContext context;
  TestEntry test("%a: tensor<?xf64>", "%r = mixle.neg %a : tensor<?xf64>");
  SmallVector<Tensor> results;
  // No rows at all is a legal number of rows.
  ASSERT_TRUE(succeeded(interpret(test.entry(), {reals({0}, {})}, results)));
  EXPECT_TRUE(results.empty()); // the entry returns nothing
  EXPECT_EQ(test.run({reals({0}, {})})[0].shape, (SmallVector<int64_t>{0}));
}

TEST(TensorJson, RoundTrip) {
  MLIRContext context;
  SmallVector<Type> types{RankedTensorType::get({2, 2}, Float64Type::get(&context)),
                          RankedTensorType::get({}, IntegerType::get(&context, 64))};
  SmallVector<Tensor> tensors{reals({2, 2}, {0.1, -HUGE_VAL, 1e-300, HUGE_VAL}),
                              integers({}, {int64_t(1) << 60})};
  auto parsed = tensorsFromJson(tensorsToJson(tensors), types);
  ASSERT_TRUE(static_cast<bool>(parsed)) << llvm::toString(parsed.takeError());
  EXPECT_EQ((*parsed)[0].reals, tensors[0].reals);
  EXPECT_EQ((*parsed)[0].shape, tensors[0].shape);
  EXPECT_EQ((*parsed)[1].integers, tensors[1].integers);
}

TEST(TensorJson, ErrorsNameTheElement) {
  MLIRContext context;
  Type real = RankedTensorType::get({2}, Float64Type::get(&context));
  Type whole = RankedTensorType::get({2}, IntegerType::get(&context, 32));
  auto error = [&](StringRef text, Type type) {
    auto parsed = tensorsFromJson(text, type);
    return parsed ? std::string() : llvm::toString(parsed.takeError());
  };
  EXPECT_EQ(error("[]", real), "has 0 tensors, expected 1");
  EXPECT_EQ(error("{}", real), "expected a list of tensors");
  EXPECT_EQ(error("[{\"shape\": [2]}]", real), "tensor 0 is not {\"shape\": [...], \"data\": [...]}");
  EXPECT_EQ(error("[{\"shape\": [2], \"data\": [1]}]", real), "tensor 0 has 1 elements, its shape has 2");
  EXPECT_EQ(error("[{\"shape\": [2], \"data\": [1, \"x\"]}]", real),
            "tensor 0 element 1 is \"x\", expected a number, \"inf\", \"-inf\" or \"nan\"");
  EXPECT_EQ(error("[{\"shape\": [2], \"data\": [1, 1.5]}]", whole),
            "tensor 0 element 1 is 1.5, expected an integer");
  EXPECT_EQ(error("[{\"shape\": [-1], \"data\": []}]", real),
            "tensor 0 has a shape of -1; sizes are integers from 0 on");
}
