//===- MixleShapes.cpp - Result types of mixle ops ------------------------===//
//
// `inferReturnTypes` of an op both builds its result types and, through
// `verifyInferredTypes`, checks those that a person wrote.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/ShapeChecks.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::checks;

// Every inferred op below reads its operands through this adaptor.
#define INFER(OP)                                                              \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> location,                  \
      ValueRange operands, DictionaryAttr attributes,                          \
      OpaqueProperties properties, RegionRange regions,                        \
      SmallVectorImpl<Type> &types) {                                          \
    Adaptor op(operands, attributes, properties, regions);                     \
    return infer##OP(context, location, op, types);                            \
  }                                                                            \
  LogicalResult OP::refineReturnTypes(                                         \
      MLIRContext *, std::optional<Location>, ValueRange, DictionaryAttr,      \
      OpaqueProperties, RegionRange, SmallVectorImpl<Type> &) {                \
    return success();                                                          \
  }

// An inferred op whose verifier checks no more than the inferred types.
#define INFER_AND_VERIFY(OP)                                                   \
  INFER(OP)                                                                    \
  LogicalResult OP::verify() { return verifyInferredTypes(*this); }

/// (D3), (L3): granules are given by number and size, and cover `size`.
static LogicalResult checkGranules(std::optional<Location> loc, StringRef label,
                                   std::optional<int64_t> granules,
                                   std::optional<int64_t> granuleSize,
                                   int64_t size) {
  if (granules.has_value() != granuleSize.has_value())
    return fail(loc, label, " granules and granule_size come together");
  if (!granules)
    return success();
  if (*granules < 1 || *granuleSize < 1 ||
      (!ShapedType::isDynamic(size) &&
       (size + *granuleSize - 1) / *granuleSize > *granules))
    return fail(loc, label, " ", *granules, " granules of ", *granuleSize,
                " do not cover a dimension of ", size);
  return success();
}

static LogicalResult inferCompareOp(MLIRContext *context,
                                    std::optional<Location>,
                                    CompareOp::Adaptor op,
                                    SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get(tensorOf(op.getLhs()).getShape(),
                                        IntegerType::get(context, 1)));
  return success();
}

static LogicalResult inferBroadcastOp(MLIRContext *,
                                      std::optional<Location> loc,
                                      BroadcastOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput()), target = tensorOf(op.getLike());
  ArrayRef<int64_t> dims = op.getDimensions();
  if (static_cast<int64_t>(dims.size()) != input.getRank() ||
      !increasing(dims) || !inRange(dims, target.getRank()))
    return fail(loc, "(B1) broadcast dimensions must be increasing, in range, "
                     "and one per dimension of ",
                input);
  for (auto [i, d] : llvm::enumerate(dims))
    if (!compatible(input.getDimSize(i), target.getDimSize(d)))
      return fail(loc, "(B1) dimension ", i, " of ", input,
                  " does not match dimension ", d, " of ", target);
  types.push_back(like(input, target.getShape()));
  return success();
}

static LogicalResult inferTransposeOp(MLIRContext *,
                                      std::optional<Location> loc,
                                      TransposeOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  ArrayRef<int64_t> permutation = op.getPermutation();
  Shape sorted(permutation);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, input.getRank())))
    return fail(loc, "(S2) transpose needs a permutation of the dimensions of ",
                input);
  Shape shape;
  for (int64_t d : permutation)
    shape.push_back(input.getDimSize(d));
  types.push_back(like(input, shape));
  return success();
}

static LogicalResult inferSliceOp(MLIRContext *, std::optional<Location> loc,
                                  SliceOp::Adaptor op,
                                  SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  int64_t d = op.getDimension(), start = op.getStart(), limit = op.getLimit();
  if (d < 0 || d >= input.getRank() || input.isDynamicDim(d))
    return fail(loc, "(S3) slice dimension ", d, " is not a static dimension of ",
                input);
  if (start < 0 || start > limit || limit > input.getDimSize(d))
    return fail(loc, "(S3) slice [", start, ", ", limit, ") is outside dimension ",
                d, " of ", input);
  Shape shape(input.getShape());
  shape[d] = limit - start;
  types.push_back(like(input, shape));
  return success();
}

static LogicalResult inferPadOp(MLIRContext *, std::optional<Location> loc,
                                PadOp::Adaptor op,
                                SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  int64_t d = op.getDimension();
  if (d < 0 || d >= input.getRank() || input.isDynamicDim(d) ||
      static_cast<int64_t>(op.getLow()) < 0 ||
      static_cast<int64_t>(op.getHigh()) < 0)
    return fail(loc, "(S4) pad needs a static dimension and sizes >= 0, got [",
                d, " : ", static_cast<int64_t>(op.getLow()), ", ",
                static_cast<int64_t>(op.getHigh()), "] of ", input);
  Shape shape(input.getShape());
  shape[d] += static_cast<int64_t>(op.getLow() + op.getHigh());
  types.push_back(like(input, shape));
  return success();
}

static LogicalResult inferConcatOp(MLIRContext *, std::optional<Location> loc,
                                   ConcatOp::Adaptor op,
                                   SmallVectorImpl<Type> &types) {
  if (op.getInputs().empty())
    return fail(loc, "(S5) concat needs at least one input");
  auto first = tensorOf(op.getInputs().front());
  int64_t d = op.getDimension();
  if (d < 0 || d >= first.getRank())
    return fail(loc, "(S5) concat dimension ", d, " is out of range for ", first);
  Shape shape(first.getShape());
  shape[d] = 0;
  for (Value input : op.getInputs()) {
    auto type = tensorOf(input);
    if (type.getRank() != first.getRank() || type.isDynamicDim(d) ||
        type.getElementType() != first.getElementType())
      return fail(loc, "(S5) concat input ", type, " does not fit ", first);
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != d && !compatible(type.getDimSize(i), first.getDimSize(i)))
        return fail(loc, "(S5) concat input ", type, " does not fit ", first);
    shape[d] += type.getDimSize(d);
  }
  types.push_back(like(first, shape));
  return success();
}

static LogicalResult inferReduceOp(MLIRContext *, std::optional<Location> loc,
                                   ReduceOp::Adaptor op,
                                   SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (op.getKind() != "sum" && op.getKind() != "max")
    return fail(loc, "(D1) reduce kind '", op.getKind(),
                "' is neither 'sum' nor 'max'");
  if (!increasing(op.getDimensions()) ||
      !inRange(op.getDimensions(), input.getRank()))
    return fail(loc, "(D1) reduce dimensions must be increasing and in range");
  Shape shape;
  for (int64_t d = 0; d < input.getRank(); ++d)
    if (!llvm::is_contained(op.getDimensions(), d))
      shape.push_back(input.getDimSize(d));
  types.push_back(like(input, shape));
  return success();
}

static LogicalResult inferDotGeneralOp(MLIRContext *,
                                       std::optional<Location> loc,
                                       DotGeneralOp::Adaptor op,
                                       SmallVectorImpl<Type> &types) {
  auto lhs = tensorOf(op.getLhs()), rhs = tensorOf(op.getRhs());
  auto check = [&](ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                   StringRef what) -> LogicalResult {
    if (a.size() != b.size() || !inRange(a, lhs.getRank()) ||
        !inRange(b, rhs.getRank()))
      return fail(loc, "(D2) ", what,
                  " dimensions are out of range or differ in number");
    for (auto [i, j] : llvm::zip(a, b))
      if (!compatible(lhs.getDimSize(i), rhs.getDimSize(j)))
        return fail(loc, "(D2) ", what, " dimension ", i, " of ", lhs,
                    " does not match dimension ", j, " of ", rhs);
    return success();
  };
  if (failed(check(op.getLhsBatch(), op.getRhsBatch(), "batch")) ||
      failed(check(op.getLhsContract(), op.getRhsContract(), "contracted")))
    return failure();
  auto once = [](ArrayRef<int64_t> batch, ArrayRef<int64_t> contract) {
    Shape used(batch);
    llvm::append_range(used, contract);
    llvm::sort(used);
    return increasing(used);
  };
  if (!once(op.getLhsBatch(), op.getLhsContract()) ||
      !once(op.getRhsBatch(), op.getRhsContract()))
    return fail(loc, "(D2) a dimension is named twice");
  if (lhs.getElementType() != rhs.getElementType())
    return fail(loc, "(D2) dot_general needs one element type, got ", lhs,
                " and ", rhs);
  if (op.getGranuleDim().has_value() != op.getGranules().has_value())
    return fail(loc, "(D3) granule_dim and granules come together");
  if (op.getGranuleDim() && *op.getGranuleDim() >= op.getLhsContract().size())
    return fail(loc, "(D3) granule_dim ", *op.getGranuleDim(),
                " is no position among ", op.getLhsContract().size(),
                " contracted dimensions");
  if (failed(checkGranules(
          loc, "(D3)", op.getGranules(), op.getGranuleSize(),
          op.getGranuleDim()
              ? lhs.getDimSize(op.getLhsContract()[*op.getGranuleDim()])
              : ShapedType::kDynamic)))
    return failure();
  Shape shape;
  for (int64_t d : op.getLhsBatch())
    shape.push_back(lhs.getDimSize(d));
  auto addFree = [&](RankedTensorType type, ArrayRef<int64_t> batch,
                     ArrayRef<int64_t> contract) {
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d))
        shape.push_back(type.getDimSize(d));
  };
  addFree(lhs, op.getLhsBatch(), op.getLhsContract());
  addFree(rhs, op.getRhsBatch(), op.getRhsContract());
  types.push_back(like(lhs, shape));
  return success();
}

static LogicalResult inferEmbeddingOp(MLIRContext *,
                                      std::optional<Location> loc,
                                      EmbeddingOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto table = tensorOf(op.getTable()), ids = tensorOf(op.getIds());
  if (table.getRank() < 1)
    return fail(loc, "(E1) embedding table needs at least one dimension");
  Shape shape(ids.getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  types.push_back(like(table, shape));
  return success();
}

static LogicalResult inferScatterAddOp(MLIRContext *,
                                       std::optional<Location> loc,
                                       ScatterAddOp::Adaptor op,
                                       SmallVectorImpl<Type> &types) {
  auto ids = tensorOf(op.getIds()), updates = tensorOf(op.getUpdates());
  if (updates.getRank() < ids.getRank() ||
      !sameShape(updates.getShape().take_front(ids.getRank()), ids.getShape()))
    return fail(loc, "(E2) scatter_add updates ", updates,
                " do not begin with the dimensions of ids ", ids);
  if (static_cast<int64_t>(op.getRows()) < 1)
    return fail(loc, "(E2) scatter_add rows must be positive, got ",
                static_cast<int64_t>(op.getRows()));
  Shape shape{static_cast<int64_t>(op.getRows())};
  llvm::append_range(shape, updates.getShape().drop_front(ids.getRank()));
  types.push_back(like(updates, shape));
  return success();
}

static LogicalResult checkGain(std::optional<Location> loc, Value gain,
                               RankedTensorType input) {
  auto type = tensorOf(gain);
  if (input.getRank() < 1 || type.getRank() != 1 ||
      !compatible(type.getDimSize(0), input.getShape().back()))
    return fail(loc, "(N1) norm gain or bias ", type,
                " does not match the last dimension of ", input);
  return success();
}

static LogicalResult inferLayerNormOp(MLIRContext *,
                                      std::optional<Location> loc,
                                      LayerNormOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (failed(checkGain(loc, op.getGain(), input)) ||
      failed(checkGain(loc, op.getBias(), input)))
    return failure();
  types.push_back(input);
  types.push_back(like(input, rowShape(input)));
  types.push_back(like(input, rowShape(input)));
  return success();
}

static LogicalResult inferLayerNormGradOp(MLIRContext *,
                                          std::optional<Location> loc,
                                          LayerNormGradOp::Adaptor op,
                                          SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (failed(checkGain(loc, op.getGain(), input)) ||
      failed(checkShape(loc, "(N2)", "mean", op.getMean(), rowShape(input))) ||
      failed(checkShape(loc, "(N2)", "rstd", op.getRstd(), rowShape(input))) ||
      failed(checkShape(loc, "(N2)", "cotangent", op.getCotangent(),
                        input.getShape())))
    return failure();
  types.append({input, input});
  return success();
}

static LogicalResult inferRmsNormOp(MLIRContext *, std::optional<Location> loc,
                                    RmsNormOp::Adaptor op,
                                    SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (failed(checkGain(loc, op.getGain(), input)))
    return failure();
  types.push_back(input);
  types.push_back(like(input, rowShape(input)));
  return success();
}

static LogicalResult inferRmsNormGradOp(MLIRContext *,
                                        std::optional<Location> loc,
                                        RmsNormGradOp::Adaptor op,
                                        SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (failed(checkGain(loc, op.getGain(), input)) ||
      failed(checkShape(loc, "(N2)", "rstd", op.getRstd(), rowShape(input))) ||
      failed(checkShape(loc, "(N2)", "cotangent", op.getCotangent(),
                        input.getShape())))
    return failure();
  types.append({input, input});
  return success();
}

static LogicalResult inferRotaryOp(MLIRContext *, std::optional<Location> loc,
                                   RotaryOp::Adaptor op,
                                   SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  int64_t rank = input.getRank();
  if (rank < 3 || input.isDynamicDim(rank - 1) || input.getDimSize(rank - 1) % 2)
    return fail(loc, "(O1) rotary needs an input [rows, tokens, ..., D] with an "
                     "even D, got ",
                input);
  Shape table{input.getDimSize(1), input.getDimSize(rank - 1) / 2};
  if (failed(checkShape(loc, "(O1)", "cos", op.getCos(), table)) ||
      failed(checkShape(loc, "(O1)", "sin", op.getSin(), table)))
    return failure();
  if (std::optional<uint64_t> rotated = op.getRotated()) {
    auto count = static_cast<int64_t>(*rotated);
    if (rank < 4 || input.isDynamicDim(rank - 2) || count < 0 ||
        count > input.getDimSize(rank - 2))
      return fail(loc, "(O2) rotated = ", count,
                  " is no number of entries of the last dimension but one of ",
                  input);
  }
  types.push_back(input);
  return success();
}

static LogicalResult checkQkv(std::optional<Location> loc, RankedTensorType qkv,
                              int64_t keyGranules, bool grouped) {
  if (keyGranules < 1)
    return fail(loc, "(Q2) key_granules must be positive, got ", keyGranules);
  if (grouped && (qkv.getRank() != 5 || qkv.getDimSize(3) < 3))
    return fail(loc, "(Q1) grouped attention needs qkv of shape [rows, tokens, "
                     "groups, queries + 2, head_dim], got ",
                qkv);
  if (!grouped && (qkv.getRank() != 5 || qkv.getDimSize(2) != 3))
    return fail(loc, "(Q1) attention needs qkv of shape [rows, tokens, 3, heads, "
                     "head_dim], got ",
                qkv);
  return success();
}

/// The shapes of attention's output and statistics.
static std::pair<Shape, Shape> attentionShapes(RankedTensorType qkv,
                                               bool grouped) {
  ArrayRef<int64_t> s = qkv.getShape();
  if (grouped)
    return {{s[0], s[1], s[2], s[3] - 2, s[4]}, {s[0], s[2], s[3] - 2, s[1]}};
  return {{s[0], s[1], s[3], s[4]}, {s[0], s[3], s[1]}};
}

static LogicalResult inferAttentionOp(MLIRContext *context,
                                      std::optional<Location> loc,
                                      AttentionOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto qkv = tensorOf(op.getQkv());
  if (failed(checkQkv(loc, qkv, static_cast<int64_t>(op.getKeyGranules()),
                      op.getGrouped())))
    return failure();
  auto [output, statistics] = attentionShapes(qkv, op.getGrouped());
  types.push_back(like(qkv, output));
  types.push_back(
      RankedTensorType::get(statistics, IntegerType::get(context, 32)));
  types.push_back(like(qkv, statistics));
  return success();
}

static LogicalResult inferAttentionGradOp(MLIRContext *,
                                          std::optional<Location> loc,
                                          AttentionGradOp::Adaptor op,
                                          SmallVectorImpl<Type> &types) {
  auto qkv = tensorOf(op.getQkv());
  if (failed(checkQkv(loc, qkv, static_cast<int64_t>(op.getKeyGranules()),
                      op.getGrouped())))
    return failure();
  auto [output, statistics] = attentionShapes(qkv, op.getGrouped());
  if (failed(checkShape(loc, "(Q3)", "output", op.getOutput(), output)) ||
      failed(checkShape(loc, "(Q3)", "cotangent", op.getCotangent(), output)) ||
      failed(checkShape(loc, "(Q3)", "reference", op.getReference(),
                        statistics)) ||
      failed(checkShape(loc, "(Q3)", "normalizer", op.getNormalizer(),
                        statistics)))
    return failure();
  types.push_back(qkv);
  return success();
}

/// Ops that turn [..., V] into [...].
template <typename Adaptor>
static LogicalResult inferRow(std::optional<Location> loc, Value input,
                              SmallVectorImpl<Type> &types) {
  auto type = tensorOf(input);
  if (type.getRank() < 1)
    return fail(loc, "(L2) needs at least one dimension, got ", type);
  types.push_back(like(type, rowShape(type)));
  return success();
}

#define INFER_ROW(OP, INPUT)                                                   \
  static LogicalResult infer##OP(                                              \
      MLIRContext *, std::optional<Location> loc, OP::Adaptor op,              \
      SmallVectorImpl<Type> &types) {                                          \
    return inferRow<OP::Adaptor>(loc, op.INPUT(), types);                      \
  }
INFER_ROW(LogSumExpOp, getInput)
INFER_ROW(RowMaxOp, getInput)

static LogicalResult inferRowSumExpOp(MLIRContext *,
                                      std::optional<Location> loc,
                                      RowSumExpOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  if (failed(inferRow<RowSumExpOp::Adaptor>(loc, op.getInput(), types)))
    return failure();
  auto input = tensorOf(op.getInput());
  if (failed(checkShape(loc, "(L2)", "maximum", op.getMaximum(),
                        rowShape(input))))
    return failure();
  return checkGranules(loc, "(L3)", op.getGranules(), op.getGranuleSize(),
                       input.getShape().back());
}

static LogicalResult inferRowGranuleSumsOp(MLIRContext *,
                                           std::optional<Location> loc,
                                           RowGranuleSumsOp::Adaptor op,
                                           SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (input.getRank() < 1)
    return fail(loc, "(L2) needs at least one dimension, got ", input);
  auto granules = static_cast<int64_t>(op.getGranules());
  auto granuleSize = static_cast<int64_t>(op.getGranuleSize());
  if (failed(checkShape(loc, "(L2)", "maximum", op.getMaximum(),
                        rowShape(input))) ||
      failed(checkGranules(loc, "(L3)", granules, granuleSize,
                           input.getShape().back())))
    return failure();
  Shape shape = rowShape(input);
  shape.push_back(static_cast<int64_t>(op.getGranules()));
  types.push_back(like(input, shape));
  return success();
}

/// Ops on logits [..., V] with labels [...].
static LogicalResult checkLabels(std::optional<Location> loc, Value logits,
                                 Value labels) {
  auto a = tensorOf(logits), b = tensorOf(labels);
  if (a.getRank() != b.getRank() + 1)
    return fail(loc, "(L1) labels ", b, " do not match the rows of logits ", a);
  for (int64_t d = 0; d < b.getRank(); ++d)
    if (!compatible(a.getDimSize(d), b.getDimSize(d)))
      return fail(loc, "(L1) labels ", b, " do not match the rows of logits ", a);
  return success();
}

#define INFER_LABELS(OP)                                                       \
  static LogicalResult infer##OP(                                              \
      MLIRContext *, std::optional<Location> loc, OP::Adaptor op,              \
      SmallVectorImpl<Type> &types) {                                          \
    if (failed(checkLabels(loc, op.getLogits(), op.getLabels())))              \
      return failure();                                                        \
    return inferRow<OP::Adaptor>(loc, op.getLogits(), types);                  \
  }
INFER_LABELS(SoftmaxCrossEntropyOp)
INFER_LABELS(SelectLabelOp)

static LogicalResult inferSoftmaxCrossEntropyGradOp(
    MLIRContext *, std::optional<Location> loc,
    SoftmaxCrossEntropyGradOp::Adaptor op, SmallVectorImpl<Type> &types) {
  if (failed(checkLabels(loc, op.getLogits(), op.getLabels())))
    return failure();
  Shape rows = rowShape(tensorOf(op.getLogits()));
  if (failed(checkShape(loc, "(L2)", "maximum", op.getMaximum(), rows)) ||
      failed(checkShape(loc, "(L2)", "sum", op.getSum(), rows)) ||
      failed(checkShape(loc, "(L2)", "cotangent", op.getCotangent(), rows)))
    return failure();
  types.push_back(op.getLogits().getType());
  return success();
}

static LogicalResult inferSoftmaxScaleOp(MLIRContext *,
                                         std::optional<Location> loc,
                                         SoftmaxScaleOp::Adaptor op,
                                         SmallVectorImpl<Type> &types) {
  auto input = tensorOf(op.getInput());
  if (input.getRank() < 1)
    return fail(loc, "(L2) needs at least one dimension, got ", input);
  Shape rows = rowShape(input);
  if (failed(checkShape(loc, "(L2)", "maximum", op.getMaximum(), rows)) ||
      failed(checkShape(loc, "(L2)", "sum", op.getSum(), rows)) ||
      failed(checkShape(loc, "(L2)", "scale", op.getScale(), rows)))
    return failure();
  types.push_back(op.getInput().getType());
  return success();
}

static LogicalResult inferResolveOp(MLIRContext *, std::optional<Location> loc,
                                    ResolveOp::Adaptor op,
                                    SmallVectorImpl<Type> &types) {
  if (failed(checkShape(loc, "(A4)", "count", op.getCount(), {})))
    return failure();
  auto type = tensorOf(op.getAccumulator());
  types.push_back(RankedTensorType::get(
      type.getShape(), cast<AccType>(type.getElementType()).getValue()));
  return success();
}

static LogicalResult inferRoundExactOp(MLIRContext *context,
                                       std::optional<Location>,
                                       RoundExactOp::Adaptor op,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(RankedTensorType::get(tensorOf(op.getInput()).getShape(),
                                        Float64Type::get(context)));
  return success();
}

static LogicalResult inferClipCoefficientOp(MLIRContext *context,
                                            std::optional<Location> loc,
                                            ClipCoefficientOp::Adaptor op,
                                            SmallVectorImpl<Type> &types) {
  if (failed(checkShape(loc, "(O1)", "sum_of_squares", op.getSumOfSquares(),
                        {})))
    return failure();
  auto scalar = RankedTensorType::get({}, Float64Type::get(context));
  types.append({scalar, scalar});
  return success();
}

INFER(CompareOp)
INFER_AND_VERIFY(BroadcastOp)
INFER_AND_VERIFY(TransposeOp)
INFER_AND_VERIFY(SliceOp)
INFER_AND_VERIFY(PadOp)
INFER_AND_VERIFY(ConcatOp)
INFER_AND_VERIFY(ReduceOp)
INFER_AND_VERIFY(DotGeneralOp)
INFER_AND_VERIFY(EmbeddingOp)
INFER_AND_VERIFY(ScatterAddOp)
INFER_AND_VERIFY(LayerNormOp)
INFER_AND_VERIFY(LayerNormGradOp)
INFER_AND_VERIFY(RmsNormOp)
INFER_AND_VERIFY(RmsNormGradOp)
INFER_AND_VERIFY(RotaryOp)
INFER_AND_VERIFY(AttentionOp)
INFER_AND_VERIFY(AttentionGradOp)
INFER_AND_VERIFY(SoftmaxCrossEntropyOp)
INFER_AND_VERIFY(LogSumExpOp)
INFER_AND_VERIFY(RowMaxOp)
INFER_AND_VERIFY(RowSumExpOp)
INFER_AND_VERIFY(RowGranuleSumsOp)
INFER_AND_VERIFY(SelectLabelOp)
INFER_AND_VERIFY(SoftmaxCrossEntropyGradOp)
INFER_AND_VERIFY(SoftmaxScaleOp)
INFER_AND_VERIFY(ResolveOp)
INFER_AND_VERIFY(RoundExactOp)
INFER_AND_VERIFY(ClipCoefficientOp)
#undef INFER_AND_VERIFY
#undef INFER
