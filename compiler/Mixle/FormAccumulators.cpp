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

/// Makes parts of values out of parts of what the values are made of.
struct SlicePusher {
  OpBuilder &builder;
  Location loc;

  template <typename Op, typename... Arguments>
  Op make(Arguments &&...arguments) {
    auto op = Op::create(builder, loc, std::forward<Arguments>(arguments)...);
    op->setAttr(kPhaseAttr, builder.getStringAttr("backward"));
    return op;
  }

  /// Elements [start, limit) of dimension `d` of `value`; null where they are
  /// all zeros that a pad put there.
  Value part(Value value, int64_t d, int64_t start, int64_t limit) {
    auto type = cast<RankedTensorType>(value.getType());
    if (start == 0 && limit == type.getDimSize(d))
      return value;
    Operation *op = value.getDefiningOp();
    if (auto add = dyn_cast_if_present<AddOp>(op)) {
      Value lhs = part(add.getLhs(), d, start, limit);
      Value rhs = part(add.getRhs(), d, start, limit);
      if (!lhs || !rhs)
        return lhs ? lhs : rhs;
      // Two slices to add are no better than one of the sum.
      if (!lhs.getDefiningOp<SliceOp>() || !rhs.getDefiningOp<SliceOp>())
        return make<AddOp>(lhs.getType(), lhs, rhs);
    }
    if (auto pad = dyn_cast_if_present<PadOp>(op);
        pad && static_cast<int64_t>(pad.getDimension()) == d) {
      auto low = static_cast<int64_t>(pad.getLow());
      int64_t high = low + pad.getInput().getType().getDimSize(d);
      if (limit <= low || start >= high)
        return Value();
      if (start >= low && limit <= high)
        return part(pad.getInput(), d, start - low, limit - low);
    }
    if (auto slice = dyn_cast_if_present<SliceOp>(op);
        slice && static_cast<int64_t>(slice.getDimension()) == d) {
      auto first = static_cast<int64_t>(slice.getStart());
      return part(slice.getInput(), d, first + start, first + limit);
    }
    if (auto transpose = dyn_cast_if_present<TransposeOp>(op))
      if (Value input = part(transpose.getInput(),
                             transpose.getPermutation()[d], start, limit))
        return make<TransposeOp>(input, transpose.getPermutation());
    if (auto reduce = dyn_cast_if_present<ReduceOp>(op);
        reduce && reduce.getKind() == "sum") {
      int64_t from = keptDimension(rankOf(reduce.getInput()),
                                   reduce.getDimensions(), d);
      if (Value input = part(reduce.getInput(), from, start, limit))
        return make<ReduceOp>(input, reduce.getKind(), reduce.getDimensions());
    }
    if (auto dot = dyn_cast_if_present<DotGeneralOp>(op);
        dot && dot.getLhsBatch().empty()) {
      int64_t left = rankOf(dot.getLhs()) -
                     static_cast<int64_t>(dot.getLhsContract().size());
      Value lhs = dot.getLhs(), rhs = dot.getRhs();
      if (d < left)
        lhs = part(lhs, keptDimension(rankOf(lhs), dot.getLhsContract(), d),
                   start, limit);
      else
        rhs = part(rhs,
                   keptDimension(rankOf(rhs), dot.getRhsContract(), d - left),
                   start, limit);
      if (lhs && rhs)
        return make<DotGeneralOp>(lhs, rhs, dot.getLhsContract(),
                                  dot.getRhsContract());
    }
    return make<SliceOp>(value, d, start, limit);
  }

  /// The d-th of the dimensions that are not in `removed`.
  static int64_t keptDimension(int64_t rank, ArrayRef<int64_t> removed,
                               int64_t d) {
    for (int64_t i = 0; i < rank; ++i)
      if (!llvm::is_contained(removed, i) && d-- == 0)
        return i;
    llvm_unreachable("a dimension of a result comes from an operand");
  }
};

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
    if (auto slice = gradient.getDefiningOp<SliceOp>()) {
      OpBuilder builder(slice);
      Value part = SlicePusher{builder, slice.getLoc()}.part(
          slice.getInput(), static_cast<int64_t>(slice.getDimension()),
          static_cast<int64_t>(slice.getStart()),
          static_cast<int64_t>(slice.getLimit()));
      if (!part)
        return;
      if (!part.getDefiningOp<SliceOp>())
        return collect(part, contributions);
    }
    if (auto add = gradient.getDefiningOp<AddOp>()) {
      if (add->hasOneUse() || add->use_empty()) {
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
