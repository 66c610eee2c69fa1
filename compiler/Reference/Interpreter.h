//===- Interpreter.h - The meaning of the mixle dialect ---------*- C++ -*-===//
//
// A reference interpreter: plain loops in double, no vectorisation, nothing
// clever. Every lowering, kernel and gradient is tested against it.
//
// Accumulators and exact scalars are the real sums that they approximate, so
// neither blocks nor granules nor units change a result here. Ids and labels
// outside a table select zeros, as they do where a plan splits the table.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_REFERENCE_INTERPRETER_H
#define MIXLE_COMPILER_REFERENCE_INTERPRETER_H

#include "compiler/Reference/Tensor.h"
#include "dialects/Mixle/Mixle.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::mixle::reference {

/// What is known of each SSA value so far.
using ValueMap = llvm::DenseMap<Value, Tensor>;

struct InterpreterOptions {
  /// Rounds every value of type f32 to float after the op that makes it.
  /// Off: f32 programs are computed in double throughout.
  bool roundToType = false;
};

/// Runs `entry` on `arguments`, whose shapes must fit its argument types (`?`
/// fits every size, one size for the leading `?` of all arguments). Appends to
/// `results`. Errors are diagnostics at the entry or op concerned.
LogicalResult interpret(EntryOp entry, ArrayRef<Tensor> arguments,
                        SmallVectorImpl<Tensor> &results,
                        const InterpreterOptions &options = {});

/// Runs one op, whose operands are in `values`, and adds its results.
LogicalResult interpretOp(Operation *op, ValueMap &values,
                          const InterpreterOptions &options = {});

/// True if interpretOp knows ops of this name ("mixle.add").
bool canInterpret(StringRef opName);

} // namespace mlir::mixle::reference

#endif // MIXLE_COMPILER_REFERENCE_INTERPRETER_H
