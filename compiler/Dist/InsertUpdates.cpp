//===- InsertUpdates.cpp - Partial values made whole ----------------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"
#include "mlir/IR/Builders.h"

namespace mlir::dist {
#define GEN_PASS_DEF_INSERTUPDATES
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;

namespace {

/// What an update of a kind of merge says of itself.
struct Exactness {
  StringRef order;
  std::string bound;
  StringRef note;
};

/// The update of a value that merges so; `accumulator` for block sums, whose
/// units round, `roundoff` the unit roundoff of the program's type.
Exactness exactnessOf(StringRef merge, bool fast, bool accumulator,
                      StringRef roundoff) {
  if (merge == "integer" && !accumulator)
    return {"integer", "0", "a count: 64-bit integers"};
  if (merge == "integer")
    return {"integer", ("blocks * unit / 2 + " + roundoff + " * |sum|").str(),
            "64-bit integer sums: the same bits for any order, number and size of parts"};
  if (merge == "exact")
    return {"integer", "0", "superaccumulators: the exchange adds no error"};
  if (merge == "tree" && fast)
    return {"any",
            ("(n - 1) u / (1 - (n - 1) u) * sum|partials|, n ranks, u = " + roundoff).str(),
            "floating-point sums in any order"};
  if (merge == "tree")
    return {"tree",
            ("d u / (1 - d u) * sum|partials|, d tree levels between ranks, u = " +
             roundoff)
                .str(),
            "granules in one binary tree, whatever the ranks"};
  return {"copy", "0", merge == "max" ? "a maximum is exact in any order"
                                      : "values are copied bit by bit"};
}

struct InsertUpdatesPass
    : mlir::dist::impl::InsertUpdatesBase<InsertUpdatesPass> {
  int64_t counter = 0;
  bool fast = false;
  int64_t shardSize = 1;

  void runOnOperation() override {
    mx::ProgramOp program = getOperation();
    MeshOp mesh = lookupMesh(program);
    if (!mesh) {
      program.emitError("has no mesh (run plan-check first)");
      return signalPassFailure();
    }
    fast = program.getNumerics() == "fast";
    // Estimators are small: dp_shard shards their rows and nothing else.
    shardSize = program.getKind() == "estimation" ? 1 : mesh.sizeOf("dp_shard");
    for (auto entry : program.getOps<mx::EntryOp>()) {
      counter = 0;
      insert(entry);
    }
  }

  UpdateOp makeUpdate(OpBuilder &builder, Location loc, Value value, Twine id,
                      StringRef payload, StringRef collective,
                      ArrayRef<StringRef> axes, StringRef layout,
                      StringRef merge, const Placement &result) {
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    auto acc = dyn_cast<mx::AccType>(element);
    bool doubles = element.isF64() || (acc && acc.getValue().isF64());
    Exactness exactness = exactnessOf(merge, fast, static_cast<bool>(acc),
                                      doubles ? "2^-53" : "2^-24");
    auto update = UpdateOp::create(
        builder, loc, value.getType(), value,
        builder.getStringAttr(id), builder.getStringAttr(payload),
        builder.getStringAttr(collective), builder.getStrArrayAttr(axes),
        builder.getStringAttr(layout), builder.getBoolAttr(false),
        builder.getBoolAttr(true), builder.getStringAttr(exactness.order),
        builder.getStringAttr(exactness.bound), builder.getStringAttr(merge),
        builder.getStrArrayAttr({exactness.note}), BoolAttr(), FloatAttr(),
        FloatAttr(), StringAttr(), IntegerAttr());
    setPlacement(update.getResult(), result);
    return update;
  }

  void insert(mx::EntryOp entry) {
    Block &body = entry.getBody().front();
    if (shardSize > 1)
      markSumsOverShards(entry);
    // Partial values that ops make.
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (isa<UpdateOp>(op))
        continue;
      for (Value result : op.getResults())
        complete(entry, result, &op);
    }
    for (BlockArgument argument : entry.getArguments()) {
      complete(entry, argument, nullptr);
      if (shardSize > 1 &&
          mx::argumentOf(entry, argument.getArgNumber()))
        shardArgument(entry, argument);
    }
  }

  /// Under dp_shard a step works on flat parts of the gradients, so its sums over
  /// them (the norm) are partial over dp_shard too.
  void markSumsOverShards(mx::EntryOp entry) {
    if (entry.getSymName() != "step")
      return;
    for (auto sum : entry.getBody().getOps<mx::ExactSumOp>()) {
      Placement placement = placementOf(sum.getResult());
      placement.partial.push_back("dp_shard");
      llvm::sort(placement.partial, [](StringRef a, StringRef b) {
        return llvm::find(kAxes, a) < llvm::find(kAxes, b);
      });
      placement.merge = "exact";
      setPlacement(sum.getResult(), placement);
    }
  }

  /// The logical name of a value, for node ids and payloads.
  std::string nameOf(mx::EntryOp entry, Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned index = argument.getArgNumber();
      if (FlatSymbolRefAttr of = mx::argumentOf(entry, index))
        return of.getValue().str() + ":" +
               mx::argumentRole(entry, index).str();
      return entry.getSymName().str() + ":" +
             mx::argumentRole(entry, index).str();
    }
    Operation *op = value.getDefiningOp();
    return (entry.getSymName() + "." + op->getName().stripDialect() + "." +
            Twine(counter++))
        .str();
  }

  void complete(mx::EntryOp entry, Value value, Operation *maker) {
    Placement placement = placementOf(value);
    if (placement.partial.empty())
      return;
    StringRef merge = placement.merge;
    bool deferred = merge == "integer" || merge == "exact";
    SmallVector<OpOperand *> uses;
    Operation *first = nullptr;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (deferred) {
        // Ops that only add to it, and entries that leave it running, take it
        // as it is.
        if (isa<mx::ReturnOp>(user) &&
            (entry.getSymName() == "accumulate" ||
             entry.getSymName() == "gradients"))
          continue;
        if (auto placed = dyn_cast<mx::PlacementOpInterface>(user))
          if (placed.getPlacementRule().accumulatorOperand ==
              static_cast<int>(use.getOperandNumber()))
            continue;
      }
      uses.push_back(&use);
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    if (uses.empty())
      return;
    OpBuilder builder(entry.getContext());
    if (deferred || !maker)
      builder.setInsertionPoint(first);
    else
      builder.setInsertionPointAfter(maker);
    Location loc = maker ? maker->getLoc() : first->getLoc();

    auto argument = dyn_cast<BlockArgument>(value);
    bool gradient =
        argument &&
        mx::argumentRole(entry, argument.getArgNumber()) == "accumulator";
    StringRef payload = gradient ? "gradient"
                        : deferred ? "sufficient_statistic"
                                   : "activation";
    if (gradient && getOperation().getKind() == "estimation")
      payload = "sufficient_statistic";
    std::string id = nameOf(entry, value);
    Placement whole = placement;
    whole.partial.clear();
    whole.merge = "";
    Value updated = value;
    SmallVector<StringRef> axes = placement.partial;
    if (gradient && shardSize > 1) {
      // Reduced and scattered over dp_shard; what is left is summed over
      // dp_replicate.
      Placement scattered = placement;
      llvm::erase(scattered.partial, StringRef("dp_shard"));
      if (scattered.partial.empty())
        scattered.merge = "";
      updated = makeUpdate(builder, loc, updated, id + ":dp_shard", payload,
                           "reduce_scatter", {"dp_shard"}, "sharded", merge,
                           scattered);
      updated.getDefiningOp()->setAttr(kFlatShardAttr, builder.getUnitAttr());
      llvm::erase(axes, StringRef("dp_shard"));
    }
    if (!axes.empty()) {
      bool flat = updated != value;
      updated = makeUpdate(builder, loc, updated, id, payload, "all_reduce", axes,
                           flat ? "sharded" : "replicated", merge, whole);
      if (flat)
        updated.getDefiningOp()->setAttr(kFlatShardAttr, builder.getUnitAttr());
    }
    for (OpOperand *use : uses)
      use->set(updated);
  }

  /// Parameters and optimizer state under dp_shard: one flat part per rank.
  void shardArgument(mx::EntryOp entry, BlockArgument argument) {
    unsigned index = argument.getArgNumber();
    StringRef role = mx::argumentRole(entry, index);
    OpBuilder builder(entry.getContext());
    if (role != "parameter" && role != "state")
      return;
    entry.setArgAttr(index, kFlatShardAttr, builder.getUnitAttr());
    if (entry.getSymName() == "step" || entry.getSymName() == "estimate" ||
        argument.use_empty())
      return;
    // Gathered before the first use in each pass of the step.
    for (StringRef phase : {"forward", "backward"}) {
      SmallVector<OpOperand *> uses;
      Operation *first = nullptr;
      for (OpOperand &use : argument.getUses()) {
        Operation *user = use.getOwner();
        auto attribute = user->getAttrOfType<StringAttr>(mx::kPhaseAttr);
        StringRef userPhase = attribute ? attribute.getValue() : "forward";
        if (isa<UpdateOp>(user) || userPhase != phase)
          continue;
        uses.push_back(&use);
        if (!first || user->isBeforeInBlock(first))
          first = user;
      }
      if (uses.empty())
        continue;
      builder.setInsertionPoint(first);
      std::string id = mx::argumentOf(entry, index).getValue().str() +
                       ":gather:" + entry.getSymName().str() + ":" + phase.str();
      UpdateOp gathered = makeUpdate(
          builder, first->getLoc(), argument, id, "parameter", "all_gather",
          {"dp_shard"}, "sharded", "select", placementOf(argument));
      for (OpOperand *use : uses)
        use->set(gathered.getResult());
    }
  }
};

} // namespace
