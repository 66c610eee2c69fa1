//===- Dist.h - The dist dialect --------------------------------*- C++ -*-===//
//
// Where values live and who talks. See DistOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_DIALECTS_DIST_H
#define MIXLE_DIALECTS_DIST_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Dist/DistDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace mlir::dist {

/// Attribute of an op: the placements of its results.
inline constexpr StringLiteral kPlacementsAttr = "dist.placements";
/// Attribute of an entry argument: its placement.
inline constexpr StringLiteral kPlacementAttr = "dist.placement";

/// The physical axes in coordinate order, slowest first.
inline constexpr StringLiteral kAxes[] = {"dp_replicate", "dp_shard", "tp",
                                          "pp", "cp"};

/// A placement as plain data.
struct Placement {
  SmallVector<SmallVector<StringRef>> dims;
  SmallVector<StringRef> partial;
  StringRef merge;

  static Placement whole(int64_t rank) {
    Placement p;
    p.dims.resize(rank);
    return p;
  }
  static Placement from(PlacementAttr attribute);
  PlacementAttr toAttr(MLIRContext *context) const;
  bool operator==(const Placement &other) const {
    return dims == other.dims && partial == other.partial &&
           merge == other.merge;
  }
};

} // namespace mlir::dist

#endif // MIXLE_DIALECTS_DIST_H
