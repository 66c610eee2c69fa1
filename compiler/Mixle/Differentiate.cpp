//===- Differentiate.cpp - Reverse-mode differentiation of @loss ----------===//

#include "compiler/Mixle/Passes.h"

namespace mlir::mixle {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "compiler/Mixle/Passes.h.inc"
} // namespace mlir::mixle

using namespace mlir;
using namespace mlir::mixle;

namespace {

/// Marks the pass of the step that ops belong to, and the forward op that they
/// are or serve.
void setPhase(Operation *op, StringRef phase, int64_t primal) {
  op->setAttr(kPhaseAttr, StringAttr::get(op->getContext(), phase));
  op->setAttr(kPrimalAttr,
              IntegerAttr::get(IntegerType::get(op->getContext(), 64), primal));
}

struct DifferentiatePass : mlir::mixle::impl::DifferentiateBase<DifferentiatePass> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    EntryOp loss = lookupEntry(program, "loss");
    if (!loss) {
      program.emitError("has no entry @loss to differentiate");
      return signalPassFailure();
    }
    OpBuilder builder(program.getBodyRegion());
    builder.setInsertionPointAfter(loss);
    EntryOp gradients = cast<EntryOp>(builder.clone(*loss));
    gradients.setSymName("gradients");
    if (failed(differentiate(gradients)))
      signalPassFailure();
  }

  /// What the forward pass packs of parameters alone the backward pass packs
  /// again, before its first use: kept, it would be a second copy of every
  /// weight (and under dp_shard of every gathered one).
  static void packAgain(EntryOp entry, Operation *lastForward) {
    if (!lastForward)
      return;
    auto isParameter = [&](Value value) {
      auto argument = dyn_cast<BlockArgument>(value);
      return argument &&
             argumentRole(entry, argument.getArgNumber()) == "parameter";
    };
    SmallVector<ConcatOp> packed;
    for (Operation &op : entry.getBody().front()) {
      auto concat = dyn_cast<ConcatOp>(op);
      if (concat && llvm::all_of(concat.getInputs(), isParameter))
        packed.push_back(concat);
      if (&op == lastForward)
        break;
    }
    for (ConcatOp concat : packed) {
      SmallVector<OpOperand *> uses;
      Operation *first = nullptr;
      for (OpOperand &use : concat->getUses()) {
        Operation *user = use.getOwner();
        if (!lastForward->isBeforeInBlock(user))
          continue;
        uses.push_back(&use);
        if (!first || user->isBeforeInBlock(first))
          first = user;
      }
      if (uses.empty())
        continue;
      OpBuilder builder(first);
      Operation *again = builder.clone(*concat);
      again->setAttr(kPhaseAttr, builder.getStringAttr("backward"));
      for (OpOperand *use : uses)
        use->set(again->getResult(0));
    }
  }

  LogicalResult differentiate(EntryOp entry) {
    Block &body = entry.getBody().front();
    auto terminator = cast<ReturnOp>(body.getTerminator());
    int64_t index = 0;
    for (Operation &op : body.without_terminator())
      setPhase(&op, "forward", index++);

    // Cotangents so far; several uses add in reverse program order.
    DenseMap<Value, Value> cotangents;
    OpBuilder builder(terminator);
    unsigned lossIndex = ~0u;
    for (unsigned i = 0; i < entry.getNumResults(); ++i)
      if (resultRole(entry, i) == "loss")
        lossIndex = i;
    if (lossIndex == ~0u)
      return entry.emitError("has no result of role 'loss'");
    auto root = terminator.getOperand(lossIndex).getDefiningOp<ExactSumOp>();
    if (!root)
      return terminator.emitError("the loss must be a mixle.exact_sum of token losses");

    Operation *lastForward = terminator->getPrevNode();
    auto add = [&](Value value, Value contribution) {
      Value &total = cotangents[value];
      if (!total) {
        total = contribution;
        return;
      }
      total = AddOp::create(builder, contribution.getLoc(), total.getType(),
                            total, contribution);
    };

    SmallVector<Operation *> order;
    for (Operation &op : body.without_terminator())
      order.push_back(&op);
    for (Operation *op : llvm::reverse(order)) {
      bool isRoot = op == root.getOperation();
      SmallVector<Value> results;
      bool any = isRoot;
      for (Value result : op->getResults()) {
        Value cotangent = cotangents.lookup(result);
        any |= static_cast<bool>(cotangent);
        results.push_back(cotangent);
      }
      if (!any)
        continue;
      auto gradient = dyn_cast<GradientOpInterface>(op);
      if (!gradient) {
        if (op->getNumOperands() == 0)
          continue; // constants
        return op->emitError("has no gradient, but the loss depends on it");
      }
      SmallVector<Value> operands;
      Operation *before = terminator->getPrevNode();
      if (failed(gradient.buildGradient(builder, results, operands)))
        return failure();
      if (operands.size() != op->getNumOperands())
        return op->emitError("gradient gives ")
               << operands.size() << " cotangents for " << op->getNumOperands()
               << " operands";
      for (auto [operand, cotangent] : llvm::zip(op->getOperands(), operands))
        if (cotangent)
          add(operand, cotangent);
      int64_t primal = op->getAttrOfType<IntegerAttr>(kPrimalAttr).getInt();
      for (Operation *made = before->getNextNode(); made != terminator;
           made = made->getNextNode())
        setPhase(made, "backward", primal);
    }
    packAgain(entry, lastForward);

    // One result per trained parameter, in argument order.
    auto program = cast<ProgramOp>(entry->getParentOp());
    SmallVector<Value> returned(terminator.getOperands());
    SmallVector<DictionaryAttr> resultAttrs;
    entry.getAllResultAttrs(resultAttrs);
    resultAttrs.resize(returned.size(), builder.getDictionaryAttr({}));
    SmallVector<Type> resultTypes(entry.getResultTypes());
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      if (argumentRole(entry, i) != "parameter")
        continue;
      FlatSymbolRefAttr of = argumentOf(entry, i);
      auto parameter = program.lookupSymbol<ParameterOp>(of.getAttr());
      if (!parameter)
        return entry.emitError("argument ") << i << " refers to no parameter " << of;
      if (!parameter.getTrained())
        continue;
      Value cotangent = cotangents.lookup(entry.getArgument(i));
      if (!cotangent)
        return parameter.emitError("does not influence the loss; mark it "
                                   "trained = false or remove it");
      returned.push_back(cotangent);
      resultTypes.push_back(cotangent.getType());
      resultAttrs.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr(kRoleAttr, builder.getStringAttr("gradient")),
           builder.getNamedAttr(kOfAttr, of)}));
    }
    ReturnOp::create(builder, terminator.getLoc(), returned);
    terminator.erase();
    entry.setFunctionType(
        builder.getFunctionType(entry.getArgumentTypes(), resultTypes));
    entry.setAllResultAttrs(resultAttrs);
    return success();
  }
};

} // namespace
