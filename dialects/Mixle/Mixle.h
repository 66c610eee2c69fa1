//===- Mixle.h - The mixle dialect ------------------------------*- C++ -*-===//
//
// What is computed: one logical program, no devices. The ops and their meaning
// are documented in MixleOps.td (rendered in docs/).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_DIALECTS_MIXLE_H
#define MIXLE_DIALECTS_MIXLE_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Mixle/MixleDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Mixle/MixleTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Mixle/MixleOps.h.inc"

namespace mlir::mixle {

/// The attribute names of entry arguments and results (see mixle.entry).
inline constexpr StringLiteral kRoleAttr = "mixle.role";
inline constexpr StringLiteral kOfAttr = "mixle.of";
inline constexpr StringLiteral kSlotAttr = "mixle.slot";

/// The pass of a training step that an op belongs to: "forward" or "backward".
inline constexpr StringLiteral kPhaseAttr = "mixle.phase";
/// Attribute of an op: the index of the forward op that it is or serves; its
/// stage and recomputation are that one's.
inline constexpr StringLiteral kPrimalAttr = "mixle.primal";

} // namespace mlir::mixle

#endif // MIXLE_DIALECTS_MIXLE_H
