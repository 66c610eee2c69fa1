//===- MixleShapes.cpp - Result types and verifiers of mixle ops ----------===//
//
// `inferReturnTypes` of an op both builds its result types and, through the
// interface's verifier, checks those that a person wrote.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::mixle;

namespace {
using Shape = SmallVector<int64_t>;

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
RankedTensorType like(RankedTensorType type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}
bool compatible(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}
/// The shape without its last dimension.
Shape rowShape(RankedTensorType type) {
  return Shape(type.getShape().drop_back());
}
bool inRange(ArrayRef<int64_t> dims, int64_t rank) {
  return llvm::all_of(dims, [&](int64_t d) { return d >= 0 && d < rank; });
}
bool increasing(ArrayRef<int64_t> dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] <= dims[i - 1])
      return false;
  return true;
}
} // namespace

// Every inferred op below reads its operands through this adaptor.
#define INFER(OP)                                                              \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> location,                  \
      ValueRange operands, DictionaryAttr attributes,                          \
      OpaqueProperties properties, RegionRange regions,                        \
      SmallVectorImpl<Type> &types) {                                          \
    Adaptor op(operands, attributes, properties, regions);                     \
    return infer##OP(context, location, op, types);                            \
  }

template <typename... Parts>
static LogicalResult fail(std::optional<Location> location, Parts &&...parts) {
  if (!location)
    return failure();
  InFlightDiagnostic diagnostic = emitError(*location);
  (diagnostic << ... << parts);
  return diagnostic;
}

/// Sizes agree, or are known at run time only.
static bool sameShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           return compatible(std::get<0>(pair), std::get<1>(pair));
         });
}

/// (L2), (N2), (Q3): an operand has the shape that another one gives it.
static LogicalResult checkShape(std::optional<Location> loc, StringRef label,
                                StringRef what, Value value,
                                ArrayRef<int64_t> expected) {
  auto type = tensorOf(value);
  if (sameShape(type.getShape(), expected))
    return success();
  return fail(loc, label, " ", what, " ", type, " should be ",
              like(type, expected));
}

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

static LogicalResult checkQkv(std::optional<Location> loc, RankedTensorType qkv,
                              int64_t keyGranules) {
  if (keyGranules < 1)
    return fail(loc, "(Q2) key_granules must be positive, got ", keyGranules);
  if (qkv.getRank() != 5 || qkv.getDimSize(2) != 3)
    return fail(loc, "(Q1) attention needs qkv of shape [rows, tokens, 3, heads, "
                     "head_dim], got ",
                qkv);
  return success();
}

static LogicalResult inferAttentionOp(MLIRContext *context,
                                      std::optional<Location> loc,
                                      AttentionOp::Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  auto qkv = tensorOf(op.getQkv());
  if (failed(checkQkv(loc, qkv, static_cast<int64_t>(op.getKeyGranules()))))
    return failure();
  ArrayRef<int64_t> s = qkv.getShape();
  types.push_back(like(qkv, {s[0], s[1], s[3], s[4]}));
  types.push_back(
      RankedTensorType::get({s[0], s[3], s[1]}, IntegerType::get(context, 32)));
  types.push_back(like(qkv, {s[0], s[3], s[1]}));
  return success();
}

static LogicalResult inferAttentionGradOp(MLIRContext *,
                                          std::optional<Location> loc,
                                          AttentionGradOp::Adaptor op,
                                          SmallVectorImpl<Type> &types) {
  auto qkv = tensorOf(op.getQkv());
  if (failed(checkQkv(loc, qkv, static_cast<int64_t>(op.getKeyGranules()))))
    return failure();
  ArrayRef<int64_t> s = qkv.getShape();
  Shape output{s[0], s[1], s[3], s[4]}, statistics{s[0], s[3], s[1]};
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
    return fail(loc, "needs at least one dimension, got ", input);
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
INFER(BroadcastOp)
INFER(TransposeOp)
INFER(SliceOp)
INFER(PadOp)
INFER(ConcatOp)
INFER(ReduceOp)
INFER(DotGeneralOp)
INFER(EmbeddingOp)
INFER(ScatterAddOp)
INFER(LayerNormOp)
INFER(LayerNormGradOp)
INFER(RmsNormOp)
INFER(RmsNormGradOp)
INFER(AttentionOp)
INFER(AttentionGradOp)
INFER(SoftmaxCrossEntropyOp)
INFER(LogSumExpOp)
INFER(RowMaxOp)
INFER(RowSumExpOp)
INFER(RowGranuleSumsOp)
INFER(SelectLabelOp)
INFER(SoftmaxCrossEntropyGradOp)
INFER(SoftmaxScaleOp)
INFER(ResolveOp)
INFER(RoundExactOp)
INFER(ClipCoefficientOp)
#undef INFER

//===----------------------------------------------------------------------===//
// Verifiers of ops whose types are written out
//===----------------------------------------------------------------------===//

static LogicalResult verifyApproximate(Operation *op, StringRef approximate) {
  if (approximate != "none" && approximate != "tanh")
    return op->emitOpError("(G1) approximate '")
           << approximate << "' is neither 'none' nor 'tanh'";
  return success();
}
LogicalResult GeluOp::verify() {
  return verifyApproximate(*this, getApproximate());
}
LogicalResult GeluGradOp::verify() {
  return verifyApproximate(*this, getApproximate());
}

LogicalResult CompareOp::verify() {
  if (!llvm::is_contained({"eq", "ne", "lt", "le", "gt", "ge"}, getPredicate()))
    return emitOpError("(C1) predicate '")
           << getPredicate() << "' is none of eq, ne, lt, le, gt, ge";
  return success();
}

LogicalResult SelectOp::verify() {
  return checkShape(getLoc(), "(C2)", "condition", getCondition(),
                    getResult().getType().getShape());
}

LogicalResult CrossEntropyOp::verify() {
  return checkShape(getLoc(), "(L1)", "labels", getLabels(),
                    getResult().getType().getShape());
}

LogicalResult ConvertOp::verify() {
  if (getInput().getType().getShape() != getResult().getType().getShape())
    return emitOpError("(C3) changes the shape: ")
           << getInput().getType() << " to " << getResult().getType();
  return success();
}

LogicalResult IotaOp::verify() {
  auto type = getResult().getType();
  if (!type.hasStaticShape() || getDimension() >= static_cast<uint64_t>(type.getRank()))
    return emitOpError("(C4) needs a static shape and a dimension of it, got ")
           << getDimension() << " of " << type;
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = getInput().getType(), to = getResult().getType();
  auto count = [](RankedTensorType type) {
    int64_t n = 1;
    for (int64_t d : type.getShape())
      if (!ShapedType::isDynamic(d))
        n *= d;
    return n;
  };
  auto dynamicOk = [](RankedTensorType type) {
    for (int64_t d = 1; d < type.getRank(); ++d)
      if (type.isDynamicDim(d))
        return false;
    return true;
  };
  bool fromDynamic = from.getRank() && from.isDynamicDim(0);
  bool toDynamic = to.getRank() && to.isDynamicDim(0);
  if (from.getElementType() != to.getElementType() || count(from) != count(to) ||
      fromDynamic != toDynamic || !dynamicOk(from) || !dynamicOk(to))
    return emitOpError("(S1) cannot turn ") << from << " into " << to;
  return success();
}

static LogicalResult verifyAccumulator(Operation *op, RankedTensorType acc,
                                       ArrayRef<int64_t> expected,
                                       Type element) {
  bool fits = acc.getRank() == static_cast<int64_t>(expected.size());
  for (int64_t d = 0; fits && d < acc.getRank(); ++d)
    fits = compatible(acc.getDimSize(d), expected[d]);
  if (!fits || cast<AccType>(acc.getElementType()).getValue() != element)
    return op->emitOpError("(A1) accumulator ")
           << acc << " does not match the contribution";
  return success();
}

LogicalResult AccumulateDotOp::verify() {
  auto lhs = getLhs().getType(), rhs = getRhs().getType();
  int64_t n = getDataDims();
  if (n < 1 || n > 2 || lhs.getRank() < n || rhs.getRank() < n)
    return emitOpError("(A2) data_dims must be 1 or 2 and within both operands");
  if (static_cast<int64_t>(getBlock()) < 1)
    return emitOpError("(A3) block must be positive, got ") << getBlock();
  for (int64_t d = 0; d < n; ++d)
    if (!compatible(lhs.getDimSize(d), rhs.getDimSize(d)))
      return emitOpError("(A2) data dimension ")
             << d << " differs: " << lhs << " and " << rhs;
  Shape shape(lhs.getShape().drop_front(n));
  llvm::append_range(shape, rhs.getShape().drop_front(n));
  return verifyAccumulator(*this, getAccumulator().getType(), shape,
                           lhs.getElementType());
}

LogicalResult AccumulateRowsOp::verify() {
  auto input = getInput().getType();
  int64_t n = getDataDims();
  if (n < 0 || n > input.getRank())
    return emitOpError("(A2) data_dims must be within the operand");
  return verifyAccumulator(*this, getAccumulator().getType(),
                           input.getShape().drop_front(n),
                           input.getElementType());
}

LogicalResult AccumulateScatterOp::verify() {
  auto ids = getIds().getType(), updates = getUpdates().getType();
  auto acc = getAccumulator().getType();
  if (updates.getRank() < ids.getRank() || acc.getRank() < 1 ||
      !sameShape(updates.getShape().take_front(ids.getRank()), ids.getShape()))
    return emitOpError("(A2) updates ")
           << updates << " do not begin with the dimensions of ids " << ids;
  Shape shape{acc.getDimSize(0)};
  llvm::append_range(shape, updates.getShape().drop_front(ids.getRank()));
  return verifyAccumulator(*this, acc, shape, updates.getElementType());
}

LogicalResult ExactSumOp::verify() {
  auto acc = getAccumulator().getType();
  if (acc.getRank() != 0 ||
      cast<ExactType>(acc.getElementType()).getValue() !=
          getInput().getType().getElementType())
    return emitOpError("(A1) needs a rank-0 exact scalar of the input's type, got ")
           << acc;
  return success();
}

LogicalResult CountLabelsOp::verify() {
  return checkShape(getLoc(), "(A4)", "accumulator", getAccumulator(), {});
}

/// (O1): what an optimizer step reads besides tensors has rank 0.
static LogicalResult verifyScalars(Operation *op, ValueRange scalars) {
  for (Value scalar : scalars)
    if (tensorOf(scalar).getRank() != 0)
      return op->emitOpError("(O1) needs a scalar of rank 0, got ")
             << scalar.getType();
  return success();
}
LogicalResult ScheduleOp::verify() {
  return verifyScalars(*this, {getStep(), getRate(), getCorrection1(),
                               getCorrection2()});
}
LogicalResult SgdStepOp::verify() {
  return verifyScalars(*this, {getRate(), getCoefficient()});
}
LogicalResult AdamStepOp::verify() {
  return verifyScalars(*this, {getRate(), getCorrection1(), getCorrection2(),
                               getCoefficient()});
}
