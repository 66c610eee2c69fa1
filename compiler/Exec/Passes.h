//===- Passes.h - Passes to and on the exec dialect -------------*- C++ -*-===//

#ifndef MIXLE_COMPILER_EXEC_PASSES_H
#define MIXLE_COMPILER_EXEC_PASSES_H

#include "dialects/Exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::exec {
#define GEN_PASS_DECL
#include "compiler/Exec/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Exec/Passes.h.inc"

/// Bytes of one element as the runtime stores it.
int64_t elementBytes(Type element);

/// Whether command `op` reads or writes the buffers it names, in the order of
/// `commandBuffers`.
struct Access {
  FlatSymbolRefAttr buffer;
  bool reads;
  bool writes;
};
SmallVector<Access> accessesOf(Operation *command);
} // namespace mlir::exec

#endif // MIXLE_COMPILER_EXEC_PASSES_H
