//===- VerifyUpdates.cpp - Every partial value made whole once ------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"

namespace mlir::dist {
#define GEN_PASS_DEF_VERIFYUPDATES
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;

namespace {

struct VerifyUpdatesPass
    : mlir::dist::impl::VerifyUpdatesBase<VerifyUpdatesPass> {
  void runOnOperation() override {
    for (auto entry : getOperation().getOps<mx::EntryOp>())
      for (Operation &op : entry.getBody().front())
        if (failed(check(entry, &op)))
          return signalPassFailure();
  }

  LogicalResult check(mx::EntryOp entry, Operation *op) {
    if (auto update = dyn_cast<UpdateOp>(op))
      return check(update);
    int accumulator = -1;
    if (auto placed = dyn_cast<mx::PlacementOpInterface>(op))
      accumulator = placed.getPlacementRule().accumulatorOperand;
    bool mayRun = isa<mx::ReturnOp>(op) && entry.getSymName() == "accumulate";
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      Placement placement = placementOf(operand);
      if (placement.partial.empty() || mayRun ||
          static_cast<int>(i) == accumulator)
        continue;
      return op->emitError("uses operand ")
             << i << " while it is still a partial sum over '"
             << placement.partial.front() << "': an update is missing";
    }
    return success();
  }

  LogicalResult check(UpdateOp update) {
    Placement before = placementOf(update.getInput());
    Placement after = placementOf(update.getResult());
    bool reduces = update.getCollective() == "all_reduce" ||
                   update.getCollective() == "reduce_scatter";
    for (Attribute attribute : update.getMeshAxes()) {
      StringRef axis = cast<StringAttr>(attribute).getValue();
      if (reduces && !llvm::is_contained(before.partial, axis))
        return update.emitError("reduces over '")
               << axis << "', over which its operand is not partial";
      if (llvm::is_contained(after.partial, axis))
        return update.emitError("leaves its result partial over '") << axis << "'";
    }
    if (reduces && update.getMerge() != before.merge)
      return update.emitError("merges by '")
             << update.getMerge() << "' what must merge by '" << before.merge << "'";
    return success();
  }
};

} // namespace
