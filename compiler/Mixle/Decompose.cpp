//===- Decompose.cpp - Composites over a row into splittable parts --------===//

#include "compiler/Mixle/Passes.h"

namespace mlir::mixle {
#define GEN_PASS_DEF_DECOMPOSE
#include "compiler/Mixle/Passes.h.inc"
} // namespace mlir::mixle

using namespace mlir;
using namespace mlir::mixle;

namespace {

/// Creates ops at an op's place, in its pass of the step.
template <typename Op, typename... Args>
Op createLike(OpBuilder &builder, Operation *source, Args &&...args) {
  auto op = Op::create(builder, source->getLoc(), std::forward<Args>(args)...);
  copyPhase(source, op);
  return op;
}

struct DecomposePass : mlir::mixle::impl::DecomposeBase<DecomposePass> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    program.walk([&](Operation *op) {
      if (auto loss = dyn_cast<SoftmaxCrossEntropyOp>(op))
        return decompose(loss);
      if (auto sum = dyn_cast<LogSumExpOp>(op))
        return decompose(sum);
    });
    // The forward statistics come first, so the backward ones merge into them;
    // the pass of the step is no part of an op's identity.
    program.walk([&](EntryOp entry) { mergeStatistics(entry); });
  }

  void decompose(SoftmaxCrossEntropyOp op) {
    OpBuilder b(op);
    Value maximum = createLike<RowMaxOp>(b, op, op.getLogits());
    Value sum = createLike<RowSumExpOp>(b, op, op.getLogits(), maximum,
                                        IntegerAttr(), IntegerAttr());
    Value target = createLike<SelectLabelOp>(b, op, op.getLogits(), op.getLabels());
    Value loss = createLike<CrossEntropyOp>(b, op, op.getType(), maximum, sum,
                                            target, op.getLabels(),
                                            op.getIgnoreAttr());
    op.replaceAllUsesWith(loss);
    op.erase();
  }

  void decompose(LogSumExpOp op) {
    OpBuilder b(op);
    Value maximum = createLike<RowMaxOp>(b, op, op.getInput());
    Value sum = createLike<RowSumExpOp>(b, op, op.getInput(), maximum,
                                        IntegerAttr(), IntegerAttr());
    Value result = createLike<LogAddOp>(b, op, op.getType(), maximum, sum);
    op.replaceAllUsesWith(result);
    op.erase();
  }

  void mergeStatistics(EntryOp entry) {
    DenseMap<Value, Value> maxima;                   // by logits
    DenseMap<std::pair<Value, Value>, Value> sums;   // by logits and maximum
    for (Operation &op :
         llvm::make_early_inc_range(entry.getBody().front())) {
      if (auto maximum = dyn_cast<RowMaxOp>(op)) {
        auto [it, inserted] = maxima.try_emplace(maximum.getInput(), maximum);
        if (!inserted) {
          maximum.replaceAllUsesWith(it->second);
          maximum.erase();
        }
      } else if (auto sum = dyn_cast<RowSumExpOp>(op)) {
        auto [it, inserted] =
            sums.try_emplace({sum.getInput(), sum.getMaximum()}, sum);
        if (!inserted) {
          sum.replaceAllUsesWith(it->second);
          sum.erase();
        }
      }
    }
  }
};

} // namespace
