//===- Factors.h - Names of dimensions, from parameters on ------*- C++ -*-===//

#ifndef MIXLE_COMPILER_MIXLE_FACTORS_H
#define MIXLE_COMPILER_MIXLE_FACTORS_H

#include "dialects/Mixle/Mixle.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::mixle {

/// For every value of an entry, the factor name of each dimension ("" = none).
using FactorNames = DenseMap<Value, SmallVector<StringRef>>;

/// Lets the factor names of parameters flow through the placement rules.
FactorNames propagateFactors(EntryOp entry);

} // namespace mlir::mixle

#endif // MIXLE_COMPILER_MIXLE_FACTORS_H
