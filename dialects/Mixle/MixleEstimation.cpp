//===- MixleEstimation.cpp - Shapes and placement of mixture ops ----------===//

#include "dialects/Mixle/ShapeChecks.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::checks;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static int64_t featuresOf(int64_t dim, bool full) {
  return 1 + dim + (full ? dim * (dim + 1) / 2 : dim);
}

static LogicalResult checkRank(std::optional<Location> loc, StringRef label,
                               StringRef what, Value value, int64_t rank) {
  auto type = tensorOf(value);
  if (type.getRank() == rank)
    return success();
  return fail(loc, label, " ", what, " ", type, " should have ", rank,
              " dimensions");
}

/// Covariances of `means` [K, D].
static Shape covarianceShape(RankedTensorType means, bool full) {
  Shape shape(means.getShape());
  if (full)
    shape.push_back(shape.back());
  return shape;
}

static LogicalResult inferMixtureFeaturesOp(std::optional<Location> loc,
                                            MixtureFeaturesOp::Adaptor op,
                                            SmallVectorImpl<Type> &types) {
  if (failed(checkRank(loc, "(M1)", "rows", op.getRows(), 2)))
    return failure();
  auto rows = tensorOf(op.getRows());
  int64_t dim = rows.getDimSize(1);
  if (ShapedType::isDynamic(dim))
    return fail(loc, "(M1) rows ", rows, " should have a static width");
  if (failed(checkShape(loc, "(M1)", "anchor", op.getAnchor(), {dim})) ||
      failed(checkShape(loc, "(M1)", "scale", op.getScale(), {dim})))
    return failure();
  types.push_back(
      like(rows, {rows.getDimSize(0), featuresOf(dim, op.getFull())}));
  return success();
}

static LogicalResult inferMixtureFormsOp(std::optional<Location> loc,
                                         MixtureFormsOp::Adaptor op,
                                         SmallVectorImpl<Type> &types) {
  if (failed(checkRank(loc, "(M2)", "means", op.getMeans(), 2)))
    return failure();
  auto means = tensorOf(op.getMeans());
  int64_t k = means.getDimSize(0), dim = means.getDimSize(1);
  if (!means.hasStaticShape())
    return fail(loc, "(M2) means ", means, " should have a static shape");
  Shape covariance = covarianceShape(means, op.getFull());
  if (failed(checkShape(loc, "(M2)", "weights", op.getWeights(), {k})) ||
      failed(checkShape(loc, "(M2)", "covariances", op.getCovariances(),
                        covariance)) ||
      failed(checkShape(loc, "(M2)", "anchor", op.getAnchor(), {dim})) ||
      failed(checkShape(loc, "(M2)", "scale", op.getScale(), {dim})))
    return failure();
  types.push_back(like(means, {k, featuresOf(dim, op.getFull())}));
  types.push_back(like(means, covariance));
  types.push_back(like(means, {k}));
  types.push_back(
      RankedTensorType::get({k}, IntegerType::get(means.getContext(), 32)));
  return success();
}

static LogicalResult inferCentredScoresOp(std::optional<Location> loc,
                                          CentredScoresOp::Adaptor op,
                                          SmallVectorImpl<Type> &types) {
  if (failed(checkRank(loc, "(M3)", "scores", op.getScores(), 2)) ||
      failed(checkRank(loc, "(M3)", "rows", op.getRows(), 2)))
    return failure();
  auto scores = tensorOf(op.getScores()), rows = tensorOf(op.getRows());
  int64_t k = scores.getDimSize(1), dim = rows.getDimSize(1);
  RankedTensorType means = like(scores, {k, dim});
  if (failed(checkShape(loc, "(M3)", "rows", op.getRows(),
                        {scores.getDimSize(0), dim})) ||
      failed(checkShape(loc, "(M3)", "means", op.getMeans(), {k, dim})) ||
      failed(checkShape(loc, "(M3)", "factors", op.getFactors(),
                        covarianceShape(means, op.getFull()))) ||
      failed(checkShape(loc, "(M3)", "constants", op.getConstants(), {k})) ||
      failed(checkShape(loc, "(M3)", "centred", op.getCentred(), {k})))
    return failure();
  types.push_back(scores);
  return success();
}

static LogicalResult inferResolveSumOp(std::optional<Location> loc,
                                       ResolveSumOp::Adaptor op,
                                       SmallVectorImpl<Type> &types) {
  auto type = tensorOf(op.getAccumulator());
  auto element = cast<AccType>(type.getElementType()).getValue();
  if (!element.isF64())
    return fail(loc, "(M4) accumulator ", type, " should be of f64");
  types.push_back(RankedTensorType::get(type.getShape(), element));
  return success();
}

static LogicalResult inferMixtureStepOp(std::optional<Location> loc,
                                        MixtureStepOp::Adaptor op,
                                        SmallVectorImpl<Type> &types) {
  if (failed(checkRank(loc, "(M4)", "means", op.getMeans(), 2)))
    return failure();
  auto means = tensorOf(op.getMeans());
  int64_t k = means.getDimSize(0), dim = means.getDimSize(1);
  bool full = tensorOf(op.getCovariances()).getRank() == 3;
  if (op.getSpec().empty())
    return fail(loc, "(M4) spec is empty");
  if (failed(checkShape(loc, "(M4)", "statistics", op.getStatistics(),
                        {k, featuresOf(dim, full)})) ||
      failed(checkShape(loc, "(M4)", "total", op.getTotal(), {})) ||
      failed(checkShape(loc, "(M4)", "anchor", op.getAnchor(), {dim})) ||
      failed(checkShape(loc, "(M4)", "scale", op.getScale(), {dim})) ||
      failed(checkShape(loc, "(M4)", "weights", op.getWeights(), {k})) ||
      failed(checkShape(loc, "(M4)", "covariances", op.getCovariances(),
                        covarianceShape(means, full))))
    return failure();
  types.append({op.getWeights().getType(), op.getMeans().getType(),
                op.getCovariances().getType()});
  return success();
}

static LogicalResult inferMixtureStatusOp(std::optional<Location> loc,
                                          MixtureStatusOp::Adaptor op,
                                          SmallVectorImpl<Type> &types) {
  if (failed(checkRank(loc, "(M2)", "covariances", op.getCovariances(),
                       op.getFull() ? 3 : 2)))
    return failure();
  types.push_back(RankedTensorType::get(
      {}, IntegerType::get(op.getCovariances().getContext(), 64)));
  return success();
}

#define INFER_AND_VERIFY(OP)                                                   \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> location, ValueRange operands,    \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &types) {                     \
    Adaptor op(operands, attributes, properties, regions);                     \
    return infer##OP(location, op, types);                                     \
  }                                                                            \
  LogicalResult OP::refineReturnTypes(                                         \
      MLIRContext *, std::optional<Location>, ValueRange, DictionaryAttr,      \
      OpaqueProperties, RegionRange, SmallVectorImpl<Type> &) {                \
    return success();                                                          \
  }                                                                            \
  LogicalResult OP::verify() { return verifyInferredTypes(*this); }
INFER_AND_VERIFY(MixtureFeaturesOp)
INFER_AND_VERIFY(MixtureFormsOp)
INFER_AND_VERIFY(CentredScoresOp)
INFER_AND_VERIFY(ResolveSumOp)
INFER_AND_VERIFY(MixtureStepOp)
INFER_AND_VERIFY(MixtureStatusOp)
#undef INFER_AND_VERIFY

//===----------------------------------------------------------------------===//
// Placement and cost
//===----------------------------------------------------------------------===//

namespace {
/// Names of the dimensions of mixture ops. Rows and components are free (or
/// merged), dimensions and features are needed whole.
enum MixtureDim { kRows, kComponents, kDim, kDim2, kFeatures, kNumMixtureDims };

/// A rule whose factors are made when a dimension first stands somewhere.
struct MixtureRule {
  PlacementRule rule;

  explicit MixtureRule(Merge components = Merge::None)
      : componentsMerge(components) {}
  MixtureRule &operand(ArrayRef<MixtureDim> dims) {
    rule.operands.push_back(factors(dims));
    return *this;
  }
  MixtureRule &result(ArrayRef<MixtureDim> dims) {
    rule.results.push_back(factors(dims));
    return *this;
  }
  static SmallVector<MixtureDim> covariance(bool full) {
    SmallVector<MixtureDim> dims = {kComponents, kDim};
    if (full)
      dims.push_back(kDim2);
    return dims;
  }

private:
  SmallVector<int> factors(ArrayRef<MixtureDim> dims) {
    SmallVector<int> ids;
    for (MixtureDim dim : dims) {
      if (known[dim] < 0)
        known[dim] = rule.addFactor(
            dim == kComponents ? componentsMerge : Merge::None,
            /*splittable=*/dim == kRows || dim == kComponents);
      ids.push_back(known[dim]);
    }
    return ids;
  }
  Merge componentsMerge;
  int known[kNumMixtureDims] = {-1, -1, -1, -1, -1};
};
} // namespace

PlacementRule MixtureFeaturesOp::getPlacementRule() {
  MixtureRule f;
  f.operand({kRows, kDim}).operand({kDim}).operand({kDim});
  return f.result({kRows, kFeatures}).rule;
}

PlacementRule MixtureFormsOp::getPlacementRule() {
  MixtureRule f;
  f.operand({kComponents})
      .operand({kComponents, kDim})
      .operand(f.covariance(getFull()))
      .operand({kDim})
      .operand({kDim});
  return f.result({kComponents, kFeatures})
      .result(f.covariance(getFull()))
      .result({kComponents})
      .result({kComponents})
      .rule;
}

PlacementRule CentredScoresOp::getPlacementRule() {
  MixtureRule f;
  f.operand({kRows, kComponents})
      .operand({kRows, kDim})
      .operand({kComponents, kDim})
      .operand(f.covariance(getFull()))
      .operand({kComponents})
      .operand({kComponents});
  return f.result({kRows, kComponents}).rule;
}

Cost CentredScoresOp::getCost() {
  Cost cost = defaultCost(*this);
  auto k = static_cast<double>(getMeans().getType().getDimSize(0));
  auto d = static_cast<double>(getMeans().getType().getDimSize(1));
  cost.flops = k * d * (getFull() ? d + 3 : 4);
  return cost;
}

PlacementRule ResolveSumOp::getPlacementRule() {
  PlacementRule rule;
  SmallVector<int> dims;
  for (int64_t d = 0; d < getResult().getType().getRank(); ++d)
    dims.push_back(rule.addFactor());
  rule.operands.push_back(dims);
  rule.results.push_back(dims);
  return rule;
}

PlacementRule MixtureStepOp::getPlacementRule() {
  MixtureRule f;
  bool full = getCovariances().getType().getRank() == 3;
  f.operand({kComponents, kFeatures})
      .operand({})
      .operand({kDim})
      .operand({kDim})
      .operand({kComponents})
      .operand({kComponents, kDim})
      .operand(f.covariance(full));
  return f.result({kComponents})
      .result({kComponents, kDim})
      .result(f.covariance(full))
      .rule;
}

PlacementRule MixtureStatusOp::getPlacementRule() {
  MixtureRule f(Merge::Max);
  return f.operand(f.covariance(getFull())).result({}).rule;
}
