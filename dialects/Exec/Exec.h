//===- Exec.h - The exec dialect --------------------------------*- C++ -*-===//
//
// When, on one rank. See ExecOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_DIALECTS_EXEC_H
#define MIXLE_DIALECTS_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Exec/ExecDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

#endif // MIXLE_DIALECTS_EXEC_H
