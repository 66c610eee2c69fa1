//===- MixleVerifiers.cpp - Verifiers of ops whose types are written out --===//
//
// Ops whose result types are inferred are checked by MixleShapes.cpp.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/ShapeChecks.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::checks;

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
  return verifyInferredTypes(*this);
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
