//===- PlacementTest.cpp - Placement rules, by splitting every factor -----===//
//
// A rule promises what happens when a plan splits a factor. Here every factor
// of every case that may be split is: the op is interpreted on both parts, the
// parts are merged as the rule says, and the whole must come out.
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

/// Part [begin, end) of dimension `d` of a tensor.
Tensor part(const Tensor &tensor, int64_t d, int64_t begin, int64_t end) {
  SmallVector<int64_t> shape(tensor.shape);
  shape[d] = end - begin;
  Tensor result = tensor.integral ? Tensor::integerZeros(shape) : Tensor::zeros(shape);
  SmallVector<int64_t> strides = stridesOf(tensor.shape);
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t position) {
    int64_t source = begin * strides[d];
    for (size_t i = 0; i < index.size(); ++i)
      source += strides[i] * index[i];
    if (tensor.integral)
      result.integers[position] = tensor.integers[source];
    else
      result.reals[position] = tensor.reals[source];
  });
  return result;
}

Tensor joined(const Tensor &first, const Tensor &second, int64_t d) {
  SmallVector<int64_t> shape(first.shape);
  shape[d] += second.shape[d];
  Tensor result = first.integral ? Tensor::integerZeros(shape) : Tensor::zeros(shape);
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t position) {
    const Tensor &from = index[d] < first.shape[d] ? first : second;
    SmallVector<int64_t> at(index);
    if (&from == &second)
      at[d] -= first.shape[d];
    SmallVector<int64_t> strides = stridesOf(from.shape);
    int64_t source = std::inner_product(at.begin(), at.end(), strides.begin(),
                                        int64_t(0));
    if (from.integral)
      result.integers[position] = from.integers[source];
    else
      result.reals[position] = from.reals[source];
  });
  return result;
}

Tensor merged(const Tensor &first, const Tensor &second, Merge merge) {
  Tensor result = first;
  for (size_t i = 0; i < result.reals.size(); ++i) {
    double a = first.reals[i], b = second.reals[i];
    if (merge == Merge::Select) {
      EXPECT_TRUE(a == 0 || b == 0) << "element " << i << " has two owners";
    }
    result.reals[i] = merge == Merge::Max ? std::max(a, b) : a + b;
  }
  for (size_t i = 0; i < result.integers.size(); ++i)
    result.integers[i] = merge == Merge::Max
                             ? std::max(first.integers[i], second.integers[i])
                             : first.integers[i] + second.integers[i];
  return result;
}

/// Ids and labels count from the start of the part of the table that is there.
/// The operand that holds them, and the factor that they point into, or -1.
std::pair<int, int> indexOperand(Operation *op, const PlacementRule &rule) {
  StringRef name = op->getName().getStringRef();
  if (name == "mixle.embedding")
    return {1, rule.operands[0].front()};
  if (name == "mixle.scatter_add")
    return {0, rule.results[0].front()};
  if (name == "mixle.accumulate_scatter")
    return {1, rule.operands[0].front()};
  if (name == "mixle.select_label" || name == "mixle.softmax_cross_entropy_grad")
    return {1, rule.operands[0].back()};
  return {-1, -1};
}

/// One way to cut one factor in two.
struct Split {
  Operation *op;
  PlacementRule rule;
  int factor;
  int64_t unit;  ///< The greatest common divisor of the factor's sizes.
  int64_t first; ///< How many units the first part has.

  /// The parts of a dimension that has the factor.
  std::pair<int64_t, int64_t> range(int64_t size, int part) const {
    int64_t cut = first * (size / unit);
    return part == 0 ? std::pair<int64_t, int64_t>(0, cut)
                     : std::pair<int64_t, int64_t>(cut, size);
  }

  RankedTensorType partType(Value value, ArrayRef<int> factors, int part) const {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    for (auto [d, f] : llvm::enumerate(factors))
      if (f == factor) {
        auto [begin, end] = range(shape[d], part);
        shape[d] = end - begin;
      }
    return RankedTensorType::get(shape, type.getElementType());
  }

  Tensor partOperand(unsigned i, const Tensor &whole, int part) const;
  SmallVector<Tensor> run(ArrayRef<Tensor> operands, int part) const;
};

Tensor Split::partOperand(unsigned i, const Tensor &whole, int p) const {
  Tensor operand = whole;
  bool inResults = llvm::any_of(rule.results, [&](ArrayRef<int> dims) {
    return llvm::is_contained(dims, factor);
  });
  // What an op adds to is counted once.
  if (p == 1 && !inResults && rule.accumulatorOperand == static_cast<int>(i)) {
    std::fill(operand.reals.begin(), operand.reals.end(), 0.0);
    std::fill(operand.integers.begin(), operand.integers.end(), 0);
  }
  for (auto [d, f] : llvm::enumerate(rule.operands[i]))
    if (f == factor) {
      auto [begin, end] = range(operand.shape[d], p);
      operand = part(operand, static_cast<int64_t>(d), begin, end);
    }
  auto [indices, table] = indexOperand(op, rule);
  if (indices != static_cast<int>(i) || table != factor)
    return operand;
  // The table's size, from wherever the factor stands.
  auto [begin, end] = range(unit, p);
  auto ignore = op->getAttrOfType<IntegerAttr>("ignore");
  for (int64_t &id : operand.integers)
    if (!ignore || id != ignore.getInt())
      id = id >= begin && id < end ? id - begin : end - begin;
  return operand;
}

/// Interprets the op on one part, as partitioning would have made it.
SmallVector<Tensor> Split::run(ArrayRef<Tensor> operands, int p) const {
  OpBuilder builder(op->getContext());
  Block block;
  IRMapping mapping;
  ValueMap values;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    // An operand may be used twice with two meanings: one argument for each.
    Value local = block.addArgument(partType(operand, rule.operands[i], p),
                                    op->getLoc());
    values[local] = partOperand(static_cast<unsigned>(i), operands[i], p);
    EXPECT_EQ(values[local].shape,
              SmallVector<int64_t>(
                  cast<RankedTensorType>(local.getType()).getShape()));
  }
  builder.setInsertionPointToEnd(&block);
  Operation *local = builder.clone(*op);
  local->setOperands(block.getArguments());
  for (auto [i, result] : llvm::enumerate(local->getResults()))
    result.setType(partType(op->getResult(i), rule.results[i], p));
  // Attributes that speak of sizes.
  if (auto scatter = dyn_cast<ScatterAddOp>(local))
    scatter.setRows(scatter.getResult().getType().getDimSize(0));
  EXPECT_TRUE(succeeded(verify(local)));
  EXPECT_TRUE(succeeded(interpretOp(local, values)));
  SmallVector<Tensor> results;
  for (Value result : local->getResults())
    results.push_back(values[result]);
  // A status counts components from the end of all of them.
  if (isa<MixtureStatusOp>(op) && p == 0 && results[0].integers[0] > 0)
    results[0].integers[0] += unit - first;
  return results;
}

/// The sizes that a factor has, wherever it stands.
SmallVector<int64_t> sizesOf(Operation *op, const PlacementRule &rule,
                             int factor) {
  SmallVector<int64_t> sizes;
  auto collect = [&](Value value, ArrayRef<int> factors) {
    auto type = cast<RankedTensorType>(value.getType());
    ASSERT_EQ(static_cast<int64_t>(factors.size()), type.getRank());
    for (auto [d, f] : llvm::enumerate(factors))
      if (f == factor)
        sizes.push_back(type.getDimSize(static_cast<unsigned>(d)));
  };
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    collect(operand, rule.operands[i]);
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    collect(result, rule.results[i]);
  return sizes;
}

class PlacementTest : public testing::TestWithParam<OpCase> {};

} // namespace

TEST_P(PlacementTest, PartsMergeToTheWhole) {
  TestEntry test(GetParam().arguments, GetParam().op);
  ASSERT_TRUE(test.parsed());
  Operation *op = test.op();
  PlacementRule rule = cast<PlacementOpInterface>(op).getPlacementRule();
  ASSERT_EQ(rule.operands.size(), op->getNumOperands());
  ASSERT_EQ(rule.results.size(), op->getNumResults());
  SmallVector<Tensor> operands = argumentsOf(GetParam(), test);
  SmallVector<Tensor> whole = test.run(operands);
  ASSERT_EQ(whole.size(), op->getNumResults());

  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    SmallVector<int64_t> sizes = sizesOf(op, rule, f);
    ASSERT_FALSE(sizes.empty()) << "factor " << f << " stands nowhere";
    if (!rule.factors[f].splittable)
      continue;
    int64_t unit = 0;
    for (int64_t size : sizes)
      unit = std::gcd(unit, size);
    if (unit < 2)
      continue;
    // A granule is never cut.
    int64_t step = 1;
    if (auto size = op->getAttrOfType<IntegerAttr>("granule_size"))
      if (rule.factors[f].merge == Merge::Tree)
        step = size.getInt();
    for (int64_t cut = step; cut < unit; cut += step) {
      Split split{op, rule, f, unit, cut};
      SmallVector<Tensor> first = split.run(operands, 0);
      SmallVector<Tensor> second = split.run(operands, 1);
      for (auto [i, expected] : llvm::enumerate(whole)) {
        std::string what = "factor " + std::to_string(f) + " cut at " +
                           std::to_string(cut) + ", result " + std::to_string(i);
        const int *d = llvm::find(rule.results[i], f);
        if (d == rule.results[i].end()) {
          ASSERT_NE(rule.factors[f].merge, Merge::None)
              << what << ": the rule does not say how parts are merged";
        }
        Tensor actual = d != rule.results[i].end()
                            ? joined(first[i], second[i], d - rule.results[i].begin())
                            : merged(first[i], second[i], rule.factors[f].merge);
        // Only the order of sums may differ.
        expectNear(actual, expected, 1e-12, what);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, PlacementTest, testing::ValuesIn(opCases()),
    [](const auto &info) { return info.param.name; });

/// The number of factors of an op that may be split and are larger than one.
static size_t splittableFactors(const std::string &name) {
  for (const OpCase &opCase : opCases()) {
    if (opCase.name != name)
      continue;
    TestEntry test(opCase.arguments, opCase.op);
    PlacementRule rule = cast<PlacementOpInterface>(test.op()).getPlacementRule();
    return llvm::count_if(llvm::seq<int>(0, rule.factors.size()), [&](int f) {
      return rule.factors[f].splittable && sizesOf(test.op(), rule, f).front() > 1;
    });
  }
  ADD_FAILURE() << "no case " << name;
  return 0;
}

// A rule that forbids every split would pass all of the above.
TEST(PlacementRules, WhatPlansNeedMayBeSplit) {
  EXPECT_EQ(splittableFactors("dot_granules"), 3u); // rows, columns, granules
  EXPECT_EQ(splittableFactors("dot_plain"), 2u);    // without granules: no sum
  EXPECT_EQ(splittableFactors("embedding"), 4u);
  EXPECT_EQ(splittableFactors("attention_causal_true"), 2u); // rows, heads
  EXPECT_EQ(splittableFactors("grouped_attention_causal_true"), 2u); // rows, groups
  EXPECT_EQ(splittableFactors("rotary_heads"), 3u); // rows, tokens, heads
  EXPECT_EQ(splittableFactors("rotary_part"), 3u);  // rows, tokens, groups
  EXPECT_EQ(splittableFactors("layer_norm"), 2u);
  EXPECT_EQ(splittableFactors("row_sum_exp_granules"), 3u);
  EXPECT_EQ(splittableFactors("row_sum_exp"), 2u);
  EXPECT_EQ(splittableFactors("select_label"), 3u);
  EXPECT_EQ(splittableFactors("accumulate_dot_tokens"), 5u);
  EXPECT_EQ(splittableFactors("accumulate_scatter"), 4u);
  EXPECT_EQ(splittableFactors("adam_step_decoupled_true"), 2u);
  EXPECT_EQ(splittableFactors("reshape_split"), 2u);
  EXPECT_EQ(splittableFactors("reshape_ones"), 1u);
  EXPECT_EQ(splittableFactors("softmax_cross_entropy_grad"), 3u);
}
