//===- Place.cpp - Placements from the mesh through the graph -------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"

namespace mlir::dist {
#define GEN_PASS_DEF_PLACE
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;
using mx::Merge;

static StringRef mergeName(Merge merge) {
  switch (merge) {
  case Merge::None:
    return "";
  case Merge::Tree:
    return "tree";
  case Merge::Integer:
    return "integer";
  case Merge::Exact:
    return "exact";
  case Merge::Max:
    return "max";
  case Merge::Select:
    return "select";
  }
  return "";
}

namespace {

struct PlacePass : mlir::dist::impl::PlaceBase<PlacePass> {
  SmallVector<StringRef> dataAxes, modelAxes;
  int64_t pipeline = 1;
  /// By parameter: the axes over which @accumulate leaves its sum partial.
  llvm::StringMap<SmallVector<StringRef>> sums;

  void runOnOperation() override {
    mx::ProgramOp program = getOperation();
    MeshOp mesh = lookupMesh(program);
    if (!mesh) {
      program.emitError("has no mesh (run plan-check first)");
      return signalPassFailure();
    }
    for (StringRef axis : {"dp_replicate", "dp_shard"})
      if (mesh.sizeOf(axis) > 1)
        dataAxes.push_back(axis);
    if (mesh.sizeOf("tp") > 1)
      modelAxes.push_back("tp");
    pipeline = mesh.sizeOf("pp");
    for (auto entry : program.getOps<mx::EntryOp>())
      if (failed(place(entry)))
        return signalPassFailure();
  }

  LogicalResult place(mx::EntryOp entry) {
    for (BlockArgument argument : entry.getArguments())
      seed(entry, argument);
    for (Operation &op : entry.getBody().front())
      if (auto placed = dyn_cast<mx::PlacementOpInterface>(op))
        if (failed(place(placed)))
          return failure();
    return entry.getSymName() == "accumulate" ? noteSums(entry) : success();
  }

  /// Remembers over which axes the accumulators are partial, and checks that
  /// every contribution is: one that is whole over such an axis would be added
  /// once by each of its ranks.
  LogicalResult noteSums(mx::EntryOp entry) {
    Operation *terminator = entry.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      auto of = entry.getResultAttrOfType<FlatSymbolRefAttr>(i, mx::kOfAttr);
      if (!of || mx::resultRole(entry, i) != "accumulator")
        continue;
      SmallVector<StringRef> partial = placementOf(value).partial;
      for (Operation *op = value.getDefiningOp(); op && own.count(op);
           op = op->getOperand(0).getDefiningOp())
        for (StringRef axis : partial)
          if (axis != "pp" && !llvm::is_contained(own[op], axis))
            return op->emitError("adds what is whole over '")
                   << axis << "' to the gradient of " << of
                   << ", which other uses sum over it";
      sums[of.getValue()] = partial;
    }
    return success();
  }

  static bool isAccumulator(Value value) {
    return isa<mx::AccType>(
        cast<RankedTensorType>(value.getType()).getElementType());
  }

  /// Axes over which what an op adds to an accumulator is a part.
  DenseMap<Operation *, SmallVector<StringRef>> own;

  void seed(mx::EntryOp entry, BlockArgument argument) {
    auto type = cast<RankedTensorType>(argument.getType());
    Placement placement = Placement::whole(type.getRank());
    unsigned index = argument.getArgNumber();
    StringRef role = mx::argumentRole(entry, index);
    bool data = role == "tokens" || role == "labels" || role == "rows" ||
                role == "row_weights";
    if (data && type.getRank() > 0)
      placement.dims[0] = dataAxes;
    if (FlatSymbolRefAttr of = mx::argumentOf(entry, index))
      if (auto parameter =
              getOperation().lookupSymbol<mx::ParameterOp>(of.getAttr()))
        for (auto [d, factor] : llvm::enumerate(parameter.getFactors()))
          if (axisOfFactor(cast<StringAttr>(factor).getValue()) == "tp")
            placement.dims[d] = modelAxes;
    // Sums over data that are still running: every rank has its own part.
    bool running = role == "accumulator" || role == "loss" || role == "count";
    SmallVector<StringRef> parts(dataAxes);
    // One stage has the loss; a parameter's gradient comes from those that use it.
    if (pipeline > 1 && (role != "accumulator" || onSeveralRanks(entry, index)))
      parts.push_back("pp");
    if (running && !parts.empty()) {
      placement.partial = parts;
      bool exact = isa<mx::ExactType>(type.getElementType());
      placement.merge = mergeName(exact ? Merge::Exact : Merge::Integer);
    }
    if (FlatSymbolRefAttr of = mx::argumentOf(entry, index))
      if (auto it = sums.find(of.getValue());
          it != sums.end() && role == "accumulator" && !it->second.empty()) {
        placement.partial = it->second;
        placement.merge = mergeName(Merge::Integer);
      }
    setPlacement(argument, placement);
  }

  bool onSeveralRanks(mx::EntryOp entry, unsigned index) {
    FlatSymbolRefAttr of = mx::argumentOf(entry, index);
    auto parameter =
        of ? getOperation().lookupSymbol<mx::ParameterOp>(of.getAttr()) : nullptr;
    if (!parameter)
      return false;
    llvm::SmallDenseSet<int64_t> ranks;
    for (int64_t stage : stagesOf(parameter))
      ranks.insert(rankOfStage(stage, pipeline));
    return ranks.size() > 1;
  }

  LogicalResult place(mx::PlacementOpInterface placed) {
    Operation *op = placed.getOperation();
    mx::PlacementRule rule = placed.getPlacementRule();
    SmallVector<SmallVector<StringRef>> axes(rule.factors.size());
    Placement running;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      Placement placement = placementOf(operand);
      if (static_cast<int>(i) == rule.accumulatorOperand)
        running = placement;
      for (auto [d, factor] : llvm::enumerate(rule.operands[i])) {
        ArrayRef<StringRef> sharded = placement.dims[d];
        if (sharded.empty())
          continue;
        if (factor < 0 || !rule.factors[factor].splittable)
          return op->emitError("needs dimension ")
                 << d << " of operand " << i << " whole, but the plan splits it over '"
                 << sharded.front() << "'";
        if (axes[factor].empty())
          axes[factor].assign(sharded.begin(), sharded.end());
        else if (ArrayRef<StringRef>(axes[factor]) != sharded)
          return op->emitError("operand ")
                 << i << " is split over '" << sharded.front()
                 << "' where another operand is split over '"
                 << axes[factor].front() << "'";
      }
    }
    // Operands that are whole where others are split cannot be combined
    // element by element; a broadcast's `like` gives only the shape.
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      Placement placement = placementOf(operand);
      for (auto [d, factor] : llvm::enumerate(rule.operands[i]))
        if (factor >= 0 && !axes[factor].empty() && placement.dims[d].empty() &&
            !(isa<mx::BroadcastOp>(op) && i == 1))
          return op->emitError("operand ")
                 << i << " is whole in dimension " << d
                 << " where another operand is split over '"
                 << axes[factor].front() << "'";
    }
    SmallVector<StringRef> partial;
    Merge merge = Merge::None;
    llvm::SmallVector<bool> free(rule.factors.size(), false);
    for (ArrayRef<int> dims : rule.results)
      for (int factor : dims)
        if (factor >= 0)
          free[factor] = true;
    for (auto [f, sharded] : llvm::enumerate(axes)) {
      if (sharded.empty() || free[f])
        continue;
      if (rule.factors[f].merge == Merge::None)
        continue;
      if (merge != Merge::None && merge != rule.factors[f].merge)
        return op->emitError("mixes two ways of merging partial values");
      merge = rule.factors[f].merge;
      partial.append(sharded.begin(), sharded.end());
    }
    if (rule.accumulatorOperand == 0 && isAccumulator(op->getResult(0)))
      own[op] = partial;
    for (StringRef axis : running.partial)
      if (!llvm::is_contained(partial, axis))
        partial.push_back(axis);
    llvm::sort(partial, [](StringRef a, StringRef b) {
      return llvm::find(kAxes, a) < llvm::find(kAxes, b);
    });
    StringRef name = mergeName(merge);
    if (name.empty())
      name = running.merge;
    for (auto [r, result] : llvm::enumerate(op->getResults())) {
      Placement placement = Placement::whole(rule.results[r].size());
      for (auto [d, factor] : llvm::enumerate(rule.results[r]))
        if (factor >= 0)
          placement.dims[d] = axes[factor];
      placement.partial = partial;
      placement.merge = partial.empty() ? StringRef() : name;
      setPlacement(result, placement);
    }
    return success();
  }
};

} // namespace
