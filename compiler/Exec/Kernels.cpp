//===- Kernels.cpp - Which ops become which kernel ------------------------===//

#include "compiler/Exec/Lowering.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::exec;

/// Ops that every kernel makes again for itself rather than reading a buffer.
bool EntryLowering::isCheap(Operation *op) {
  return isa<mx::ConstantOp, mx::BroadcastOp, mx::IotaOp, mx::SliceOp, mx::PadOp>(
      op);
}

bool EntryLowering::isPointwise(Operation *op) {
  return isa<mx::PointwiseOpInterface>(op);
}

static bool isOptimizerStep(Operation *op) {
  return isa<mx::SgdStepOp, mx::AdamStepOp>(op);
}

LogicalResult EntryLowering::addToGroup(Operation *op) {
  auto shapeOf = [](Operation *o) {
    return cast<RankedTensorType>(o->getResult(0).getType()).getShape();
  };
  // A kernel has one iteration space; optimizer steps stay apart, so that
  // parameters of one shape share a kernel.
  if (!group.empty() && (shapeOf(group.front()) != shapeOf(op) ||
                         isOptimizerStep(group.front()) || isOptimizerStep(op)))
    if (failed(flushGroup()))
      return failure();
  group.push_back(op);
  return success();
}

LogicalResult EntryLowering::flushGroup() {
  if (group.empty())
    return success();
  SmallVector<Operation *> ops;
  ops.swap(group);
  return launch(ops);
}

namespace {

/// Copies ops into a kernel; values from outside become its inputs.
struct KernelBuilder {
  OpBuilder &builder;
  Block *body;
  IRMapping mapping;
  SmallVector<Value> inputs;
  function_ref<bool(Operation *)> isCheap;

  Value input(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Value argument = body->addArgument(value.getType(), builder.getUnknownLoc());
    mapping.map(value, argument);
    inputs.push_back(value);
    return argument;
  }

  /// A value in the kernel with the shape of `like`, whose data is not needed.
  Value shapeOf(Value like) {
    if (Value known = mapping.lookupOrNull(like))
      return known;
    auto shape = cast<RankedTensorType>(like.getType()).getShape();
    for (Value argument : body->getArguments())
      if (cast<RankedTensorType>(argument.getType()).getShape() == shape)
        return argument;
    for (Operation &op : *body)
      for (Value result : op.getResults())
        if (cast<RankedTensorType>(result.getType()).getShape() == shape)
          return result;
    return input(like);
  }

  void map(Value value) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    if (!op || !isCheap(op)) {
      input(value);
      return;
    }
    if (auto broadcast = dyn_cast<mx::BroadcastOp>(op)) {
      map(broadcast.getInput());
      Value like = shapeOf(broadcast.getLike());
      auto copy = mx::BroadcastOp::create(
          builder, builder.getUnknownLoc(), broadcast.getType(),
          mapping.lookup(broadcast.getInput()), like,
          broadcast.getDimensionsAttr());
      mapping.map(value, copy.getResult());
      return;
    }
    clone(op);
  }

  void clone(Operation *op) {
    for (Value operand : op->getOperands())
      map(operand);
    Operation *copy = builder.clone(*op, mapping);
    copy->setLoc(builder.getUnknownLoc());
    for (NamedAttribute attribute :
         llvm::to_vector(copy->getDiscardableAttrs()))
      copy->removeAttr(attribute.getName());
  }
};

/// The input whose last dimension a plan may split, or null.
Value splitOperand(Operation *op) {
  if (isa<mx::RowMaxOp, mx::RowGranuleSumsOp, mx::SoftmaxCrossEntropyGradOp,
          mx::SoftmaxScaleOp>(op))
    return op->getOperand(0);
  return Value();
}

} // namespace

LogicalResult EntryLowering::launch(ArrayRef<Operation *> ops) {
  OpBuilder kernelBuilder(entry.getContext());
  kernelBuilder.setInsertionPointToEnd(&program.target.getBody().front());
  auto kernel = KernelOp::create(kernelBuilder, entry.getLoc(), "kernel",
                                 kernelBuilder.getFunctionType({}, {}));
  kernel->setLoc(kernelBuilder.getUnknownLoc());
  Block *body = &kernel.getBody().front();
  OpBuilder inner = OpBuilder::atBlockBegin(body);
  auto cheap = [this](Operation *op) { return isCheap(op); };
  KernelBuilder build{inner, body, {}, {}, cheap};

  llvm::SmallPtrSet<Operation *, 8> members(ops.begin(), ops.end());
  SmallVector<ScalarAttr> scalars = {program.rows(1)};
  // Buffers first: a cheap operand may take its shape from them.
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      bool shapeOnly = isa<mx::BroadcastOp>(op) && op->getOperand(1) == operand;
      if (!shapeOnly && (!maker || (!isCheap(maker) && !members.contains(maker))))
        build.input(operand);
    }
  for (Operation *op : ops) {
    if (isCheap(op) && op->getNumResults() == 1)
      build.map(op->getResult(0));
    else
      build.clone(op);
    if (Value split = splitOperand(op)) {
      auto [valid, offset] =
          owned(split, cast<RankedTensorType>(split.getType()).getRank() - 1);
      scalars.append({valid, offset});
    }
  }

  SmallVector<Value> outputs, yielded;
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      // Made because someone asked for it, or bound to a buffer beforehand.
      bool outside = isCheap(op) || buffers.count(result);
      for (Operation *user : result.getUsers())
        outside |= !members.contains(user);
      if (!outside)
        continue;
      outputs.push_back(result);
      yielded.push_back(build.mapping.lookup(result));
    }
  YieldOp::create(inner, inner.getUnknownLoc(), yielded);
  SmallVector<Type> inputTypes(body->getArgumentTypes()), outputTypes;
  for (Value v : yielded)
    outputTypes.push_back(v.getType());
  kernel.setFunctionType(kernelBuilder.getFunctionType(inputTypes, outputTypes));

  SmallVector<Attribute> arguments;
  for (Value v : build.inputs)
    arguments.push_back(bufferOf(v));
  for (Value v : outputs) {
    auto it = destinations.find(v);
    if (it != destinations.end()) {
      guardCommit();
      bind(v, it->second);
    } else if (!buffers.count(v)) {
      bind(v, scratch(v.getType()));
    }
    arguments.push_back(buffers[v]);
  }
  SmallVector<Attribute> scalarAttrs(scalars.begin(), scalars.end());
  FlatSymbolRefAttr name = program.uniqueKernel(kernel);
  LaunchOp::create(builder, ops.front()->getLoc(), name,
                   builder.getArrayAttr(arguments),
                   builder.getArrayAttr(scalarAttrs));
  return success();
}

FlatSymbolRefAttr EntryLowering::materialize(Value value) {
  Operation *op = value.getDefiningOp();
  assert(op && (isCheap(op) || (schedule && dist::stagesOf(op).empty())) &&
         "every other value has a buffer");
  if (isCheap(op) || isPointwise(op))
    (void)launch({op});
  else
    (void)lowerOp(op);
  if (schedule)
    madeInPhase.push_back(value);
  return buffers[value];
}
