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

  static bool isHeads(StringRef factor) {
    return factor == "heads" || factor == "kv_heads";
  }
  static bool isTensor(StringRef factor) {
    return isHeads(factor) || factor == "ffn";
  }

  enum class Fit { Whole, InsideGranule, Indivisible };

  /// Whether `parts` ranks share a dimension without cutting a granule. Heads
  /// have no padding: ranks hold equally many.
  static Fit fitOf(mx::ProgramOp program, StringRef factor, int64_t size,
                   int64_t parts) {
    Cut cut = cutDimension(program, factor, size, parts);
    const bool heads = isHeads(factor);
    if (cut.granules < parts ||
        (heads && size % parts == 0 && cut.localSize() * parts != size))
      return Fit::InsideGranule;
    return !heads || size % parts == 0 ? Fit::Whole : Fit::Indivisible;
  }

  /// Calls `visit` with every factor of the parameters that tp splits, and its
  /// size, until one call says false.
  static bool
  forEachFactor(mx::ProgramOp program,
                llvm::function_ref<bool(StringRef factor, int64_t size)> visit) {
    for (auto parameter : program.getOps<mx::ParameterOp>())
      for (auto [d, attribute] : llvm::enumerate(parameter.getFactors())) {
        StringRef factor = cast<StringAttr>(attribute).getValue();
        int64_t size = cast<RankedTensorType>(parameter.getType()).getDimSize(d);
        if (axisOfFactor(factor) == "tp" && !visit(factor, size))
          return false;
      }
    return true;
  }

  /// Numbers of granules up to `most` with which tp ranks can share what
  /// --granules tensor= stands for.
  static SmallVector<int64_t> tensorGranules(mx::ProgramOp program, int64_t most,
                                             int64_t tp) {
    const DictionaryAttr own = program.getGranulesAttr();
    SmallVector<int64_t> works;
    for (int64_t n = 1; n <= most; ++n) {
      Builder builder(program.getContext());
      NamedAttrList tried(own);
      for (StringRef factor : {"heads", "kv_heads", "ffn"})
        tried.set(factor, builder.getI64IntegerAttr(n));
      program.setGranulesAttr(tried.getDictionary(program.getContext()));
      if (forEachFactor(program, [&](StringRef factor, int64_t size) {
            return !isTensor(factor) ||
                   fitOf(program, factor, size, tp) == Fit::Whole;
          }))
        works.push_back(n);
    }
    program.setGranulesAttr(own);
    return works;
  }

  LogicalResult checkFactors(mx::ProgramOp program, int64_t tp) {
    return success(forEachFactor(program, [&](StringRef factor, int64_t size) {
      Fit fit = fitOf(program, factor, size, tp);
      if (fit != Fit::Whole)
        report(program, factor, size, tp, fit);
      return fit == Fit::Whole;
    }));
  }

  /// Says what does not fit, and what would.
  static void report(mx::ProgramOp program, StringRef factor, int64_t size,
                     int64_t tp, Fit fit) {
    SmallVector<int64_t> works, divisors;
    for (int64_t parts = 1; parts <= std::min<int64_t>(size, 64); ++parts) {
      if (fitOf(program, factor, size, parts) == Fit::Whole)
        works.push_back(parts);
      if (size % parts == 0)
        divisors.push_back(parts);
    }
    Cut cut = cutDimension(program, factor, size, tp);
    InFlightDiagnostic error = program.emitError() << "backend cpu: ";
    const bool heads = isHeads(factor);
    SmallVector<int64_t> numbers;
    if (heads)
      numbers = tensorGranules(program, size, tp);
    // Granules that are uneven for every plan.
    if (heads && works.empty()) {
      error << cut.granules << " granules of " << cut.granuleSize
            << " heads do not make up the " << size << " heads; ";
      if (numbers.empty())
        error << "set --granules tensor=" << size
              << ", and as tp=" << tp << " does not divide the heads, use tp = "
              << list(divisors);
      else
        error << "set --granules tensor=N with N = " << list(numbers);
      return;
    }
    // No number of granules gives every rank one.
    if (tp > size) {
      error << "tp=" << tp << " is more than the " << size << " of '" << factor
            << "', of which every rank needs one; use tp = " << list(works);
      return;
    }
    if (fit == Fit::Indivisible || (heads && numbers.empty())) {
      error << "tp=" << tp << " does not divide the " << size
            << (factor == "heads" ? " query" : " key/value")
            << " heads; use tp = " << list(works);
      return;
    }
    error << "tp=" << tp << " cuts inside a granule of '" << factor << "' (" << size
          << " in " << cut.granules << " granules of " << cut.granuleSize
          << "), which would change the bits; set --granules "
          << (isTensor(factor) ? "tensor" : factor) << "=N with N ";
    if (heads)
      error << "= " << list(numbers);
    else
      error << "at least " << tp;
    if (!works.empty())
      error << ", or use tp = " << list(works);
  }
};

} // namespace
