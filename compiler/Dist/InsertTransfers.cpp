//===- InsertTransfers.cpp - Values sent from stage to stage --------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::dist {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;

namespace {

StringRef phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(mx::kPhaseAttr);
  return phase ? phase.getValue() : "forward";
}

struct InsertTransfersPass
    : mlir::dist::impl::InsertTransfersBase<InsertTransfersPass> {
  int64_t ranks = 1, stages = 1;

  void runOnOperation() override {
    mx::ProgramOp program = getOperation();
    MeshOp mesh = lookupMesh(program);
    if (!mesh) {
      program.emitError("has no mesh (run plan-check first)");
      return signalPassFailure();
    }
    ranks = mesh.sizeOf("pp");
    if (ranks == 1)
      return;
    stages = ranks * pipelineChunks(program);
    for (auto entry : program.getOps<mx::EntryOp>())
      if (entry.getSymName() != "step" && failed(insert(entry)))
        return signalPassFailure();
  }

  LogicalResult insert(mx::EntryOp entry) {
    int64_t counter = 0;
    Operation *terminator = entry.getBody().front().getTerminator();
    for (Operation &op :
         llvm::make_early_inc_range(entry.getBody().front().without_terminator())) {
      ArrayRef<int64_t> own = stagesOf(&op);
      if (own.size() != 1)
        continue;
      int64_t from = own.front();
      for (Value result : op.getResults()) {
        llvm::MapVector<int64_t, SmallVector<OpOperand *>> uses;
        for (OpOperand &use : result.getUses()) {
          ArrayRef<int64_t> list = stagesOf(use.getOwner());
          if (list.size() == 1 && list.front() != from && !isRunning(use))
            uses[list.front()].push_back(&use);
        }
        for (auto &[to, operands] : uses)
          if (failed(send(entry, &op, result, from, to, operands, counter)))
            return failure();
        // A prediction is everyone's.
        for (OpOperand &use : llvm::make_early_inc_range(result.getUses()))
          if (use.getOwner() == terminator && entry.getSymName() == "predict")
            for (int64_t rank = 0; rank < ranks; ++rank)
              if (rank != rankOfStage(from, ranks))
                if (failed(send(entry, &op, result, from, rank, {}, counter)))
                  return failure();
      }
    }
    return success();
  }

  /// Sums that every stage keeps for itself until they are completed.
  static bool isRunning(OpOperand &use) {
    auto placed = dyn_cast<mx::PlacementOpInterface>(use.getOwner());
    return placed && placed.getPlacementRule().accumulatorOperand ==
                         static_cast<int>(use.getOperandNumber());
  }

  LogicalResult send(mx::EntryOp entry, Operation *maker, Value value,
                     int64_t from, int64_t to, ArrayRef<OpOperand *> uses,
                     int64_t &counter) {
    if (rankOfStage(from, ranks) == rankOfStage(to, ranks))
      return maker->emitError("is made in stage ")
             << from << " and used in stage " << to
             << " of the same rank, which pipelines do not pass on; use fewer "
                "chunks or another pp";
    OpBuilder builder(entry.getContext());
    builder.setInsertionPointAfter(maker);
    std::string id = (entry.getSymName() + ".p2p." + Twine(counter++)).str();
    auto update = UpdateOp::create(
        builder, maker->getLoc(), value.getType(), value,
        builder.getStringAttr(id), builder.getStringAttr("activation"),
        builder.getStringAttr("p2p"), builder.getStrArrayAttr({"pp"}),
        builder.getStringAttr("pipeline_local"), builder.getBoolAttr(false),
        builder.getBoolAttr(true), builder.getStringAttr("copy"),
        builder.getStringAttr("0"), builder.getStringAttr(""),
        builder.getStrArrayAttr({"values are copied bit by bit"}), BoolAttr(),
        FloatAttr(), FloatAttr(), StringAttr(), IntegerAttr());
    setPlacement(update.getResult(), placementOf(value));
    update->setAttr(kStagesAttr, builder.getDenseI64ArrayAttr({from, to}));
    update->setAttr(mx::kPhaseAttr, builder.getStringAttr(phaseOf(maker)));
    StringRef toPhase = phaseOf(maker);
    if (!uses.empty() && llvm::all_of(uses, [](OpOperand *use) {
          return phaseOf(use->getOwner()) == "backward";
        }))
      toPhase = "backward";
    update->setAttr(kToPhaseAttr, builder.getStringAttr(toPhase));
    for (OpOperand *use : uses)
      use->set(update.getResult());
    return success();
  }
};

} // namespace
