//===- AttachOptimizer.cpp - From accumulators to the optimizer's step ----===//

#include "compiler/Mixle/Passes.h"

namespace mlir::mixle {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "compiler/Mixle/Passes.h.inc"
} // namespace mlir::mixle

using namespace mlir;
using namespace mlir::mixle;

namespace {

/// Collects arguments and results of the step as it is built.
struct StepBuilder {
  EntryOp entry;
  OpBuilder builder;
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;

  StepBuilder(EntryOp entry)
      : entry(entry),
        builder(OpBuilder::atBlockBegin(&entry.getBody().front())) {}

  DictionaryAttr attributes(StringRef role, FlatSymbolRefAttr of = {},
                            StringRef slot = {}) {
    NamedAttrList list;
    list.set(kRoleAttr, builder.getStringAttr(role));
    if (of)
      list.set(kOfAttr, of);
    if (!slot.empty())
      list.set(kSlotAttr, builder.getStringAttr(slot));
    return list.getDictionary(builder.getContext());
  }
  Value argument(Type type, DictionaryAttr attrs) {
    unsigned index = entry.getNumArguments();
    (void)entry.insertArgument(index, type, attrs, entry.getLoc());
    return entry.getArgument(index);
  }
  void result(Value value, DictionaryAttr attrs) {
    results.push_back(value);
    resultAttrs.push_back(attrs);
  }
  void finish() {
    ReturnOp::create(builder, entry.getLoc(), results);
    SmallVector<Type> types;
    for (Value v : results)
      types.push_back(v.getType());
    entry.setFunctionType(
        builder.getFunctionType(entry.getArgumentTypes(), types));
    entry.setAllResultAttrs(resultAttrs);
  }
};

struct AttachOptimizerPass : mlir::mixle::impl::AttachOptimizerBase<AttachOptimizerPass> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    EntryOp accumulate = lookupEntry(program, "accumulate");
    if (!accumulate) {
      program.emitError("has no entry @accumulate (run mixle-form-accumulators first)");
      return signalPassFailure();
    }
    for (StringRef role : {"loss", "count"}) {
      bool found = false;
      for (unsigned i = 0; i < accumulate.getNumResults(); ++i)
        found |= resultRole(accumulate, i) == role;
      if (!found) {
        accumulate.emitError("has no result of role '")
            << role << "', which a step divides by or reports";
        return signalPassFailure();
      }
    }
    std::string name = configText(program, "optimizer", "adamw");
    if (name != "sgd" && name != "adam" && name != "adamw") {
      program.emitError("unknown optimizer '")
          << name << "'; known are sgd, adam and adamw";
      return signalPassFailure();
    }
    buildStep(accumulate, name);
    if (EntryOp loss = lookupEntry(program, "loss"))
      loss.setSymName("evaluate");
  }

  void buildStep(EntryOp accumulate, StringRef name) {
    ProgramOp program = getOperation();
    MLIRContext *context = program.getContext();
    OpBuilder outer(context);
    outer.setInsertionPointAfter(accumulate);
    Location loc = accumulate.getLoc();
    auto entry = EntryOp::create(outer, loc, "step",
                                 outer.getFunctionType({}, {}));
    StepBuilder step(entry);
    OpBuilder &b = step.builder;

    // The running sums that @accumulate returns.
    Value loss, count;
    SmallVector<std::pair<FlatSymbolRefAttr, Value>> accumulators;
    for (unsigned i = 0; i < accumulate.getNumResults(); ++i) {
      StringRef role = resultRole(accumulate, i);
      Type type = accumulate.getResultTypes()[i];
      auto of = accumulate.getResultAttrOfType<FlatSymbolRefAttr>(i, kOfAttr);
      Value value = step.argument(type, step.attributes(role, of));
      if (role == "loss")
        loss = value;
      else if (role == "count")
        count = value;
      else if (role == "accumulator")
        accumulators.push_back({of, value});
    }
    auto counterType = RankedTensorType::get({}, b.getI64Type());
    auto scalarType = RankedTensorType::get({}, b.getF64Type());
    Value counter = step.argument(counterType, step.attributes("counter"));

    double beta1 = configNumber(program, "beta1", 0.9);
    double beta2 = configNumber(program, "beta2", 0.999);
    double decay = configNumber(program, "weight_decay",
                                name == "adamw" ? 0.01 : 0.0);
    bool decayAll = configText(program, "decay", "default") == "all";
    double maxNorm = configNumber(program, "max_grad_norm", 0.0);
    auto f64 = [&](double v) { return b.getF64FloatAttr(v); };

    // Mean gradients, then the norm of them all.
    SmallVector<Value> gradients;
    for (auto &[of, accumulator] : accumulators)
      gradients.push_back(ResolveOp::create(b, loc, accumulator, count, of));
    Value coefficient;
    if (maxNorm > 0) {
      auto element = cast<RankedTensorType>(gradients.front().getType()).getElementType();
      auto exactType = RankedTensorType::get(
          {}, ExactType::get(context, cast<FloatType>(element)));
      Value norm = step.argument(exactType, step.attributes("norm"));
      for (Value gradient : gradients)
        norm = ExactSumOp::create(b, loc, exactType, norm, gradient,
                                  b.getBoolAttr(true));
      auto clip = ClipCoefficientOp::create(b, loc, norm, f64(maxNorm));
      coefficient = clip.getCoefficient();
      step.result(clip.getNorm(), step.attributes("gradient_norm"));
    } else {
      coefficient = ConstantOp::create(
          b, loc, scalarType, DenseElementsAttr::get(scalarType, f64(1.0)));
    }
    auto schedule = ScheduleOp::create(
        b, loc, scalarType, scalarType, scalarType, counter,
        f64(configNumber(program, "lr", 1e-3)),
        b.getStringAttr(configText(program, "lr_schedule", "constant")),
        f64(beta1), f64(beta2));
    step.result(schedule.getRate(), step.attributes("rate"));
    step.result(RoundExactOp::create(b, loc, loss), step.attributes("loss_total"));
    step.result(count, step.attributes("count"));

    for (auto [pair, gradient] : llvm::zip(accumulators, gradients)) {
      FlatSymbolRefAttr of = pair.first;
      auto parameter = program.lookupSymbol<ParameterOp>(of.getAttr());
      Type type = gradient.getType();
      double wd = parameter.getDecay() || decayAll ? decay : 0.0;
      Value value = step.argument(type, step.attributes("parameter", of));
      auto state = [&](StringRef slot) {
        return step.argument(type, step.attributes("state", of, slot));
      };
      if (name == "sgd") {
        Value momentum = state("momentum");
        auto op = SgdStepOp::create(
            b, loc, type, type, value, momentum, gradient, schedule.getRate(),
            coefficient, f64(configNumber(program, "momentum", 0.9)), f64(wd));
        step.result(op.getNewParameter(), step.attributes("parameter", of));
        step.result(op.getNewMomentum(), step.attributes("state", of, "momentum"));
        continue;
      }
      Value first = state("first"), second = state("second");
      auto op = AdamStepOp::create(
          b, loc, type, type, type, value, first, second, gradient,
          schedule.getRate(), schedule.getCorrection1(),
          schedule.getCorrection2(), coefficient, f64(beta1), f64(beta2),
          f64(configNumber(program, "eps", 1e-8)), f64(wd),
          b.getBoolAttr(name == "adamw"));
      step.result(op.getNewParameter(), step.attributes("parameter", of));
      step.result(op.getNewFirst(), step.attributes("state", of, "first"));
      step.result(op.getNewSecond(), step.attributes("state", of, "second"));
    }
    step.finish();
  }
};

} // namespace
