//===- Emit.h - From an exec.program to a program file ----------*- C++ -*-===//

#ifndef MIXLE_COMPILER_EMIT_H
#define MIXLE_COMPILER_EMIT_H

#include "compiler/Codegen/Codegen.h"
#include "dialects/Exec/Exec.h"
#include "runtime/schema/program_generated.h"

namespace mlir::exec {

/// Writes the exec.programs of all rank classes out as the program file's
/// tables, one op to one table; nothing is decided here. Fails, at the op, on a
/// reference that leads nowhere.
LogicalResult emitProgram(ArrayRef<ProgramOp> classes,
                          const mixle::CompiledKernels &kernels,
                          ::mixle::runtime::fb::ProgramT &out);

} // namespace mlir::exec

#endif // MIXLE_COMPILER_EMIT_H
