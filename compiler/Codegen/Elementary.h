//===- Elementary.h - Elementary functions as LLVM dialect ops --*- C++ -*-===//
//
// The sequences that mixle/MathConstants.h states, operation by operation, on f64
// scalars or vectors. runtime/kernels/Math.h has the same on scalars; the tests
// hold the two to the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_CODEGEN_ELEMENTARY_H
#define MIXLE_COMPILER_CODEGEN_ELEMENTARY_H

#include "compiler/Codegen/Ops.h"

namespace mlir::mixle::codegen {

Value emitExp(Ops &ops, Value x);
Value emitLog(Ops &ops, Value x);
Value emitTanh(Ops &ops, Value x);
Value emitErf(Ops &ops, Value x);
Value emitSin(Ops &ops, Value x);
Value emitCos(Ops &ops, Value x);

/// A function of f64 applied to f32 (extended, then rounded once) or f64.
template <typename Function>
Value throughF64(Ops &ops, Value x, Function function) {
  return ops.roundTo(function(ops, ops.toF64(x)), Ops::elementOf(x));
}

} // namespace mlir::mixle::codegen

#endif // MIXLE_COMPILER_CODEGEN_ELEMENTARY_H
