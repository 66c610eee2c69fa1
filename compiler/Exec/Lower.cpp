//===- Lower.cpp - A partitioned program becomes commands -----------------===//

#include "compiler/Exec/Lowering.h"

namespace mlir::exec {
#define GEN_PASS_DEF_LOWER
#include "compiler/Exec/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct LowerPass : mlir::exec::impl::LowerBase<LowerPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto source : llvm::make_early_inc_range(module.getOps<mx::ProgramOp>())) {
      dist::MeshOp mesh = dist::lookupMesh(source);
      if (!mesh) {
        source.emitError("has no mesh (run plan-check first)");
        return signalPassFailure();
      }
      // One class of ranks for each stage.
      OpBuilder builder(source);
      int64_t stages = mesh.sizeOf("pp");
      KernelNames kernelNames;
      SmallVector<ProgramOp> targets;
      for (int64_t stage = 0; stage < stages; ++stage) {
        auto target = ProgramOp::create(
            builder, source.getLoc(),
            builder.getStringAttr(source.getSymName() + ".stage" + Twine(stage)),
            builder.getDictionaryAttr({}));
        target.getBody().emplaceBlock();
        targets.push_back(target);
        if (failed(lower(source, target, mesh, stages == 1 ? -1 : stage,
                         kernelNames)))
          return signalPassFailure();
      }
      StringAttr name = source.getSymNameAttr();
      source.erase();
      if (stages == 1)
        targets.front().setSymNameAttr(name);
    }
  }

  LogicalResult lower(mx::ProgramOp source, ProgramOp target, dist::MeshOp mesh,
                      int64_t stage, KernelNames &kernelNames) {
    ProgramLowering program(source, target, mesh, stage, kernelNames);
    for (auto entry : source.getOps<mx::EntryOp>()) {
      StringRef name = entry.getSymName();
      if (name == "gradients" || name == "loss")
        continue;
      if (failed(EntryLowering(program, entry, makeEntry(program, name)).lower()))
        return failure();
    }
    makeReset(program);
    makeInitialize(program);
    describeParameters(program);
    describeProgram(program);
    return success();
  }

  EntryOp makeEntry(ProgramLowering &program, StringRef name) {
    OpBuilder builder = OpBuilder::atBlockEnd(&program.target.getBody().front());
    auto entry = EntryOp::create(builder, program.source.getLoc(),
                                 builder.getStringAttr(name),
                                 builder.getArrayAttr({}), builder.getArrayAttr({}));
    entry.getBody().emplaceBlock();
    return entry;
  }

  static int64_t bytesOf(BufferOp buffer) {
    return static_cast<int64_t>(buffer.getFixed()) *
           elementBytes(buffer.getElement());
  }

  /// Zeroes what runs over a window of calls.
  void fillAccumulators(ProgramLowering &program, EntryOp entry) {
    OpBuilder builder = OpBuilder::atBlockEnd(&entry.getBody().front());
    for (auto buffer : program.target.getOps<BufferOp>())
      if (buffer.getKind() == "accumulator" &&
          !buffer.getSymName().starts_with("evaluate."))
        FillOp::create(builder, entry.getLoc(),
                       FlatSymbolRefAttr::get(buffer.getSymNameAttr()),
                       program.constant(bytesOf(buffer)));
  }

  void makeReset(ProgramLowering &program) {
    fillAccumulators(program, makeEntry(program, "reset"));
  }

  void makeInitialize(ProgramLowering &program) {
    EntryOp entry = makeEntry(program, "initialize");
    OpBuilder builder = OpBuilder::atBlockEnd(&entry.getBody().front());
    auto call = [&](StringRef function, BufferOp buffer, ScalarAttr scalar) {
      CallOp::create(builder, entry.getLoc(), builder.getStringAttr(function),
                     builder.getArrayAttr({FlatSymbolRefAttr::get(buffer.getSymNameAttr())}),
                     builder.getArrayAttr({scalar}),
                     builder.getDenseF64ArrayAttr({}), StringAttr());
    };
    int64_t index = 0;
    StringRef suffix = program.floatType.isF64() ? "_f64" : "_f32";
    for (auto parameter : program.source.getOps<mx::ParameterOp>()) {
      auto buffer = program.target.lookupSymbol<BufferOp>(
          ("p." + parameter.getSymName()).str());
      if (buffer)
        call(("initialize_parameter" + suffix).str(), buffer, program.constant(index));
      ++index;
    }
    for (auto buffer : program.target.getOps<BufferOp>()) {
      if (buffer.getKind() != "state")
        continue;
      if (buffer.getSymName() == "units")
        call("initialize_units", buffer, program.constant(program.numUnits));
      else
        FillOp::create(builder, entry.getLoc(),
                       FlatSymbolRefAttr::get(buffer.getSymNameAttr()),
                       program.constant(bytesOf(buffer)));
    }
    fillAccumulators(program, entry);
  }

  void describeParameters(ProgramLowering &program) {
    OpBuilder builder = OpBuilder::atBlockEnd(&program.target.getBody().front());
    int64_t tp = program.mesh.sizeOf("tp"), shards = program.mesh.sizeOf("dp_shard");
    if (program.source.getKind() == "estimation")
      shards = 1;
    for (auto parameter : program.source.getOps<mx::ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      NamedAttrList layout;
      auto i64 = [&](int64_t v) { return builder.getI64IntegerAttr(v); };
      layout.set("file_shape", parameter.getFileShapeAttr());
      layout.set("shape", builder.getDenseI64ArrayAttr(type.getShape()));
      layout.set("dtype", TypeAttr::get(type.getElementType()));
      int64_t shardDim = -1, shardSize = 0, local = type.getNumElements();
      SmallVector<StringRef> placements;
      for (auto [d, factor] : llvm::enumerate(parameter.getFactors())) {
        StringRef name = cast<StringAttr>(factor).getValue();
        if (dist::axisOfFactor(name) != "tp" || tp == 1)
          continue;
        shardDim = static_cast<int64_t>(d);
        shardSize = dist::cutDimension(program.source, name, type.getDimSize(d), tp)
                        .localSize();
        local = local / type.getDimSize(d) * shardSize;
      }
      std::string text = "tp:" + std::to_string(shardDim) + "_dim_shard";
      if (shardDim >= 0)
        placements.push_back(text);
      if (shards > 1)
        placements.push_back("dp_shard:flat_shard");
      layout.set("shard_dim", i64(shardDim));
      layout.set("shard_size", i64(shardSize));
      layout.set("flat_shard", i64(shards > 1 ? ceilDiv(local, shards) : 0));
      layout.set("init", parameter.getInitAttr());
      layout.set("decay", parameter.getDecayAttr());
      layout.set("trained", parameter.getTrainedAttr());
      auto it = program.units.find(parameter.getSymName());
      UnitInfo unit = it == program.units.end() ? UnitInfo() : it->second;
      layout.set("unit_index", i64(unit.index));
      layout.set("max_blocks", i64(unit.maxBlocks));
      layout.set("one_token_blocks", builder.getBoolAttr(unit.oneTokenBlocks));
      layout.set("placements", builder.getStrArrayAttr(placements));
      if (program.stage >= 0) {
        SmallVector<int64_t> ranks;
        for (int64_t s : dist::stagesOf(parameter)) {
          int64_t rank = dist::rankOfStage(s, program.pipeline);
          if (!llvm::is_contained(ranks, rank))
            ranks.push_back(rank);
        }
        // The first stage's rank stands for it; files list ranks in order.
        llvm::sort(ranks);
        layout.set("stages", builder.getDenseI64ArrayAttr(ranks));
      }
      layout.set("optimizer_state",
                 builder.getStringAttr(shards > 1 || shardDim >= 0 ? "sharded"
                                                                   : "replicated"));
      ParameterOp::create(builder, parameter.getLoc(), parameter.getSymNameAttr(),
                          layout.getDictionary(builder.getContext()));
    }
  }

  void describeProgram(ProgramLowering &program) {
    mx::ProgramOp source = program.source;
    Builder builder(source.getContext());
    NamedAttrList config(source.getConfig());
    config.set("kind", source.getKindAttr());
    config.set("numerics", source.getNumericsAttr());
    config.set("granules", source.getGranulesAttr());
    config.set("plan", program.mesh.getPlanAttr());
    config.set("precision", TypeAttr::get(program.floatType));
    int64_t batch = static_cast<int64_t>(mx::configNumber(source, "batch", 1));
    int64_t rows = batch;
    if (source.getKind() == "training") {
      rows = ceilDiv(batch, program.mesh.planField("gradient_accumulation_steps"));
      rows = ceilDiv(rows, program.mesh.sizeOf("dp_replicate") * program.mesh.sizeOf("dp_shard"));
      rows = ceilDiv(rows, program.mesh.planField("microbatches"));
    }
    if (program.stage >= 0)
      config.set("stage", builder.getI64IntegerAttr(program.stage));
    config.set("max_rows", builder.getI64IntegerAttr(std::max<int64_t>(rows, 1)));
    program.target.setConfigAttr(config.getDictionary(source.getContext()));
  }
};

} // namespace
