//===- ShapeChecks.h - What inference and verifiers share -------*- C++ -*-===//
//
// Private to the mixle dialect.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_DIALECTS_MIXLE_SHAPECHECKS_H
#define MIXLE_DIALECTS_MIXLE_SHAPECHECKS_H

#include "dialects/Mixle/Mixle.h"

namespace mlir::mixle::checks {

using Shape = SmallVector<int64_t>;

inline RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
inline RankedTensorType like(RankedTensorType type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}
inline bool compatible(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}
/// The shape without its last dimension.
inline Shape rowShape(RankedTensorType type) {
  return Shape(type.getShape().drop_back());
}
inline bool inRange(ArrayRef<int64_t> dims, int64_t rank) {
  return llvm::all_of(dims, [&](int64_t d) { return d >= 0 && d < rank; });
}
inline bool increasing(ArrayRef<int64_t> dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] <= dims[i - 1])
      return false;
  return true;
}

/// Reports an error where there is a location to report it at.
template <typename... Parts>
LogicalResult fail(std::optional<Location> location, Parts &&...parts) {
  if (!location)
    return failure();
  InFlightDiagnostic diagnostic = emitError(*location);
  (diagnostic << ... << parts);
  return diagnostic;
}

/// Sizes agree, or are known at run time only.
inline bool sameShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           return compatible(std::get<0>(pair), std::get<1>(pair));
         });
}

/// (L2), (N2), (Q3): an operand has the shape that another one gives it.
inline LogicalResult checkShape(std::optional<Location> loc, StringRef label,
                                StringRef what, Value value,
                                ArrayRef<int64_t> expected) {
  auto type = tensorOf(value);
  if (sameShape(type.getShape(), expected))
    return success();
  return fail(loc, label, " ", what, " ", type, " should be ",
              like(type, expected));
}

/// Checks the result types that were written against those that are inferred.
template <typename Op> LogicalResult verifyInferredTypes(Op op) {
  SmallVector<Type> types;
  if (failed(Op::inferReturnTypes(
          op->getContext(), op->getLoc(), op->getOperands(),
          op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
          op->getRegions(), types)))
    return failure();
  if (TypeRange(types) == TypeRange(op->getResultTypes()))
    return success();
  return op->emitOpError("has results of types ")
         << op->getResultTypes() << ", expected " << types;
}

} // namespace mlir::mixle::checks

#endif // MIXLE_DIALECTS_MIXLE_SHAPECHECKS_H
