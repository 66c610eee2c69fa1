//===- Ops.h - Short spellings for LLVM dialect ops -------------*- C++ -*-===//
//
// Every function takes scalars or vectors of 16 lanes; where one operand is a
// vector, a scalar one is spread. No fast-math flag is ever set.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_CODEGEN_OPS_H
#define MIXLE_COMPILER_CODEGEN_OPS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::mixle::codegen {

/// The number of virtual lanes, whatever the machine's vectors.
inline constexpr int64_t kLanes = 16;

class Ops {
public:
  using FCmp = LLVM::FCmpPredicate;
  using ICmp = LLVM::ICmpPredicate;

  Ops(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  /// Constants go to the start of this block, one of each.
  void setConstantBlock(Block *block) {
    constants.clear();
    constantBlock = block;
  }

  static bool isVector(Value v) { return isa<VectorType>(v.getType()); }
  static Type elementOf(Value v) { return getElementTypeOrSelf(v.getType()); }
  /// `element`, or the vector of it where `like` is one.
  static Type typeLike(Type element, Value like) {
    return isVector(like) ? Type(vectorOf(element)) : element;
  }
  static VectorType vectorOf(Type element) {
    return VectorType::get({kLanes}, element);
  }

  Value constant(Type type, Attribute value);
  /// A number in the type of `like`; integers take the value's integer part.
  Value number(double value, Value like) {
    return numberOf(like.getType(), value);
  }
  Value numberOf(Type type, double value);
  Value integer(int64_t value, Value like) {
    return integerOf(like.getType(), value);
  }
  Value integerOf(Type type, int64_t value);
  Value i64(int64_t value) { return integerOf(b.getI64Type(), value); }
  /// 0, 1, ..., 15 times `step`.
  Value iota(Type element, int64_t step = 1);

  Value splat(Value scalar);
  Value toVector(Value v) { return isVector(v) ? v : splat(v); }
  /// Spreads scalars if any operand is a vector.
  void unify(MutableArrayRef<Value> values);

  Value fadd(Value x, Value y) { return binary<LLVM::FAddOp>(x, y); }
  Value fsub(Value x, Value y) { return binary<LLVM::FSubOp>(x, y); }
  Value fmul(Value x, Value y) { return binary<LLVM::FMulOp>(x, y); }
  Value fdiv(Value x, Value y) { return binary<LLVM::FDivOp>(x, y); }
  Value fma(Value x, Value y, Value z);
  Value fneg(Value x) { return LLVM::FNegOp::create(b, loc, x); }
  Value sqrt(Value x) { return LLVM::SqrtOp::create(b, loc, x.getType(), x); }
  Value fabs(Value x) { return LLVM::FAbsOp::create(b, loc, x.getType(), x); }
  /// NaN if either is; -0 below +0, so that any order gives the same bits.
  Value maximum(Value x, Value y) { return binary<LLVM::MaximumOp>(x, y); }
  Value minimum(Value x, Value y) { return binary<LLVM::MinimumOp>(x, y); }

  Value add(Value x, Value y) { return binary<LLVM::AddOp>(x, y); }
  Value sub(Value x, Value y) { return binary<LLVM::SubOp>(x, y); }
  Value mul(Value x, Value y) { return binary<LLVM::MulOp>(x, y); }
  Value udiv(Value x, Value y) { return binary<LLVM::UDivOp>(x, y); }
  Value urem(Value x, Value y) { return binary<LLVM::URemOp>(x, y); }
  Value sdiv(Value x, Value y) { return binary<LLVM::SDivOp>(x, y); }
  Value logicalAnd(Value x, Value y) { return binary<LLVM::AndOp>(x, y); }
  Value logicalOr(Value x, Value y) { return binary<LLVM::OrOp>(x, y); }
  Value logicalXor(Value x, Value y) { return binary<LLVM::XOrOp>(x, y); }
  Value shl(Value x, int64_t by) {
    return LLVM::ShlOp::create(b, loc, x, integer(by, x));
  }
  Value lshr(Value x, int64_t by) {
    return LLVM::LShrOp::create(b, loc, x, integer(by, x));
  }
  Value smin(Value x, Value y) { return select(icmp(ICmp::slt, x, y), x, y); }
  Value smax(Value x, Value y) { return select(icmp(ICmp::sgt, x, y), x, y); }

  Value fcmp(FCmp predicate, Value x, Value y);
  Value icmp(ICmp predicate, Value x, Value y);
  Value select(Value condition, Value x, Value y);

  /// f64 as i64 and back, f32 as i32.
  Value bits(Value x);
  Value fromBits(Value x);
  /// The element type changed by one conversion op.
  template <typename Op> Value convert(Value x, Type element) {
    if (elementOf(x) == element)
      return x;
    return Op::create(b, loc, typeLike(element, x), x);
  }
  Value toF64(Value x) {
    return convert<LLVM::FPExtOp>(x, b.getF64Type());
  }
  Value roundTo(Value x, Type element) {
    return convert<LLVM::FPTruncOp>(x, element);
  }

  /// &base[index], of elements of `element`.
  Value address(Type element, Value base, Value index);

  /// 16 lanes halved pairwise (lane l and l + 8, 4, 2, 1) to a scalar.
  Value halve(Value vector, function_ref<Value(Value, Value)> combine);

  OpBuilder &b;
  Location loc;

private:
  template <typename Op> Value binary(Value x, Value y) {
    Value values[] = {x, y};
    unify(values);
    return Op::create(b, loc, values[0].getType(), values[0], values[1]);
  }

  Block *constantBlock = nullptr;
  DenseMap<std::pair<Type, Attribute>, Value> constants;
};

} // namespace mlir::mixle::codegen

#endif // MIXLE_COMPILER_CODEGEN_OPS_H
