//===- FormAccumulators.cpp - Sums over data become accumulators ----------===//

#include "compiler/Mixle/Passes.h"

namespace mlir::mixle {
#define GEN_PASS_DEF_FORMACCUMULATORS
#include "compiler/Mixle/Passes.h.inc"
} // namespace mlir::mixle

using namespace mlir;
using namespace mlir::mixle;

namespace {

int64_t rankOf(Value v) { return cast<RankedTensorType>(v.getType()).getRank(); }

bool isPrefix(ArrayRef<int64_t> dims) {
  for (auto [i, d] : llvm::enumerate(dims))
    if (d != static_cast<int64_t>(i))
      return false;
  return true;
}

struct FormAccumulatorsPass : mlir::mixle::impl::FormAccumulatorsBase<FormAccumulatorsPass> {
  void runOnOperation() override {
    EntryOp gradients = lookupEntry(getOperation(), "gradients");
    if (!gradients) {
      getOperation().emitError("has no entry @gradients (run mixle-differentiate first)");
      return signalPassFailure();
    }
    if (failed(convert(gradients)))
      signalPassFailure();
  }

  /// Follows a gradient's additions to its contributions, in the order in which
  /// they were added.
  static void collect(Value gradient, SmallVectorImpl<Value> &contributions) {
    if (auto add = gradient.getDefiningOp<AddOp>()) {
      if (add->hasOneUse()) {
        collect(add.getLhs(), contributions);
        collect(add.getRhs(), contributions);
        return;
      }
    }
    contributions.push_back(gradient);
  }

  /// The accumulate op for one contribution; null if it is no sum over data.
  Value accumulate(OpBuilder &builder, Value accumulator, Value contribution,
                   FlatSymbolRefAttr of) {
    Operation *op = contribution.getDefiningOp();
    if (!op)
      return Value();
    Location loc = op->getLoc();
    Type type = accumulator.getType();
    // The block is set by mixle-assign-granules.
    IntegerAttr one = builder.getI64IntegerAttr(1);
    bool swapped = false;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      // x^T y accumulated as y^T x: only a rotation of whole operand blocks.
      auto dot = transpose.getInput().getDefiningOp<DotGeneralOp>();
      if (!dot || !dot.getLhsBatch().empty())
        return Value();
      int64_t left = rankOf(dot.getLhs()) -
                     static_cast<int64_t>(dot.getLhsContract().size());
      int64_t rank = rankOf(dot.getResult());
      for (auto [i, d] : llvm::enumerate(transpose.getPermutation()))
        if (d != (static_cast<int64_t>(i) + left) % rank)
          return Value();
      swapped = true;
      op = dot;
    }
    if (auto dot = dyn_cast<DotGeneralOp>(op)) {
      if (!dot.getLhsBatch().empty() || !isPrefix(dot.getLhsContract()) ||
          !isPrefix(dot.getRhsContract()) || dot.getLhsContract().empty())
        return Value();
      Value lhs = swapped ? dot.getRhs() : dot.getLhs();
      Value rhs = swapped ? dot.getLhs() : dot.getRhs();
      return AccumulateDotOp::create(
          builder, loc, type, accumulator, lhs, rhs,
          builder.getI64IntegerAttr(dot.getLhsContract().size()), one, of);
    }
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      if (reduce.getKind() != "sum" || !isPrefix(reduce.getDimensions()))
        return Value();
      return AccumulateRowsOp::create(
          builder, loc, type, accumulator, reduce.getInput(),
          builder.getI64IntegerAttr(reduce.getDimensions().size()), of);
    }
    if (auto scatter = dyn_cast<ScatterAddOp>(op))
      return AccumulateScatterOp::create(builder, loc, type, accumulator,
                                         scatter.getIds(), scatter.getUpdates(),
                                         of);
    return Value();
  }

  LogicalResult convert(EntryOp entry) {
    auto terminator = cast<ReturnOp>(entry.getBody().front().getTerminator());
    OpBuilder builder(terminator);
    SmallVector<Value> returned;
    SmallVector<Type> resultTypes;
    SmallVector<DictionaryAttr> resultAttrs;
    for (unsigned i = 0; i < entry.getNumResults(); ++i) {
      Value value = terminator.getOperand(i);
      auto dictionary = DictionaryAttr::get(entry.getContext(), entry.getResultAttrs(i));
      if (resultRole(entry, i) == "gradient") {
        auto of = entry.getResultAttrOfType<FlatSymbolRefAttr>(i, kOfAttr);
        auto type = cast<RankedTensorType>(value.getType());
        auto accType = RankedTensorType::get(
            type.getShape(), AccType::get(entry.getContext(),
                                          cast<FloatType>(type.getElementType())));
        dictionary = builder.getDictionaryAttr(
            {builder.getNamedAttr(kRoleAttr, builder.getStringAttr("accumulator")),
             builder.getNamedAttr(kOfAttr, of)});
        unsigned index = entry.getNumArguments();
        if (failed(entry.insertArgument(index, accType, dictionary, entry.getLoc())))
          return failure();
        SmallVector<Value> contributions;
        collect(value, contributions);
        Value accumulator = entry.getArgument(index);
        for (Value contribution : contributions) {
          // Accumulating where the contribution is made frees its operands
          // early; integer sums do not mind the order.
          Operation *maker = contribution.getDefiningOp();
          if (maker)
            builder.setInsertionPointAfter(maker);
          // The accumulator itself must be defined by then.
          if (Operation *last = accumulator.getDefiningOp())
            if (maker && maker->isBeforeInBlock(last))
              builder.setInsertionPointAfter(last);
          Value next = accumulate(builder, accumulator, contribution, of);
          if (!next) {
            InFlightDiagnostic diagnostic =
                entry.emitError("the gradient of ")
                << of << " is not a sum over data";
            if (maker)
              diagnostic.attachNote(maker->getLoc())
                  << "this contribution cannot become an accumulator: " << *maker;
            return diagnostic;
          }
          copyPhase(maker, next.getDefiningOp());
          accumulator = next;
        }
        value = accumulator;
      }
      returned.push_back(value);
      resultTypes.push_back(value.getType());
      resultAttrs.push_back(dictionary);
    }
    builder.setInsertionPoint(terminator);
    ReturnOp::create(builder, terminator.getLoc(), returned);
    terminator.erase();
    entry.setFunctionType(
        builder.getFunctionType(entry.getArgumentTypes(), resultTypes));
    entry.setAllResultAttrs(resultAttrs);
    entry.setSymName("accumulate");
    // What the accumulators replaced is dead now.
    SmallVector<Operation *> ops;
    for (Operation &op : entry.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty() && isPure(op))
        op->erase();
    return success();
  }
};

} // namespace
