//===- Passes.h - Plan and distribution passes ------------------*- C++ -*-===//

#ifndef MIXLE_COMPILER_DIST_PASSES_H
#define MIXLE_COMPILER_DIST_PASSES_H

#include "dialects/Dist/Dist.h"
#include "dialects/Mixle/Mixle.h"
#include "mlir/Pass/Pass.h"
#include "runtime/include/mixle/ParallelPlan.h"

namespace mlir::dist {
/// The dialect, apart from the runtime's namespace of the same name.
namespace mx = ::mlir::mixle;

#define GEN_PASS_DECL
#include "compiler/Dist/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/Dist/Passes.h.inc"

/// Attributes that partitioning leaves behind.
inline constexpr StringLiteral kGlobalTypesAttr = "dist.global_types";
inline constexpr StringLiteral kGlobalTypeAttr = "dist.global_type";
/// Marks an argument that dp_shard holds as one flat part per rank.
inline constexpr StringLiteral kFlatShardAttr = "dist.flat_shard";

/// The stages on which an op runs, or that hold a parameter; absent where that
/// follows from its users. Of a transfer: from, to.
inline constexpr StringLiteral kStagesAttr = "dist.stages";
/// The pass of the step in which a transfer's receiver takes it.
inline constexpr StringLiteral kToPhaseAttr = "dist.to_phase";
/// The stages of an op or parameter; empty where there are none.
ArrayRef<int64_t> stagesOf(Operation *op);
/// The coordinate along pp of a stage, and the chunk of that rank's model.
int64_t rankOfStage(int64_t stage, int64_t ranks);
int64_t chunkOfStage(int64_t stage, int64_t ranks);
/// Stages of a rank: `pipeline_chunks` of the program's config.
int64_t pipelineChunks(mixle::ProgramOp program);

/// How one dimension of `size` is cut for an axis of `parts` ranks.
struct Cut {
  int64_t granules;        ///< of the whole dimension
  int64_t granuleSize;     ///< items of a granule
  int64_t granulesPerRank; ///< the last ranks may own fewer
  int64_t localSize() const { return granuleSize * granulesPerRank; }
};
/// The cut of a dimension named `factor`, by the program's granules.
Cut cutDimension(mixle::ProgramOp program, StringRef factor, int64_t size,
                 int64_t parts);

/// The mesh of a program, or null.
MeshOp lookupMesh(mixle::ProgramOp program);

/// The placement of a value, from its op or argument; whole if there is none.
Placement placementOf(Value value);
void setPlacement(Value value, const Placement &placement);

/// The axis that a plan shards a named factor over; empty for none.
StringRef axisOfFactor(StringRef factor);
} // namespace mlir::dist

#endif // MIXLE_COMPILER_DIST_PASSES_H
