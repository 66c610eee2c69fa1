//===- Support.cpp - Small programs and tensors for tests -----------------===//

#include "Support.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

TestEntry::TestEntry(const std::string &arguments, const std::string &body) {
  context.loadDialect<MixleDialect>();
  std::string text = "mixle.program @p attributes {kind = \"training\"} {\n"
                     "mixle.entry @e(" +
                     arguments + ") {\n" + body + "\nmixle.return\n}\n}\n";
  module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
}

EntryOp TestEntry::entry() {
  EntryOp found;
  module->walk([&](EntryOp entry) { found = entry; });
  return found;
}

Operation *TestEntry::op() {
  return entry().getBody().front().getTerminator()->getPrevNode();
}

SmallVector<Tensor> TestEntry::run(ArrayRef<Tensor> arguments,
                                   const InterpreterOptions &options) {
  Block &body = entry().getBody().front();
  ValueMap values;
  for (auto [value, tensor] : llvm::zip_equal(body.getArguments(), arguments))
    values[value] = tensor;
  for (Operation &op : body.without_terminator()) {
    LogicalResult result = interpretOp(&op, values, options);
    EXPECT_TRUE(succeeded(result)) << op.getName().getStringRef().str();
    if (failed(result))
      return {};
  }
  SmallVector<Tensor> results;
  for (Value result : op()->getResults())
    results.push_back(values[result]);
  return results;
}

Tensor mlir::mixle::reference::reals(ArrayRef<int64_t> shape,
                                     std::vector<double> values) {
  Tensor tensor = Tensor::zeros(shape);
  EXPECT_EQ(tensor.reals.size(), values.size());
  tensor.reals = std::move(values);
  return tensor;
}

Tensor mlir::mixle::reference::integers(ArrayRef<int64_t> shape,
                                        std::vector<int64_t> values) {
  Tensor tensor = Tensor::integerZeros(shape);
  EXPECT_EQ(tensor.integers.size(), values.size());
  tensor.integers = std::move(values);
  return tensor;
}

uint64_t TestRandom::next() {
  // SplitMix64.
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::vector<double> TestRandom::spread(int64_t count, double low, double high) {
  // The cells of a grid of even size in random order; no cell's middle is the
  // middle of the range.
  int64_t cells = count + count % 2;
  std::vector<int64_t> order(static_cast<size_t>(cells));
  for (int64_t i = 0; i < cells; ++i)
    order[i] = i;
  for (int64_t i = cells - 1; i > 0; --i)
    std::swap(order[i], order[below(i + 1)]);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(low + (high - low) *
                               (static_cast<double>(order[i]) + 0.5) /
                               static_cast<double>(cells));
  return values;
}

Type mlir::mixle::reference::elementTypeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

void mlir::mixle::reference::expectNear(const Tensor &actual,
                                        const Tensor &expected,
                                        double tolerance,
                                        const std::string &what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  ASSERT_EQ(actual.integral, expected.integral) << what;
  EXPECT_EQ(actual.integers, expected.integers) << what;
  ASSERT_EQ(actual.reals.size(), expected.reals.size()) << what;
  for (size_t i = 0; i < actual.reals.size(); ++i) {
    double a = actual.reals[i], b = expected.reals[i];
    double scale = std::max({std::fabs(a), std::fabs(b), 1e-4});
    if (a != b) {
      EXPECT_LE(std::fabs(a - b), tolerance * scale)
          << what << ", element " << i << ": " << a << " and " << b;
    }
  }
}
