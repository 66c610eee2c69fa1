//===- MixleGradients.cpp - Gradients of mixle ops ------------------------===//
//
// Vector-Jacobian products, in ops of the same dialect. Tested against finite
// differences of the reference interpreter.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/Mixle.h"

using namespace mlir;
using namespace mlir::mixle;

using Cotangents = SmallVectorImpl<Value>;

namespace {

/// Short spellings for the ops that gradients are made of.
struct Emitter {
  OpBuilder &builder;
  Location loc;

  Value neg(Value a) { return NegOp::create(builder, loc, a.getType(), a); }
  Value add(Value a, Value b) {
    return AddOp::create(builder, loc, a.getType(), a, b);
  }
  Value sub(Value a, Value b) {
    return SubOp::create(builder, loc, a.getType(), a, b);
  }
  Value mul(Value a, Value b) {
    return MulOp::create(builder, loc, a.getType(), a, b);
  }
  Value div(Value a, Value b) {
    return DivOp::create(builder, loc, a.getType(), a, b);
  }
  /// A constant in the shape of `like` (whose rows may be dynamic).
  Value splat(Value like, double value) {
    auto type = cast<RankedTensorType>(like.getType());
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value constant = ConstantOp::create(
        builder, loc, scalar,
        DenseElementsAttr::get(
            scalar, builder.getFloatAttr(type.getElementType(), value)));
    return BroadcastOp::create(builder, loc, type, constant, like,
                               ArrayRef<int64_t>{});
  }
  Value compare(Value a, Value b, StringRef predicate) {
    return CompareOp::create(builder, loc, a, b, predicate);
  }
  Value select(Value condition, Value a, Value b) {
    return SelectOp::create(builder, loc, a.getType(), condition, a, b);
  }
};

bool isInteger(Value v) {
  return cast<RankedTensorType>(v.getType()).getElementType().isInteger();
}

} // namespace

#define GRADIENT(OP)                                                           \
  LogicalResult OP::buildGradient(OpBuilder &builder, ValueRange cotangents,   \
                                  Cotangents &operands)
#define EMITTER Emitter e{builder, getLoc()}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

GRADIENT(NegOp) {
  EMITTER;
  operands.push_back(e.neg(cotangents[0]));
  return success();
}
GRADIENT(ExpOp) {
  EMITTER;
  operands.push_back(e.mul(cotangents[0], getResult()));
  return success();
}
GRADIENT(LogOp) {
  EMITTER;
  operands.push_back(e.div(cotangents[0], getInput()));
  return success();
}
GRADIENT(TanhOp) {
  EMITTER;
  Value one = e.splat(getResult(), 1.0);
  Value slope = e.sub(one, e.mul(getResult(), getResult()));
  operands.push_back(e.mul(cotangents[0], slope));
  return success();
}
GRADIENT(ErfOp) {
  EMITTER;
  // d erf(x)/dx = 2/sqrt(pi) exp(-x^2).
  Value square = e.mul(getInput(), getInput());
  Value bell = ExpOp::create(builder, getLoc(), square.getType(), e.neg(square));
  Value scale = e.splat(getInput(), 1.1283791670955126);
  operands.push_back(e.mul(cotangents[0], e.mul(scale, bell)));
  return success();
}
GRADIENT(SinOp) {
  EMITTER;
  Value cosine = CosOp::create(builder, getLoc(), getType(), getInput());
  operands.push_back(e.mul(cotangents[0], cosine));
  return success();
}
GRADIENT(CosOp) {
  EMITTER;
  Value sine = SinOp::create(builder, getLoc(), getType(), getInput());
  operands.push_back(e.neg(e.mul(cotangents[0], sine)));
  return success();
}
GRADIENT(SqrtOp) {
  EMITTER;
  Value twice = e.mul(e.splat(getResult(), 2.0), getResult());
  operands.push_back(e.div(cotangents[0], twice));
  return success();
}
GRADIENT(AbsOp) {
  EMITTER;
  Value zero = e.splat(getInput(), 0.0);
  Value positive = e.compare(getInput(), zero, "gt");
  Value negative = e.compare(getInput(), zero, "lt");
  Value right = e.select(negative, e.neg(cotangents[0]), zero);
  operands.push_back(e.select(positive, cotangents[0], right));
  return success();
}
GRADIENT(SiluOp) {
  EMITTER;
  // s (1 + x (1 - s)) with s = 1 / (1 + exp(-x)).
  Value one = e.splat(getInput(), 1.0);
  Value decay = ExpOp::create(builder, getLoc(), getType(), e.neg(getInput()));
  Value s = e.div(one, e.add(one, decay));
  Value slope = e.mul(s, e.add(one, e.mul(getInput(), e.sub(one, s))));
  operands.push_back(e.mul(cotangents[0], slope));
  return success();
}
GRADIENT(GeluOp) {
  operands.push_back(GeluGradOp::create(builder, getLoc(), getType(), getInput(),
                                        cotangents[0], getApproximateAttr()));
  return success();
}
GRADIENT(AddOp) {
  if (isInteger(getResult()))
    return operands.append({Value(), Value()}), success();
  operands.append({cotangents[0], cotangents[0]});
  return success();
}
GRADIENT(SubOp) {
  EMITTER;
  operands.append({cotangents[0], e.neg(cotangents[0])});
  return success();
}
GRADIENT(MulOp) {
  EMITTER;
  operands.append(
      {e.mul(cotangents[0], getRhs()), e.mul(cotangents[0], getLhs())});
  return success();
}
GRADIENT(DivOp) {
  EMITTER;
  Value lhs = e.div(cotangents[0], getRhs());
  operands.append({lhs, e.neg(e.mul(lhs, getResult()))});
  return success();
}

/// Maximum and minimum: the cotangent goes to the chosen operand, and half to
/// each where they are equal, as PyTorch and JAX have it.
static void chooseGradient(Emitter e, Value lhs, Value rhs, Value cotangent,
                           StringRef chosen, Cotangents &operands) {
  Value zero = e.splat(lhs, 0.0);
  Value half = e.mul(cotangent, e.splat(lhs, 0.5));
  Value equal = e.compare(lhs, rhs, "eq");
  Value first = e.compare(lhs, rhs, chosen);
  Value second = e.compare(rhs, lhs, chosen);
  operands.push_back(e.select(equal, half, e.select(first, cotangent, zero)));
  operands.push_back(e.select(equal, half, e.select(second, cotangent, zero)));
}
GRADIENT(MaxOp) {
  EMITTER;
  chooseGradient(e, getLhs(), getRhs(), cotangents[0], "gt", operands);
  return success();
}
GRADIENT(MinOp) {
  EMITTER;
  chooseGradient(e, getLhs(), getRhs(), cotangents[0], "lt", operands);
  return success();
}
GRADIENT(SelectOp) {
  EMITTER;
  Value zero = e.splat(getResult(), 0.0);
  operands.push_back(Value());
  operands.push_back(e.select(getCondition(), cotangents[0], zero));
  operands.push_back(e.select(getCondition(), zero, cotangents[0]));
  return success();
}
GRADIENT(ConvertOp) {
  if (isInteger(getInput()) || isInteger(getResult()))
    return operands.push_back(Value()), success();
  operands.push_back(ConvertOp::create(builder, getLoc(), getInput().getType(),
                                       cotangents[0]));
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

GRADIENT(BroadcastOp) {
  SmallVector<int64_t> reduced;
  for (int64_t d = 0; d < getType().getRank(); ++d)
    if (!llvm::is_contained(getDimensions(), d))
      reduced.push_back(d);
  operands.push_back(reduced.empty()
                         ? cotangents[0]
                         : ReduceOp::create(builder, getLoc(), cotangents[0],
                                            "sum", reduced)
                               .getResult());
  operands.push_back(Value());
  return success();
}
GRADIENT(ReshapeOp) {
  operands.push_back(ReshapeOp::create(builder, getLoc(), getInput().getType(),
                                       cotangents[0]));
  return success();
}
GRADIENT(TransposeOp) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    inverse[d] = static_cast<int64_t>(i);
  operands.push_back(
      TransposeOp::create(builder, getLoc(), cotangents[0], inverse));
  return success();
}
GRADIENT(SliceOp) {
  int64_t size = getInput().getType().getDimSize(getDimension());
  operands.push_back(PadOp::create(builder, getLoc(), cotangents[0],
                                   getDimension(), getStart(),
                                   size - static_cast<int64_t>(getLimit())));
  return success();
}
GRADIENT(PadOp) {
  int64_t size = getInput().getType().getDimSize(getDimension());
  operands.push_back(SliceOp::create(builder, getLoc(), cotangents[0],
                                     getDimension(), getLow(),
                                     static_cast<int64_t>(getLow()) + size));
  return success();
}
GRADIENT(ConcatOp) {
  int64_t start = 0;
  for (Value input : getInputs()) {
    int64_t size =
        cast<RankedTensorType>(input.getType()).getDimSize(getDimension());
    operands.push_back(SliceOp::create(builder, getLoc(), cotangents[0],
                                       getDimension(), start, start + size));
    start += size;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

/// The dimensions of a tensor of `rank` that are not in `dims`.
static SmallVector<int64_t> otherDims(int64_t rank, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> others;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(dims, d))
      others.push_back(d);
  return others;
}

GRADIENT(ReduceOp) {
  EMITTER;
  auto type = getInput().getType();
  SmallVector<int64_t> kept = otherDims(type.getRank(), getDimensions());
  Value spread =
      BroadcastOp::create(builder, getLoc(), cotangents[0], getInput(), kept);
  if (getKind() == "max") {
    // The cotangent goes to every element that attains the maximum, shared
    // equally.
    Value maximum =
        BroadcastOp::create(builder, getLoc(), getResult(), getInput(), kept);
    Value hit = e.compare(getInput(), maximum, "eq");
    Value one = e.splat(getInput(), 1.0), zero = e.splat(getInput(), 0.0);
    Value mask = e.select(hit, one, zero);
    Value count =
        ReduceOp::create(builder, getLoc(), mask, "sum", getDimensions());
    Value counts =
        BroadcastOp::create(builder, getLoc(), count, getInput(), kept);
    spread = e.select(hit, e.div(spread, counts), zero);
  }
  operands.push_back(spread);
  return success();
}

/// Gradient of one operand of a dot_general: the cotangent contracted with the
/// other operand over the other's free dimensions, dimensions put in order.
static Value dotOperandGradient(DotGeneralOp op, OpBuilder &builder,
                                Value cotangent, bool forLhs) {
  ArrayRef<int64_t> batch = forLhs ? op.getLhsBatch() : op.getRhsBatch();
  ArrayRef<int64_t> contract = forLhs ? op.getLhsContract() : op.getRhsContract();
  ArrayRef<int64_t> otherBatch = forLhs ? op.getRhsBatch() : op.getLhsBatch();
  ArrayRef<int64_t> otherContract =
      forLhs ? op.getRhsContract() : op.getLhsContract();
  Value self = forLhs ? op.getLhs() : op.getRhs();
  Value other = forLhs ? op.getRhs() : op.getLhs();
  int64_t selfRank = cast<RankedTensorType>(self.getType()).getRank();
  int64_t otherRank = cast<RankedTensorType>(other.getType()).getRank();

  SmallVector<int64_t> selfUsed(batch), otherUsed(otherBatch);
  llvm::append_range(selfUsed, contract);
  llvm::append_range(otherUsed, otherContract);
  SmallVector<int64_t> selfFree = otherDims(selfRank, selfUsed);
  SmallVector<int64_t> otherFree = otherDims(otherRank, otherUsed);

  // Positions of the other's free dimensions in the result.
  int64_t numBatch = static_cast<int64_t>(batch.size());
  int64_t start =
      forLhs ? numBatch + static_cast<int64_t>(selfFree.size()) : numBatch;
  SmallVector<int64_t> resultFree = llvm::to_vector(llvm::seq<int64_t>(
      start, start + static_cast<int64_t>(otherFree.size())));
  SmallVector<int64_t> resultBatch =
      llvm::to_vector(llvm::seq<int64_t>(0, numBatch));

  // Of the left operand: cotangent x other; of the right one: other x cotangent,
  // so that free dimensions come out in the order of their operand.
  DotGeneralOp product;
  SmallVector<int64_t> order; // for each dimension made, the one of `self`
  for (int64_t d : batch)
    order.push_back(d);
  // Free dimensions of `other` that remain are its contracted ones, in index
  // order; they correspond to self's contracted dimensions.
  SmallVector<int64_t> remaining;
  {
    SmallVector<std::pair<int64_t, int64_t>> pairs;
    for (auto [o, s] : llvm::zip(otherContract, contract))
      pairs.push_back({o, s});
    llvm::sort(pairs);
    for (auto &p : pairs)
      remaining.push_back(p.second);
  }
  Location loc = op.getLoc();
  if (forLhs) {
    product = DotGeneralOp::create(builder, loc, cotangent, other, resultBatch,
                                   otherBatch, resultFree, otherFree,
                                   IntegerAttr(), IntegerAttr(), IntegerAttr());
    llvm::append_range(order, selfFree);
    llvm::append_range(order, remaining);
  } else {
    product = DotGeneralOp::create(builder, loc, other, cotangent, otherBatch,
                                   resultBatch, otherFree, resultFree,
                                   IntegerAttr(), IntegerAttr(), IntegerAttr());
    llvm::append_range(order, remaining);
    llvm::append_range(order, selfFree);
  }
  // result dimension i is self's dimension order[i]; bring it to self's order.
  SmallVector<int64_t> permutation(selfRank);
  bool identity = true;
  for (auto [i, d] : llvm::enumerate(order)) {
    permutation[d] = static_cast<int64_t>(i);
    identity &= d == static_cast<int64_t>(i);
  }
  if (identity)
    return product;
  return TransposeOp::create(builder, loc, product, permutation);
}

GRADIENT(DotGeneralOp) {
  operands.push_back(dotOperandGradient(*this, builder, cotangents[0], true));
  operands.push_back(dotOperandGradient(*this, builder, cotangents[0], false));
  return success();
}

GRADIENT(EmbeddingOp) {
  Value ids = getIds();
  if (getPadding()) {
    // An id outside the table: its row is dropped.
    auto number = [&](int64_t value) -> Value {
      auto type = cast<RankedTensorType>(ids.getType());
      auto scalar = RankedTensorType::get({}, type.getElementType());
      Value constant = ConstantOp::create(
          builder, getLoc(), scalar,
          DenseElementsAttr::get(
              scalar, builder.getIntegerAttr(type.getElementType(), value)));
      return BroadcastOp::create(builder, getLoc(), type, constant, ids,
                                 ArrayRef<int64_t>{});
    };
    Value hit = CompareOp::create(
        builder, getLoc(), ids, number(static_cast<int64_t>(*getPadding())),
        "eq");
    ids = SelectOp::create(builder, getLoc(), ids.getType(), hit, number(-1),
                           ids);
  }
  operands.push_back(ScatterAddOp::create(
      builder, getLoc(), ids, cotangents[0],
      static_cast<uint64_t>(getTable().getType().getDimSize(0))));
  operands.push_back(Value());
  return success();
}
GRADIENT(ScatterAddOp) {
  operands.push_back(Value());
  operands.push_back(
      EmbeddingOp::create(builder, getLoc(), cotangents[0], getIds(),
                          IntegerAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

/// Sums per-row terms over every dimension but the last.
static Value sumRows(OpBuilder &builder, Location loc, Value terms) {
  int64_t rank = cast<RankedTensorType>(terms.getType()).getRank();
  SmallVector<int64_t> rows = llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
  return ReduceOp::create(builder, loc, terms, "sum", rows);
}

GRADIENT(LayerNormOp) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no gradient through its mean and rstd results");
  auto grad = LayerNormGradOp::create(builder, getLoc(), getInput(), getGain(),
                                      getMean(), getRstd(), cotangents[0]);
  operands.push_back(grad.getInputCotangent());
  operands.push_back(sumRows(builder, getLoc(), grad.getGainTerms()));
  operands.push_back(sumRows(builder, getLoc(), cotangents[0]));
  return success();
}
GRADIENT(RmsNormOp) {
  if (cotangents[1])
    return emitOpError("has no gradient through its rstd result");
  auto grad = RmsNormGradOp::create(builder, getLoc(), getInput(), getGain(),
                                    getRstd(), cotangents[0]);
  operands.push_back(grad.getInputCotangent());
  operands.push_back(sumRows(builder, getLoc(), grad.getGainTerms()));
  return success();
}
GRADIENT(AttentionOp) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no gradient through its statistics");
  operands.push_back(AttentionGradOp::create(
      builder, getLoc(), getQkv(), getResult(), getReference(), getNormalizer(),
      cotangents[0], getScaleAttr(), getCausalAttr(), getKeyGranulesAttr(),
      getGroupedAttr()));
  return success();
}
GRADIENT(RotaryOp) {
  EMITTER;
  auto turnBack = RotaryOp::create(
      builder, getLoc(), getType(), cotangents[0], getCos(), getSin(),
      getInverse() ? UnitAttr() : builder.getUnitAttr(), getRotatedAttr());
  operands.push_back(turnBack);
  // The tables: sums over everything that shares a row of them. Where they are
  // made from positions alone, nobody reads these.
  int64_t rank = getType().getRank(), half = getType().getDimSize(rank - 1) / 2;
  auto part = [&](Value value, bool second) -> Value {
    if (getRotated())
      value = SliceOp::create(builder, getLoc(), value, rank - 2, 0, *getRotated());
    return SliceOp::create(builder, getLoc(), value, rank - 1,
                           second ? half : 0, second ? 2 * half : half);
  };
  Value x1 = part(getInput(), false), x2 = part(getInput(), true);
  Value y1 = part(cotangents[0], false), y2 = part(cotangents[0], true);
  SmallVector<int64_t> shared;
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != 1)
      shared.push_back(d);
  auto sum = [&](Value terms) -> Value {
    return ReduceOp::create(builder, getLoc(), terms, "sum", shared);
  };
  operands.push_back(sum(e.add(e.mul(y1, x1), e.mul(y2, x2))));
  Value sine = e.sub(e.mul(y2, x1), e.mul(y1, x2));
  operands.push_back(sum(getInverse() ? e.neg(sine) : sine));
  return success();
}
GRADIENT(SoftmaxCrossEntropyOp) {
  // The row statistics are built again; they merge with the forward ones once
  // the loss is decomposed.
  Value maximum = RowMaxOp::create(builder, getLoc(), getLogits());
  Value sum = RowSumExpOp::create(builder, getLoc(), getLogits(), maximum,
                                  IntegerAttr(), IntegerAttr());
  operands.push_back(SoftmaxCrossEntropyGradOp::create(
      builder, getLoc(), getLogits(), getLabels(), maximum, sum, cotangents[0],
      getIgnoreAttr()));
  operands.push_back(Value());
  return success();
}
GRADIENT(LogSumExpOp) {
  Value maximum = RowMaxOp::create(builder, getLoc(), getInput());
  Value sum = RowSumExpOp::create(builder, getLoc(), getInput(), maximum,
                                  IntegerAttr(), IntegerAttr());
  operands.push_back(SoftmaxScaleOp::create(builder, getLoc(), getInput(),
                                            maximum, sum, cotangents[0]));
  return success();
}

GRADIENT(ExactSumOp) {
  if (getSquare())
    return emitOpError("has no gradient for squares");
  EMITTER;
  // Every term enters the sum with weight one.
  operands.push_back(Value());
  operands.push_back(e.splat(getInput(), 1.0));
  return success();
}

void DotGeneralOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                         Value rhs, ArrayRef<int64_t> lhsContract,
                         ArrayRef<int64_t> rhsContract) {
  build(builder, state, lhs, rhs, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
        lhsContract, rhsContract, IntegerAttr(), IntegerAttr(), IntegerAttr());
}
