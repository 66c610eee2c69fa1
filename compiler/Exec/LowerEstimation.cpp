//===- LowerEstimation.cpp - Library calls of Gaussian mixtures -----------===//

#include "compiler/Exec/Lowering.h"
#include "runtime/training/data/MixtureSpec.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::exec;

/// An M-step commits only where every covariance is positive definite, on all
/// ranks alike: its status has been completed over the components.
void EntryLowering::guardEstimate(mx::ReturnOp op) {
  for (unsigned i = 0; i < entry.getNumResults(); ++i) {
    if (mx::resultRole(entry, i) != "status")
      continue;
    FlatSymbolRefAttr flag = program.buffer("flag.estimate", "accumulator",
                                            builder.getI32Type(), 1, 0);
    call("flag_zero", {bufferOf(op.getOperand(i)), flag}, {});
    CommitIfOp::create(builder, op.getLoc(), flag,
                       builder.getStringAttr("not_positive_definite"));
  }
}

LogicalResult EntryLowering::lowerEstimation(Operation *op) {
  auto buf = [&](Value v) { return bufferOf(v); };
  auto constant = [&](int64_t v) { return program.constant(v); };
  auto size = [](Value v, int64_t d) {
    return cast<RankedTensorType>(v.getType()).getDimSize(d);
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](mx::MixtureFeaturesOp o) {
        bind(o.getResult(), scratch(o.getType()));
        call("mixture_features_f64",
             {buf(o.getRows()), buf(o.getAnchor()), buf(o.getScale()),
              buf(o.getResult())},
             {program.rows(1), constant(size(o.getRows(), 1)),
              constant(o.getFull())});
        return success();
      })
      .Case([&](mx::MixtureFormsOp o) {
        auto [valid, first] = owned(o.getMeans(), 0);
        for (Value result : o->getResults())
          bind(result, scratch(result.getType()));
        call("mixture_forms_f64",
             {buf(o.getWeights()), buf(o.getMeans()), buf(o.getCovariances()),
              buf(o.getAnchor()), buf(o.getScale()), buf(o.getNatural()),
              buf(o.getFactors()), buf(o.getConstants()), buf(o.getCentred())},
             {constant(size(o.getMeans(), 0)), valid, first,
              constant(size(o.getMeans(), 1)), constant(o.getFull()),
              constant(o.getCentreAll())});
        return success();
      })
      .Case([&](mx::CentredScoresOp o) {
        // In place where nothing else needs the scores.
        FlatSymbolRefAttr scores = buf(o.getScores());
        if (!o.getScores().hasOneUse()) {
          FlatSymbolRefAttr copy = scratch(o.getType());
          CopyOp::create(builder, o.getLoc(), scores, copy,
                         program.rows(8 * perRow(o.getType())));
          scores = copy;
        }
        bind(o.getResult(), scores);
        auto [valid, first] = owned(o.getMeans(), 0);
        call("mixture_scores_f64",
             {buf(o.getRows()), buf(o.getMeans()), buf(o.getFactors()),
              buf(o.getConstants()), buf(o.getCentred()), scores},
             {program.rows(1), constant(size(o.getMeans(), 0)), valid,
              constant(size(o.getMeans(), 1)), constant(o.getFull())});
        return success();
      })
      .Case([&](mx::ResolveSumOp o) {
        bind(o.getResult(), scratch(o.getType()));
        call("resolve_sum_f64",
             {buf(o.getAccumulator()),
              program.unitsBuffer(),
              buf(o.getResult())},
             {count(o.getType()), constant(unitOf(o.getOfAttr()).index)});
        return success();
      })
      .Case([&](mx::MixtureStepOp o) -> LogicalResult {
        auto spec = ::mixle::runtime::MixtureSpec::parseText(o.getSpec().str(),
                                                             "its spec");
        if (!spec.ok())
          return o.emitError(spec.status().message());
        const bool full = o.getCovariances().getType().getRank() == 3;
        if (spec->components != globalType(o.getMeans()).getDimSize(0) ||
            spec->shape.dim != size(o.getMeans(), 1) || spec->shape.full != full)
          return o.emitError("its spec is of ")
                 << spec->components << " components of dim " << spec->shape.dim
                 << " with " << (spec->shape.full ? "full" : "diagonal")
                 << " covariances; its means are "
                 << globalType(o.getMeans()) << " and its covariances "
                 << (full ? "full" : "diagonal");
        auto [valid, first] = owned(o.getMeans(), 0);
        for (Value result : o->getResults())
          bind(result, scratch(result.getType()));
        call("mixture_step_f64",
             {buf(o.getStatistics()), buf(o.getTotal()), buf(o.getAnchor()),
              buf(o.getScale()), buf(o.getWeights()), buf(o.getMeans()),
              buf(o.getCovariances()), buf(o.getNewWeights()),
              buf(o.getNewMeans()), buf(o.getNewCovariances())},
             {constant(size(o.getMeans(), 0)), valid, first}, {}, o.getSpec());
        return success();
      })
      .Case([&](mx::MixtureStatusOp o) {
        auto [valid, first] = owned(o.getCovariances(), 0);
        // The output itself, so that it is there whether the entry commits.
        bind(o.getStatus(), program.buffer("out.status", "output",
                                           builder.getI64Type(), 1, 0));
        call("mixture_status_f64", {buf(o.getCovariances()), buf(o.getStatus())},
             {constant(size(o.getCovariances(), 0)), valid, first,
              constant(globalType(o.getCovariances()).getDimSize(0)),
              constant(size(o.getCovariances(), 1)), constant(o.getFull())});
        return success();
      })
      .Default([](Operation *o) {
        return o->emitError("is no op of an estimator");
      });
}
