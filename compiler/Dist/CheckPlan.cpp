//===- CheckPlan.cpp - A plan against the backend and the program ---------===//

#include "compiler/Dist/Passes.h"
#include "compiler/Dist/Schedule.h"
#include "compiler/Mixle/Passes.h"
#include "mlir/IR/Builders.h"

namespace mlir::dist {
#define GEN_PASS_DEF_CHECKPLAN
#include "compiler/Dist/Passes.h.inc"
} // namespace mlir::dist

using namespace mlir;
using namespace mlir::dist;
namespace rt = ::mixle::runtime;

namespace {

struct CheckPlanPass : mlir::dist::impl::CheckPlanBase<CheckPlanPass> {
  using CheckPlanBase::CheckPlanBase;

  void runOnOperation() override {
    mx::ProgramOp program = getOperation();
    auto parsed = rt::ParallelPlan::parseText(plan);
    if (!parsed) {
      program.emitError(parsed.status().message());
      return signalPassFailure();
    }
    rt::ParallelPlan parallel = parsed.take();
    if (rt::Status status = rt::cpuBackend().validate(parallel, precision); !status) {
      program.emitError(status.message());
      return signalPassFailure();
    }
    if (program.getKind() == "estimation" && parallel.pp > 1) {
      program.emitError("backend cpu: an estimator has no stages, but the plan has pp = ")
          << parallel.pp << "; use pp=1 and dp_replicate or tp";
      return signalPassFailure();
    }
    std::string schedule = mx::configText(program, "pipeline_schedule", "1f1b");
    if (!isPipelineSchedule(schedule)) {
      program.emitError("unknown pipeline schedule '")
          << schedule << "'; known are gpipe, 1f1b, interleaved and zb-h1";
      return signalPassFailure();
    }
    auto block = program.getGranules().getAs<IntegerAttr>("rows");
    auto batch = static_cast<int64_t>(mx::configNumber(program, "batch", 1));
    if (program.getKind() == "estimation" && block && batch < block.getInt()) {
      program.emitError("backend cpu: --batch ")
          << batch << " rows at a time are less than a block of "
          << block.getInt() << ", which no tile may cut; use --batch "
          << block.getInt() << " or more";
      return signalPassFailure();
    }
    if (program.getKind() == "estimation" &&
        (parallel.microbatches > 1 || parallel.gradientAccumulationSteps > 1)) {
      program.emitError("backend cpu: an estimator takes its rows in tiles and has "
                        "neither microbatches nor accumulation steps; use "
                        "microbatches=1 and gradient_accumulation_steps=1");
      return signalPassFailure();
    }
    if (failed(checkFactors(program, parallel.tp)))
      return signalPassFailure();

    OpBuilder builder(program.getContext());
    builder.setInsertionPointToStart(&program.getBody().front());
    SmallVector<StringRef> axes(std::begin(kAxes), std::end(kAxes));
    auto fields = parallel.fields();
    NamedAttrList planFields;
    for (auto [name, value] :
         llvm::zip(rt::ParallelPlan::fieldNames(), fields))
      planFields.set(StringRef(name.data(), name.size()),
                     builder.getI64IntegerAttr(value));
    MeshOp::create(builder, program.getLoc(), "mesh",
                   builder.getStrArrayAttr(axes),
                   ArrayRef<int64_t>(fields.data(), axes.size()),
                   planFields.getDictionary(program.getContext()));
  }

  /// "1, 2 and 3" for the sizes of tp up to 64 that the check accepts.
  static std::string list(ArrayRef<int64_t> sizes) {
    std::string text;
    for (auto [i, s] : llvm::enumerate(sizes))
      text += (i ? ", " : "") + std::to_string(s);
    return text;
  }

  LogicalResult checkFactors(mx::ProgramOp program, int64_t tp) {
    for (auto parameter : program.getOps<mx::ParameterOp>())
      for (auto [d, attribute] : llvm::enumerate(parameter.getFactors())) {
        StringRef factor = cast<StringAttr>(attribute).getValue();
        if (axisOfFactor(factor) != "tp")
          continue;
        int64_t size = cast<RankedTensorType>(parameter.getType()).getDimSize(d);
        bool heads = factor == "heads" || factor == "kv_heads";
        auto fits = [&](int64_t parts, bool &inside) {
          Cut cut = cutDimension(program, factor, size, parts);
          inside = cut.granules < parts ||
                   (heads && size % parts == 0 &&
                    cut.localSize() * parts != size);
          return !inside && (!heads || size % parts == 0);
        };
        bool inside = false;
        if (fits(tp, inside))
          continue;
        SmallVector<int64_t> works;
        bool ignored = false;
        for (int64_t parts = 1; parts <= std::min<int64_t>(size, 64); ++parts)
          if (fits(parts, ignored))
            works.push_back(parts);
        Cut cut = cutDimension(program, factor, size, tp);
        // No number of granules gives every rank one.
        if (tp > size)
          return program.emitError()
                 << "backend cpu: tp=" << tp << " is more than the " << size
                 << " of '" << factor << "', of which every rank needs one; use tp = "
                 << list(works);
        // No number of granules helps where there are fewer heads than ranks.
        if (inside && !(factor == "kv_heads" && size % tp != 0))
          return program.emitError()
                 << "backend cpu: tp=" << tp << " cuts inside a granule of '"
                 << factor << "' (" << size << " in " << cut.granules
                 << " granules of " << cut.granuleSize
                 << "), which would change the bits; set --granules "
                 << (heads || factor == "ffn" ? "tensor" : factor.str())
                 << "=N with N a multiple of " << tp << ", or use tp = "
                 << list(works);
        return program.emitError()
               << "backend cpu: tp=" << tp << " does not divide the " << size
               << (factor == "heads" ? " query" : " key/value")
               << " heads; use tp = " << list(works);
      }
    return success();
  }
};

} // namespace
