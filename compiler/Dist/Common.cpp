//===- Common.cpp - What distribution passes share ------------------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::dist;

MeshOp mlir::dist::lookupMesh(mx::ProgramOp program) {
  return program.lookupSymbol<MeshOp>("mesh");
}

ArrayRef<int64_t> mlir::dist::stagesOf(Operation *op) {
  auto stages = op->getAttrOfType<DenseI64ArrayAttr>(kStagesAttr);
  return stages ? stages.asArrayRef() : ArrayRef<int64_t>();
}

int64_t mlir::dist::rankOfStage(int64_t stage, int64_t ranks) {
  return stage % ranks;
}

int64_t mlir::dist::chunkOfStage(int64_t stage, int64_t ranks) {
  return stage / ranks;
}

int64_t mlir::dist::pipelineChunks(mx::ProgramOp program) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(mx::configNumber(program, "pipeline_chunks", 1)));
}

StringRef mlir::dist::axisOfFactor(StringRef factor) {
  if (factor == "rows")
    return "dp";
  return factor.empty() ? "" : "tp";
}

Cut mlir::dist::cutDimension(mx::ProgramOp program, StringRef factor,
                             int64_t size, int64_t parts) {
  int64_t granules = parts;
  if (auto given = program.getGranules().getAs<IntegerAttr>(factor))
    granules = given.getInt();
  granules = std::max<int64_t>(1, std::min(granules, size));
  Cut cut;
  cut.granules = granules;
  cut.granuleSize = (size + granules - 1) / granules;
  cut.granulesPerRank = (granules + parts - 1) / parts;
  return cut;
}

Placement mlir::dist::placementOf(Value value) {
  int64_t rank = 0;
  if (auto type = dyn_cast<RankedTensorType>(value.getType()))
    rank = type.getRank();
  PlacementAttr attribute;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto entry = cast<mx::EntryOp>(argument.getOwner()->getParentOp());
    attribute = entry.getArgAttrOfType<PlacementAttr>(argument.getArgNumber(),
                                                      kPlacementAttr);
  } else {
    auto result = cast<OpResult>(value);
    if (auto all = result.getOwner()->getAttrOfType<ArrayAttr>(kPlacementsAttr))
      attribute = cast<PlacementAttr>(all[result.getResultNumber()]);
  }
  return attribute ? Placement::from(attribute) : Placement::whole(rank);
}

void mlir::dist::setPlacement(Value value, const Placement &placement) {
  MLIRContext *context = value.getContext();
  PlacementAttr attribute = placement.toAttr(context);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto entry = cast<mx::EntryOp>(argument.getOwner()->getParentOp());
    entry.setArgAttr(argument.getArgNumber(), kPlacementAttr, attribute);
    return;
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  SmallVector<Attribute> all;
  if (auto existing = op->getAttrOfType<ArrayAttr>(kPlacementsAttr))
    all.assign(existing.begin(), existing.end());
  else
    for (Value r : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(r.getType());
      all.push_back(Placement::whole(type ? type.getRank() : 0).toAttr(context));
    }
  all[result.getResultNumber()] = attribute;
  op->setAttr(kPlacementsAttr, ArrayAttr::get(context, all));
}
