//===- MixlePlacement.cpp - Placement rules and costs of mixle ops --------===//
//
// A rule names the dimensions of operands and results by factors, as an einsum
// does. What a plan does to a factor then follows for every op alike.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/Mixle.h"

using namespace mlir;
using namespace mlir::mixle;

namespace {

int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

/// Builds a rule dimension by dimension.
struct RuleBuilder {
  PlacementRule rule;

  SmallVector<int> factors(int64_t count, Merge merge = Merge::None,
                           bool splittable = true) {
    SmallVector<int> ids;
    for (int64_t i = 0; i < count; ++i)
      ids.push_back(rule.addFactor(merge, splittable));
    return ids;
  }
  RuleBuilder &operand(ArrayRef<int> dims) {
    rule.operands.emplace_back(dims);
    return *this;
  }
  RuleBuilder &result(ArrayRef<int> dims) {
    rule.results.emplace_back(dims);
    return *this;
  }
};

SmallVector<int> concat(ArrayRef<int> a, ArrayRef<int> b) {
  SmallVector<int> all(a);
  all.append(b.begin(), b.end());
  return all;
}

double elements(Value value) {
  double n = 1;
  for (int64_t d : cast<RankedTensorType>(value.getType()).getShape())
    if (!ShapedType::isDynamic(d))
      n *= static_cast<double>(d);
  return n;
}

/// Default bytes with a given number of flops.
Cost costWithFlops(Operation *op, double flops) {
  Cost cost = defaultCost(op);
  cost.flops = flops;
  return cost;
}

} // namespace

// Pointwise ops: one factor per dimension.
#define POINTWISE(OP)                                                          \
  PlacementRule OP::getPlacementRule() { return pointwiseRule(*this); }
POINTWISE(NegOp)
POINTWISE(ExpOp)
POINTWISE(LogOp)
POINTWISE(TanhOp)
POINTWISE(ErfOp)
POINTWISE(SinOp)
POINTWISE(CosOp)
POINTWISE(SqrtOp)
POINTWISE(AbsOp)
POINTWISE(SiluOp)
POINTWISE(GeluOp)
POINTWISE(GeluGradOp)
POINTWISE(AddOp)
POINTWISE(SubOp)
POINTWISE(MulOp)
POINTWISE(DivOp)
POINTWISE(MaxOp)
POINTWISE(MinOp)
POINTWISE(CompareOp)
POINTWISE(SelectOp)
POINTWISE(ConvertOp)
POINTWISE(CrossEntropyOp)
POINTWISE(LogAddOp)
POINTWISE(SgdStepOp)
POINTWISE(AdamStepOp)
POINTWISE(ScheduleOp)
POINTWISE(ClipCoefficientOp)
POINTWISE(RoundExactOp)
#undef POINTWISE


//===----------------------------------------------------------------------===//
// Constants and shapes
//===----------------------------------------------------------------------===//

PlacementRule ConstantOp::getPlacementRule() {
  RuleBuilder b;
  // A literal is held whole by every rank.
  b.result(SmallVector<int>(rankOf(getResult()), -1));
  return b.rule;
}

PlacementRule IotaOp::getPlacementRule() {
  RuleBuilder b;
  b.result(SmallVector<int>(rankOf(getResult()), -1));
  return b.rule;
}

PlacementRule BroadcastOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> dims = b.factors(rankOf(getResult()));
  SmallVector<int> input;
  for (int64_t d : getDimensions())
    input.push_back(dims[d]);
  b.operand(input).operand(dims).result(dims);
  return b.rule;
}

PlacementRule ReshapeOp::getPlacementRule() {
  // Dimensions are matched while their sizes agree from both ends; a group that
  // is split or joined keeps its leading (slowest) dimension, along which the
  // elements stay contiguous.
  auto from = getInput().getType(), to = getResult().getType();
  RuleBuilder b;
  SmallVector<int> in(from.getRank(), -1), out(to.getRank(), -1);
  int64_t i = 0, j = 0;
  while (i < from.getRank() && j < to.getRank()) {
    int64_t a = from.getDimSize(i), c = to.getDimSize(j);
    if (a == c) {
      in[i++] = out[j++] = b.rule.addFactor();
      continue;
    }
    // A dimension of size one stands between no elements: it joins no group.
    if (a == 1) {
      ++i;
      continue;
    }
    if (c == 1) {
      ++j;
      continue;
    }
    // One group of dimensions with equal products. Where neither leading size
    // divides the other, hardly any cut falls between elements of both.
    int factor = b.rule.addFactor(Merge::None, a % c == 0 || c % a == 0);
    in[i] = out[j] = factor;
    ++i, ++j;
    while (a != c && (i < from.getRank() || j < to.getRank())) {
      if (a < c && i < from.getRank())
        a *= from.getDimSize(i++);
      else if (j < to.getRank())
        c *= to.getDimSize(j++);
      else
        break;
    }
  }
  b.operand(in).result(out);
  return b.rule;
}

PlacementRule TransposeOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> in = b.factors(rankOf(getInput())), out;
  for (int64_t d : getPermutation())
    out.push_back(in[d]);
  b.operand(in).result(out);
  return b.rule;
}

/// Ops that keep every dimension but need one of them whole.
static PlacementRule keepAllBut(ValueRange operands, Value result,
                                int64_t whole) {
  RuleBuilder b;
  SmallVector<int> dims = b.factors(rankOf(result));
  b.rule.factors[dims[whole]].splittable = false;
  for (size_t i = 0; i < operands.size(); ++i)
    b.operand(dims);
  b.result(dims);
  return b.rule;
}

PlacementRule SliceOp::getPlacementRule() {
  return keepAllBut({getInput()}, getResult(), getDimension());
}
PlacementRule PadOp::getPlacementRule() {
  return keepAllBut({getInput()}, getResult(), getDimension());
}
PlacementRule ConcatOp::getPlacementRule() {
  return keepAllBut(getInputs(), getResult(), getDimension());
}

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

PlacementRule ReduceOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> in, out;
  for (int64_t d = 0; d < rankOf(getInput()); ++d) {
    if (llvm::is_contained(getDimensions(), d)) {
      // Sums over an unsplit row have no granules, so they cannot be split.
      bool max = getKind() == "max";
      in.push_back(b.rule.addFactor(max ? Merge::Max : Merge::Tree, max));
    } else {
      in.push_back(b.rule.addFactor());
      out.push_back(in.back());
    }
  }
  b.operand(in).result(out);
  return b.rule;
}

PlacementRule DotGeneralOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> lhs(rankOf(getLhs()), -1), rhs(rankOf(getRhs()), -1), out;
  for (auto [i, j] : llvm::zip(getLhsBatch(), getRhsBatch())) {
    lhs[i] = rhs[j] = b.rule.addFactor();
    out.push_back(lhs[i]);
  }
  for (auto [n, pair] :
       llvm::enumerate(llvm::zip(getLhsContract(), getRhsContract()))) {
    // Only the dimension that has granules can be split between ranks.
    bool granular = getGranuleDim() && *getGranuleDim() == n;
    auto [i, j] = pair;
    lhs[i] = rhs[j] = b.rule.addFactor(Merge::Tree, granular);
  }
  for (int &factor : lhs)
    if (factor < 0)
      out.push_back(factor = b.rule.addFactor());
  for (int &factor : rhs)
    if (factor < 0)
      out.push_back(factor = b.rule.addFactor());
  b.operand(lhs).operand(rhs).result(out);
  return b.rule;
}

Cost DotGeneralOp::getCost() {
  double contracted = 1;
  for (int64_t d : getLhsContract())
    if (!getLhs().getType().isDynamicDim(d))
      contracted *= static_cast<double>(getLhs().getType().getDimSize(d));
  return costWithFlops(*this, 2 * contracted * elements(getResult()));
}

PlacementRule EmbeddingOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> ids = b.factors(rankOf(getIds()));
  SmallVector<int> columns = b.factors(rankOf(getTable()) - 1);
  int vocabulary = b.rule.addFactor(Merge::Select);
  b.operand(concat({vocabulary}, columns)).operand(ids);
  b.result(concat(ids, columns));
  return b.rule;
}

PlacementRule ScatterAddOp::getPlacementRule() {
  RuleBuilder b;
  int64_t idRank = rankOf(getIds());
  SmallVector<int> ids = b.factors(idRank, Merge::Integer);
  SmallVector<int> columns = b.factors(rankOf(getUpdates()) - idRank);
  int vocabulary = b.rule.addFactor();
  b.operand(ids).operand(concat(ids, columns));
  b.result(concat({vocabulary}, columns));
  return b.rule;
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

/// Norms: rows are free, the last dimension is needed whole.
static RuleBuilder normRows(Value input, SmallVector<int> &rows,
                            SmallVector<int> &all) {
  RuleBuilder b;
  rows = b.factors(rankOf(input) - 1);
  int width = b.rule.addFactor(Merge::None, /*splittable=*/false);
  all = concat(rows, {width});
  return b;
}

PlacementRule LayerNormOp::getPlacementRule() {
  SmallVector<int> rows, all;
  RuleBuilder b = normRows(getInput(), rows, all);
  b.operand(all).operand({all.back()}).operand({all.back()});
  b.result(all).result(rows).result(rows);
  return b.rule;
}

PlacementRule LayerNormGradOp::getPlacementRule() {
  SmallVector<int> rows, all;
  RuleBuilder b = normRows(getInput(), rows, all);
  b.operand(all).operand({all.back()}).operand(rows).operand(rows).operand(all);
  b.result(all).result(all);
  return b.rule;
}

PlacementRule RmsNormOp::getPlacementRule() {
  SmallVector<int> rows, all;
  RuleBuilder b = normRows(getInput(), rows, all);
  b.operand(all).operand({all.back()}).result(all).result(rows);
  return b.rule;
}

PlacementRule RmsNormGradOp::getPlacementRule() {
  SmallVector<int> rows, all;
  RuleBuilder b = normRows(getInput(), rows, all);
  b.operand(all).operand({all.back()}).operand(rows).operand(all);
  b.result(all).result(all);
  return b.rule;
}

PlacementRule RotaryOp::getPlacementRule() {
  RuleBuilder b;
  int64_t rank = rankOf(getInput());
  // Pairs of columns stand apart, so the last dimension is needed whole; so is
  // the one before where a part of it is copied.
  SmallVector<int> all = b.factors(rank - 1);
  if (getRotated())
    b.rule.factors[all.back()].splittable = false;
  all.push_back(b.rule.addFactor(Merge::None, /*splittable=*/false));
  int half = b.rule.addFactor(Merge::None, /*splittable=*/false);
  b.operand(all).operand({all[1], half}).operand({all[1], half}).result(all);
  return b.rule;
}

/// Attention: rows and heads (or groups of heads) are free; tokens, the packing
/// and head_dim whole.
struct AttentionFactors {
  RuleBuilder builder;
  bool grouped;
  int rows, tokens, packed, heads, width, queries;
  AttentionFactors(bool grouped) : grouped(grouped) {
    PlacementRule &rule = builder.rule;
    rows = rule.addFactor();
    tokens = rule.addFactor(Merge::None, false);
    packed = rule.addFactor(Merge::None, false);
    heads = rule.addFactor();
    width = rule.addFactor(Merge::None, false);
    queries = grouped ? rule.addFactor(Merge::None, false) : -1;
  }
  SmallVector<int> qkv() {
    if (grouped)
      return {rows, tokens, heads, packed, width};
    return {rows, tokens, packed, heads, width};
  }
  SmallVector<int> output() {
    if (grouped)
      return {rows, tokens, heads, queries, width};
    return {rows, tokens, heads, width};
  }
  SmallVector<int> statistics() {
    if (grouped)
      return {rows, heads, queries, tokens};
    return {rows, heads, tokens};
  }
};

PlacementRule AttentionOp::getPlacementRule() {
  AttentionFactors f(getGrouped());
  f.builder.operand(f.qkv())
      .result(f.output())
      .result(f.statistics())
      .result(f.statistics());
  return f.builder.rule;
}

PlacementRule AttentionGradOp::getPlacementRule() {
  AttentionFactors f(getGrouped());
  f.builder.operand(f.qkv())
      .operand(f.output())
      .operand(f.statistics())
      .operand(f.statistics())
      .operand(f.output())
      .result(f.qkv());
  return f.builder.rule;
}

static double attentionFlops(RankedTensorType qkv, bool causal, bool grouped) {
  double tokens = static_cast<double>(qkv.getDimSize(1));
  double pairs = causal ? tokens * (tokens + 1) / 2 : tokens * tokens;
  if (!qkv.isDynamicDim(0))
    pairs *= static_cast<double>(qkv.getDimSize(0));
  int64_t heads = grouped ? qkv.getDimSize(2) * (qkv.getDimSize(3) - 2)
                          : qkv.getDimSize(3);
  return 4 * pairs * static_cast<double>(heads * qkv.getDimSize(4));
}
Cost AttentionOp::getCost() {
  return costWithFlops(*this, attentionFlops(getQkv().getType(), getCausal(),
                                             getGrouped()));
}
Cost AttentionGradOp::getCost() {
  // Scores again, dP, dV, dQ and dK: five products instead of two.
  return costWithFlops(*this,
                       2.5 * attentionFlops(getQkv().getType(), getCausal(),
                                             getGrouped()));
}

/// Ops over the last dimension of [..., V]: free rows, merged columns.
struct RowFactors {
  RuleBuilder builder;
  SmallVector<int> rows, all;
  int columns;
  RowFactors(Value input, Merge merge, bool splittable = true) {
    rows = builder.factors(rankOf(input) - 1);
    columns = builder.rule.addFactor(merge, splittable);
    all = concat(rows, {columns});
  }
};

PlacementRule SoftmaxCrossEntropyOp::getPlacementRule() {
  // Decomposed before placement; the composite itself needs the row whole.
  RowFactors f(getLogits(), Merge::None, false);
  f.builder.operand(f.all).operand(f.rows).result(f.rows);
  return f.builder.rule;
}
PlacementRule LogSumExpOp::getPlacementRule() {
  RowFactors f(getInput(), Merge::None, false);
  f.builder.operand(f.all).result(f.rows);
  return f.builder.rule;
}
PlacementRule RowMaxOp::getPlacementRule() {
  RowFactors f(getInput(), Merge::Max);
  f.builder.operand(f.all).result(f.rows);
  return f.builder.rule;
}
PlacementRule RowSumExpOp::getPlacementRule() {
  RowFactors f(getInput(), Merge::Tree, getGranules().has_value());
  f.builder.operand(f.all).operand(f.rows).result(f.rows);
  return f.builder.rule;
}
PlacementRule RowGranuleSumsOp::getPlacementRule() {
  // Made after placement, on local tensors.
  RowFactors f(getInput(), Merge::None, false);
  SmallVector<int> result = f.rows;
  result.push_back(f.builder.rule.addFactor(Merge::None, false));
  f.builder.operand(f.all).operand(f.rows).result(result);
  return f.builder.rule;
}
PlacementRule SelectLabelOp::getPlacementRule() {
  RowFactors f(getLogits(), Merge::Select);
  f.builder.operand(f.all).operand(f.rows).result(f.rows);
  return f.builder.rule;
}
PlacementRule SoftmaxCrossEntropyGradOp::getPlacementRule() {
  RowFactors f(getLogits(), Merge::None);
  f.builder.operand(f.all)
      .operand(f.rows)
      .operand(f.rows)
      .operand(f.rows)
      .operand(f.rows)
      .result(f.all);
  return f.builder.rule;
}
PlacementRule SoftmaxScaleOp::getPlacementRule() {
  RowFactors f(getInput(), Merge::None);
  f.builder.operand(f.all)
      .operand(f.rows)
      .operand(f.rows)
      .operand(f.rows)
      .result(f.all);
  return f.builder.rule;
}

//===----------------------------------------------------------------------===//
// Sums over data
//===----------------------------------------------------------------------===//

PlacementRule AccumulateDotOp::getPlacementRule() {
  RuleBuilder b;
  b.rule.accumulatorOperand = 0;
  int64_t n = getDataDims();
  SmallVector<int> data = b.factors(n, Merge::Integer);
  SmallVector<int> k = b.factors(rankOf(getLhs()) - n);
  SmallVector<int> m = b.factors(rankOf(getRhs()) - n);
  SmallVector<int> acc = concat(k, m);
  b.operand(acc).operand(concat(data, k)).operand(concat(data, m)).result(acc);
  return b.rule;
}

Cost AccumulateDotOp::getCost() {
  double terms = 1;
  for (int64_t d : getLhs().getType().getShape().take_front(getDataDims()))
    if (!ShapedType::isDynamic(d))
      terms *= static_cast<double>(d);
  return costWithFlops(*this, 2 * terms * elements(getResult()));
}

PlacementRule AccumulateRowsOp::getPlacementRule() {
  RuleBuilder b;
  b.rule.accumulatorOperand = 0;
  int64_t n = getDataDims();
  SmallVector<int> data = b.factors(n, Merge::Integer);
  SmallVector<int> columns = b.factors(rankOf(getInput()) - n);
  b.operand(columns).operand(concat(data, columns)).result(columns);
  return b.rule;
}

PlacementRule AccumulateScatterOp::getPlacementRule() {
  RuleBuilder b;
  b.rule.accumulatorOperand = 0;
  int64_t n = rankOf(getIds());
  SmallVector<int> data = b.factors(n, Merge::Integer);
  SmallVector<int> columns = b.factors(rankOf(getUpdates()) - n);
  SmallVector<int> acc = concat({b.rule.addFactor()}, columns);
  b.operand(acc).operand(data).operand(concat(data, columns)).result(acc);
  return b.rule;
}

PlacementRule ExactSumOp::getPlacementRule() {
  RuleBuilder b;
  b.rule.accumulatorOperand = 0;
  SmallVector<int> data = b.factors(rankOf(getInput()), Merge::Exact);
  b.operand({}).operand(data).result({});
  return b.rule;
}

PlacementRule CountLabelsOp::getPlacementRule() {
  RuleBuilder b;
  b.rule.accumulatorOperand = 0;
  SmallVector<int> data = b.factors(rankOf(getLabels()), Merge::Integer);
  b.operand({}).operand(data).result({});
  return b.rule;
}

PlacementRule ResolveOp::getPlacementRule() {
  RuleBuilder b;
  SmallVector<int> dims = b.factors(rankOf(getResult()));
  b.operand(dims).operand({}).result(dims);
  return b.rule;
}
