//===- Pointwise.h - Pointwise mixle ops as LLVM dialect ops ----*- C++ -*-===//

#ifndef MIXLE_COMPILER_CODEGEN_POINTWISE_H
#define MIXLE_COMPILER_CODEGEN_POINTWISE_H

#include "compiler/Codegen/Ops.h"

namespace mlir::mixle::codegen {

/// Whether emitPointwise knows the op.
bool canEmitPointwise(Operation *op);

/// Emits one pointwise op on the elements of its operands, each a scalar or 16
/// lanes (i1 for booleans). One value per result. `atRoot` runs code where the kernel starts: coefficients of
/// optimizer steps are formed there.
SmallVector<Value> emitPointwise(Ops &ops, Operation *op,
                                 ArrayRef<Value> operands,
                                 function_ref<void(function_ref<void()>)> atRoot);

} // namespace mlir::mixle::codegen

#endif // MIXLE_COMPILER_CODEGEN_POINTWISE_H
