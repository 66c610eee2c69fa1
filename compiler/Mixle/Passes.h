//===- Passes.h - Graph-phase passes ----------------------------*- C++ -*-===//

#ifndef MIXLE_COMPILER_MIXLE_PASSES_H
#define MIXLE_COMPILER_MIXLE_PASSES_H

#include "dialects/Mixle/Mixle.h"
#include "mlir/Pass/Pass.h"

namespace mlir::mixle {
#define GEN_PASS_DECL
#include "compiler/Mixle/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Mixle/Passes.h.inc"

/// The entry `name` of a program, or null.
EntryOp lookupEntry(ProgramOp program, StringRef name);

/// Gives `to` the phase and primal of `from`.
void copyPhase(Operation *from, Operation *to);

/// The role of an entry argument or result; empty if it has none.
StringRef argumentRole(EntryOp entry, unsigned index);
StringRef resultRole(EntryOp entry, unsigned index);
/// The parameter that an argument or result belongs to (`mixle.of`), or null.
FlatSymbolRefAttr argumentOf(EntryOp entry, unsigned index);

/// A string, number or default from the program's `config`.
std::string configText(ProgramOp program, StringRef key, StringRef fallback);
double configNumber(ProgramOp program, StringRef key, double fallback);
} // namespace mlir::mixle

#endif // MIXLE_COMPILER_MIXLE_PASSES_H
