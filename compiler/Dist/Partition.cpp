//===- Partition.cpp - The shapes that one rank holds ---------------------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Mixle/Factors.h"
#include "compiler/Mixle/Passes.h"

namespace mlir::dist {
#define GEN_PASS_DEF_PARTITION
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;

namespace {

struct PartitionPass : mlir::dist::impl::PartitionBase<PartitionPass> {
  void runOnOperation() override {
    mx::ProgramOp program = getOperation();
    MeshOp mesh = lookupMesh(program);
    if (!mesh) {
      program.emitError("has no mesh (run plan-check first)");
      return signalPassFailure();
    }
    for (auto entry : program.getOps<mx::EntryOp>())
      partition(program, mesh, entry);
  }

  /// The local shape of a value, from its placement and the names of its
  /// dimensions.
  RankedTensorType localType(mx::ProgramOp program, MeshOp mesh, Value value,
                             const mx::FactorNames &names) {
    auto type = cast<RankedTensorType>(value.getType());
    Placement placement = placementOf(value);
    SmallVector<int64_t> shape(type.getShape());
    auto it = names.find(value);
    for (auto [d, axes] : llvm::enumerate(placement.dims)) {
      if (axes.empty() || ShapedType::isDynamic(shape[d]))
        continue;
      int64_t parts = 1;
      for (StringRef axis : axes)
        parts *= mesh.sizeOf(axis);
      StringRef factor = it == names.end() ? StringRef() : it->second[d];
      shape[d] = cutDimension(program, factor, shape[d], parts).localSize();
    }
    return RankedTensorType::get(shape, type.getElementType());
  }

  static RankedTensorType flatType(RankedTensorType local, int64_t shards) {
    int64_t elements = local.getNumElements();
    return RankedTensorType::get({(elements + shards - 1) / shards},
                                 local.getElementType());
  }

  void partition(mx::ProgramOp program, MeshOp mesh, mx::EntryOp entry) {
    Builder builder(entry.getContext());
    mx::FactorNames names = mx::propagateFactors(entry);
    int64_t shards = mesh.sizeOf("dp_shard");
    DenseMap<Value, RankedTensorType> local;
    llvm::DenseSet<Value> flat;
    for (BlockArgument argument : entry.getArguments()) {
      local[argument] = localType(program, mesh, argument, names);
      if (entry.getArgAttr(argument.getArgNumber(), kFlatShardAttr))
        flat.insert(argument);
    }
    for (Operation &op : entry.getBody().front()) {
      for (Value result : op.getResults())
        local[result] = localType(program, mesh, result, names);
      // In a step over flat parts everything elementwise is flat as well.
      auto update = dyn_cast<UpdateOp>(op);
      bool flatUpdate = update && update->hasAttr(kFlatShardAttr);
      bool flatOperand =
          !update && !isa<mx::ReturnOp, mx::ExactSumOp>(op) &&
          llvm::any_of(op.getOperands(), [&](Value v) { return flat.contains(v); });
      if (flatUpdate || flatOperand)
        for (Value result : op.getResults())
          flat.insert(result);
    }
    auto finalType = [&](Value v) -> Type {
      return flat.contains(v) ? flatType(local[v], shards) : local[v];
    };

    SmallVector<Type> argumentTypes, resultTypes;
    for (BlockArgument argument : entry.getArguments()) {
      entry.setArgAttr(argument.getArgNumber(), kGlobalTypeAttr,
                       TypeAttr::get(argument.getType()));
      Type type = finalType(argument);
      argumentTypes.push_back(type);
    }
    SmallVector<std::pair<Operation *, SmallVector<Attribute>>> globals;
    for (Operation &op : entry.getBody().front()) {
      if (auto ret = dyn_cast<mx::ReturnOp>(op)) {
        for (Value operand : ret.getOperands())
          resultTypes.push_back(finalType(operand));
        continue;
      }
      SmallVector<Attribute> types;
      for (Value result : op.getResults())
        types.push_back(TypeAttr::get(result.getType()));
      globals.push_back({&op, types});
    }
    for (auto &[op, types] : globals) {
      op->setAttr(kGlobalTypesAttr, builder.getArrayAttr(types));
      for (Value result : op->getResults())
        result.setType(finalType(result));
    }
    for (auto [argument, type] :
         llvm::zip(entry.getArguments(), argumentTypes))
      argument.setType(type);
    entry.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
  }
};

} // namespace
