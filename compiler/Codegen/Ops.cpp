//===- Ops.cpp - Short spellings for LLVM dialect ops ---------------------===//

#include "compiler/Codegen/Ops.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::mixle::codegen;

Value Ops::constant(Type type, Attribute value) {
  Value &known = constants[{type, value}];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(constantBlock);
    known = LLVM::ConstantOp::create(b, loc, type, value);
  }
  return known;
}

Value Ops::numberOf(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  if (element.isInteger())
    return integerOf(type, static_cast<int64_t>(value));
  TypedAttr attribute = FloatAttr::get(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, Attribute(attribute));
  return constant(type, attribute);
}

Value Ops::integerOf(Type type, int64_t value) {
  TypedAttr attribute =
      IntegerAttr::get(getElementTypeOrSelf(type),
                       APInt(getElementTypeOrSelf(type).getIntOrFloatBitWidth(),
                             value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, Attribute(attribute));
  return constant(type, attribute);
}

Value Ops::iota(Type element, int64_t step) {
  SmallVector<Attribute> values;
  for (int64_t lane = 0; lane < kLanes; ++lane)
    values.push_back(IntegerAttr::get(element, lane * step));
  VectorType type = vectorOf(element);
  return constant(type, DenseElementsAttr::get(type, values));
}

Value Ops::splat(Value scalar) {
  if (auto op = scalar.getDefiningOp<LLVM::ConstantOp>())
    return constant(vectorOf(scalar.getType()),
                    DenseElementsAttr::get(vectorOf(scalar.getType()),
                                           Attribute(op.getValue())));
  VectorType type = vectorOf(scalar.getType());
  Value none = LLVM::PoisonOp::create(b, loc, type);
  Value zero = integerOf(b.getI32Type(), 0);
  Value first = LLVM::InsertElementOp::create(b, loc, none, scalar, zero);
  SmallVector<int32_t> mask(kLanes, 0);
  return LLVM::ShuffleVectorOp::create(b, loc, first, none, mask);
}

void Ops::unify(MutableArrayRef<Value> values) {
  if (llvm::any_of(values, isVector))
    for (Value &value : values)
      value = toVector(value);
}

Value Ops::fma(Value x, Value y, Value z) {
  Value values[] = {x, y, z};
  unify(values);
  return LLVM::FMAOp::create(b, loc, values[0].getType(), values[0], values[1],
                             values[2]);
}

Value Ops::fcmp(FCmp predicate, Value x, Value y) {
  Value values[] = {x, y};
  unify(values);
  return LLVM::FCmpOp::create(b, loc, predicate, values[0], values[1]);
}

Value Ops::icmp(ICmp predicate, Value x, Value y) {
  Value values[] = {x, y};
  unify(values);
  return LLVM::ICmpOp::create(b, loc, predicate, values[0], values[1]);
}

Value Ops::select(Value condition, Value x, Value y) {
  Value values[] = {condition, x, y};
  // A scalar condition may choose between vectors.
  if (isVector(condition))
    unify(values);
  else
    unify(MutableArrayRef(values).drop_front());
  return LLVM::SelectOp::create(b, loc, values[0], values[1], values[2]);
}

Value Ops::bits(Value x) {
  Type integer = b.getIntegerType(elementOf(x).getIntOrFloatBitWidth());
  return LLVM::BitcastOp::create(b, loc, typeLike(integer, x), x);
}

Value Ops::fromBits(Value x) {
  Type real = elementOf(x).isInteger(64) ? Type(b.getF64Type())
                                         : Type(b.getF32Type());
  return LLVM::BitcastOp::create(b, loc, typeLike(real, x), x);
}

Value Ops::address(Type element, Value base, Value index) {
  return LLVM::GEPOp::create(b, loc, base.getType(), element, base,
                             ValueRange{index});
}

Value Ops::halve(Value vector, function_ref<Value(Value, Value)> combine) {
  // The same 16 lanes all the way: the upper ones become junk that nothing
  // reads, and the back end narrows the vectors.
  Value current = vector;
  for (int64_t width = kLanes / 2; width >= 1; width /= 2) {
    SmallVector<int32_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      low.push_back(lane);
      high.push_back(lane + width);
    }
    Value first = LLVM::ShuffleVectorOp::create(b, loc, current, current, low);
    Value second = LLVM::ShuffleVectorOp::create(b, loc, current, current, high);
    current = combine(first, second);
  }
  Value zero = integerOf(b.getI32Type(), 0);
  return LLVM::ExtractElementOp::create(b, loc, current, zero);
}
