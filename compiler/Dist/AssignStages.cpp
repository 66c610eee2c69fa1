//===- AssignStages.cpp - A program cut into pipeline stages --------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Passes.h"
#include <cmath>

namespace mlir::dist {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;

namespace {

/// A place between two forward ops where the program may be cut.
struct Cut {
  size_t position; ///< the first op after it
  double before;   ///< cost of all ops before it
};

struct AssignStagesPass : mlir::dist::impl::AssignStagesBase<AssignStagesPass> {
  int64_t ranks = 1, stages = 1;
  /// The forward ops of @accumulate in order, and their stages. Other entries
  /// begin with the same ops.
  SmallVector<std::pair<OperationName, int64_t>> forwardStages;
  /// The stage of a forward op, by its index before it was taken apart.
  DenseMap<int64_t, int64_t> primalStages;

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
    mx::EntryOp accumulate = mx::lookupEntry(program, "accumulate");
    if (!accumulate) {
      program.emitError("has no entry @accumulate to cut into stages");
      return signalPassFailure();
    }
    if (failed(placeParameters(accumulate)))
      return signalPassFailure();
    for (auto entry : program.getOps<mx::EntryOp>()) {
      StringRef name = entry.getSymName();
      if (name == "step")
        assignStep(entry);
      else
        assign(entry);
    }
  }

  void setStages(Operation *op, ArrayRef<int64_t> list) {
    op->setAttr(kStagesAttr, DenseI64ArrayAttr::get(op->getContext(), list));
  }

  mx::ParameterOp parameterOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return nullptr;
    auto entry = cast<mx::EntryOp>(argument.getOwner()->getParentOp());
    FlatSymbolRefAttr of = mx::argumentOf(entry, argument.getArgNumber());
    return of ? getOperation().lookupSymbol<mx::ParameterOp>(of.getAttr())
              : nullptr;
  }

  static bool isForward(Operation *op) {
    auto phase = op->getAttrOfType<StringAttr>(mx::kPhaseAttr);
    return !phase || phase.getValue() == "forward";
  }

  //===--------------------------------------------------------------------===//
  // Where to cut
  //===--------------------------------------------------------------------===//

  /// Values that every stage makes for itself: they depend on no parameter and
  /// are constants, positions, or integers and conditions made of data.
  static void collectFree(mx::EntryOp entry, llvm::DenseSet<Value> &free) {
    for (BlockArgument argument : entry.getArguments()) {
      StringRef role = mx::argumentRole(entry, argument.getArgNumber());
      if (role == "tokens" || role == "labels")
        free.insert(argument);
    }
    for (Operation &op : entry.getBody().front()) {
      auto placed = dyn_cast<mx::PlacementOpInterface>(op);
      if (!placed || placed.getPlacementRule().accumulatorOperand >= 0)
        continue;
      if (llvm::all_of(op.getOperands(),
                       [&](Value v) { return free.contains(v); }))
        free.insert(op.result_begin(), op.result_end());
      // A constant spread over the shape of data.
      if (auto broadcast = dyn_cast<mx::BroadcastOp>(op))
        if (free.contains(broadcast.getInput()))
          free.insert(broadcast.getResult());
    }
  }

  static double bytesPerRow(Value value) {
    double bytes = 1;
    auto type = cast<RankedTensorType>(value.getType());
    for (int64_t d : type.getShape())
      bytes *= ShapedType::isDynamic(d) ? 1 : static_cast<double>(d);
    Type element = type.getElementType();
    return bytes * (element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8. : 8.);
  }

  /// Cuts that only few values cross, none of them much larger than the others'.
  SmallVector<Cut> findCuts(ArrayRef<Operation *> ops,
                            const llvm::DenseSet<Value> &free, double &total) {
    DenseMap<Operation *, size_t> position;
    for (auto [i, op] : llvm::enumerate(ops))
      position[op] = i;
    // At position i: how many values and bytes cross.
    std::vector<int64_t> values(ops.size() + 1, 0);
    std::vector<double> bytes(ops.size() + 1, 0);
    for (auto [i, op] : llvm::enumerate(ops))
      for (Value result : op->getResults()) {
        if (free.contains(result))
          continue;
        size_t last = i;
        for (Operation *user : result.getUsers()) {
          auto it = position.find(user);
          if (it != position.end())
            last = std::max(last, it->second);
        }
        for (size_t at = i + 1; at <= last; ++at) {
          ++values[at];
          bytes[at] += bytesPerRow(result);
        }
      }
    total = 0;
    std::vector<double> before(ops.size() + 1, 0);
    for (auto [i, op] : llvm::enumerate(ops)) {
      if (auto cost = dyn_cast<mx::CostOpInterface>(op))
        total += cost.getCost().flops;
      before[i + 1] = total;
    }
    int64_t fewest = INT64_MAX;
    for (size_t at = 1; at < ops.size(); ++at)
      if (values[at] > 0)
        fewest = std::min(fewest, values[at]);
    SmallVector<double> sizes;
    for (size_t at = 1; at < ops.size(); ++at)
      if (values[at] == fewest)
        sizes.push_back(bytes[at]);
    if (sizes.empty())
      return {};
    llvm::sort(sizes);
    double usual = sizes[sizes.size() / 2];
    SmallVector<Cut> cuts;
    for (size_t at = 1; at < ops.size(); ++at) {
      // Within a chain of ops the latest cut: what is made there is used next.
      bool again = at + 1 < ops.size() && values[at + 1] == fewest &&
                   before[at + 1] == before[at];
      if (values[at] == fewest && bytes[at] == usual && !again)
        cuts.push_back({at, before[at]});
    }
    return cuts;
  }

  /// The cuts of `stages` stages whose costliest costs least.
  SmallVector<size_t> balance(ArrayRef<Cut> cuts, double total) {
    size_t n = cuts.size(), wanted = static_cast<size_t>(stages) - 1;
    // best[k][i]: the least maximum over the first k stages, cut k at i.
    std::vector<std::vector<double>> best(wanted + 1,
                                          std::vector<double>(n, HUGE_VAL));
    std::vector<std::vector<size_t>> from(wanted + 1, std::vector<size_t>(n, 0));
    for (size_t i = 0; i < n; ++i)
      best[1][i] = cuts[i].before;
    for (size_t k = 2; k <= wanted; ++k)
      for (size_t i = k - 1; i < n; ++i)
        for (size_t j = k - 2; j < i; ++j) {
          double worst =
              std::max(best[k - 1][j], cuts[i].before - cuts[j].before);
          if (worst < best[k][i]) {
            best[k][i] = worst;
            from[k][i] = j;
          }
        }
    size_t last = 0;
    double least = HUGE_VAL;
    for (size_t i = wanted - 1; i < n; ++i) {
      double worst = std::max(best[wanted][i], total - cuts[i].before);
      if (worst < least) {
        least = worst;
        last = i;
      }
    }
    SmallVector<size_t> chosen(wanted);
    for (size_t k = wanted; k >= 1; --k) {
      chosen[k - 1] = cuts[last].position;
      last = from[k][last];
    }
    return chosen;
  }

  /// Cuts at the scopes that the user names.
  FailureOr<SmallVector<size_t>> givenCuts(ArrayRef<Operation *> ops,
                                           ArrayRef<Cut> cuts, StringRef split) {
    SmallVector<StringRef> scopes;
    split.split(scopes, ',');
    if (static_cast<int64_t>(scopes.size()) != stages - 1)
      return getOperation().emitError("pipeline_split '")
             << split << "' names " << scopes.size() << " stages after the first; "
             << stages << " stages need " << stages - 1;
    SmallVector<size_t> chosen;
    for (StringRef scope : scopes) {
      const Cut *found = nullptr;
      for (const Cut &cut : cuts) {
        auto name = ops[cut.position]->getLoc()->findInstanceOf<NameLoc>();
        StringRef at = name ? name.getName().getValue() : StringRef();
        if (!found && at.consume_front(scope) && (at.empty() || at[0] == '.' || at[0] == '/'))
          found = &cut;
      }
      if (!found || (!chosen.empty() && found->position <= chosen.back()))
        return getOperation().emitError("pipeline_split '")
               << split << "': no stage can begin at '" << scope
               << "'; name scopes of the model in order, e.g. its blocks";
      chosen.push_back(found->position);
    }
    return chosen;
  }

  /// Cuts the forward pass and says which stages hold which parameters.
  LogicalResult placeParameters(mx::EntryOp accumulate) {
    llvm::DenseSet<Value> free;
    collectFree(accumulate, free);
    SmallVector<Operation *> ops;
    for (Operation &op : accumulate.getBody().front().without_terminator())
      if (isForward(&op))
        ops.push_back(&op);
    double total = 0;
    SmallVector<Cut> cuts = findCuts(ops, free, total);
    if (static_cast<int64_t>(cuts.size()) < stages - 1)
      return getOperation().emitError("backend cpu: pp = ")
             << ranks << " with " << stages / ranks << " stage(s) a rank needs "
             << stages << " stages, but the model can be cut into "
             << cuts.size() + 1 << " at most; use a smaller pp or fewer chunks";
    SmallVector<size_t> chosen;
    std::string split = mx::configText(getOperation(), "pipeline_split", "");
    if (split.empty()) {
      chosen = balance(cuts, total);
    } else {
      auto given = givenCuts(ops, cuts, split);
      if (failed(given))
        return failure();
      chosen = *given;
    }
    DenseMap<Operation *, SmallVector<int64_t>> held;
    size_t stage = 0;
    for (auto [i, op] : llvm::enumerate(ops)) {
      while (stage < chosen.size() && i >= chosen[stage])
        ++stage;
      forwardStages.push_back({op->getName(), static_cast<int64_t>(stage)});
      if (auto primal = op->getAttrOfType<IntegerAttr>(mx::kPrimalAttr))
        primalStages[primal.getInt()] = static_cast<int64_t>(stage);
      for (Value operand : op->getOperands())
        if (mx::ParameterOp parameter = parameterOf(operand)) {
          SmallVector<int64_t> &list = held[parameter];
          if (!llvm::is_contained(list, static_cast<int64_t>(stage)))
            list.push_back(static_cast<int64_t>(stage));
        }
    }
    for (auto parameter : getOperation().getOps<mx::ParameterOp>()) {
      SmallVector<int64_t> list = held.lookup(parameter);
      if (list.empty())
        list.push_back(0);
      llvm::sort(list);
      setStages(parameter, list);
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Which op runs where
  //===--------------------------------------------------------------------===//

  /// Moves, spreads or renames values and computes nothing.
  static bool isView(Operation *op) {
    return isa<mx::ReshapeOp, mx::TransposeOp, mx::BroadcastOp, mx::SliceOp,
               mx::ConvertOp>(op);
  }

  void assign(mx::EntryOp entry) {
    llvm::DenseSet<Value> free;
    collectFree(entry, free);
    DenseMap<Value, int64_t> stageOf;
    size_t next = 0;
    for (Operation &op : entry.getBody().front().without_terminator()) {
      int64_t cut = -1;
      if (isForward(&op) && next < forwardStages.size()) {
        auto [name, stage] = forwardStages[next++];
        if (name == op.getName())
          cut = stage;
        else
          next = forwardStages.size();
      }
      if (op.getNumResults() && free.contains(op.getResult(0)))
        continue;
      auto placed = dyn_cast<mx::PlacementOpInterface>(op);
      int accumulator =
          placed ? placed.getPlacementRule().accumulatorOperand : -1;
      bool forward = isForward(&op);
      int64_t stage = -1;
      auto consider = [&](int64_t s) {
        stage = stage < 0 ? s : forward ? std::max(stage, s) : std::min(stage, s);
      };
      mx::ParameterOp tied;
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        if (mx::ParameterOp parameter = parameterOf(operand)) {
          ArrayRef<int64_t> list = stagesOf(parameter);
          if (list.size() == 1)
            consider(list.front());
          else
            tied = parameter;
          continue;
        }
        auto it = stageOf.find(operand);
        if (it != stageOf.end() && static_cast<int>(i) != accumulator)
          consider(it->second);
      }
      // Of a parameter of several stages, the nearest one that can have the
      // operands.
      if (tied && stage < 0)
        stage = stagesOf(tied).front();
      if (tied && !llvm::is_contained(stagesOf(tied), stage)) {
        int64_t nearest = forward ? stagesOf(tied).back() : stagesOf(tied).front();
        for (int64_t s : stagesOf(tied))
          if (forward ? s >= stage && s < nearest : s <= stage && s > nearest)
            nearest = s;
        stage = nearest;
      }
      if (cut >= 0)
        stage = cut;
      auto primal = op.getAttrOfType<IntegerAttr>(mx::kPrimalAttr);
      if (!forward && primal && primalStages.count(primal.getInt()))
        stage = primalStages.lookup(primal.getInt());
      if (stage < 0)
        stage = forward ? stages - 1 : 0;
      for (Value result : op.getResults())
        stageOf[result] = stage;
      setStages(&op, {stage});
    }
    // What only passes on a value goes with its users.
    for (Operation &op : llvm::reverse(entry.getBody().front())) {
      if (!isView(&op) || stagesOf(&op).empty() || op.use_empty())
        continue;
      int64_t user = -1;
      bool one = true;
      for (Operation *other : op.getUsers()) {
        ArrayRef<int64_t> list = stagesOf(other);
        if (list.size() != 1 || (user >= 0 && user != list.front()))
          one = false;
        else
          user = list.front();
      }
      if (one && user >= 0)
        setStages(&op, {user});
    }
  }

  /// A step's ops run on the stages that hold the parameter they work for; sums
  /// over all parameters count each on its first stage.
  void assignStep(mx::EntryOp entry) {
    for (Operation &op : entry.getBody().front().without_terminator()) {
      auto placed = dyn_cast<mx::PlacementOpInterface>(op);
      int accumulator =
          placed ? placed.getPlacementRule().accumulatorOperand : -1;
      ArrayRef<int64_t> list;
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        if (static_cast<int>(i) == accumulator)
          continue;
        if (mx::ParameterOp parameter = parameterOf(operand))
          list = stagesOf(parameter);
        else if (Operation *maker = operand.getDefiningOp();
                 maker && !stagesOf(maker).empty() &&
                 !isa<mx::ExactSumOp>(maker))
          list = stagesOf(maker);
      }
      if (list.empty())
        continue;
      setStages(&op, accumulator >= 0 ? list.take_front() : list);
    }
  }
};

} // namespace
