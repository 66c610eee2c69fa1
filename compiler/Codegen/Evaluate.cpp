//===- Evaluate.cpp - Elements of tensors on demand -----------------------===//

#include "compiler/Codegen/KernelEmitter.h"
#include "compiler/Codegen/Pointwise.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::codegen;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool codegen::takesColumnScalars(Operation *op) {
  return isa<RowMaxOp, RowGranuleSumsOp, SoftmaxCrossEntropyGradOp,
             SoftmaxScaleOp>(op);
}

//===----------------------------------------------------------------------===//
// What a kernel may hold
//===----------------------------------------------------------------------===//

static LogicalResult checkTensor(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return op->emitOpError("has a ")
           << type << " in a kernel; only ranked tensors can be compiled";
  if (!isa<Float32Type, Float64Type>(tensor.getElementType()) &&
      !tensor.getElementType().isInteger(1) &&
      !tensor.getElementType().isInteger(32) &&
      !tensor.getElementType().isInteger(64))
    return op->emitOpError("has elements of type ")
           << tensor.getElementType()
           << " in a kernel; expected f32, f64, i1, i32 or i64";
  return success();
}

/// Buffers' dimensions are static but for the first.
static LogicalResult checkBuffer(Operation *op, Type type) {
  if (failed(checkTensor(op, type)))
    return failure();
  auto tensor = cast<RankedTensorType>(type);
  for (int64_t d = 1; d < tensor.getRank(); ++d)
    if (tensor.isDynamicDim(d))
      return op->emitOpError("has a buffer ")
             << tensor << " with a dynamic dimension " << d
             << "; only the first may be the number of rows";
  return success();
}

static LogicalResult checkOp(Operation *op) {
  for (Type type : op->getOperandTypes())
    if (failed(checkTensor(op, type)))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(checkTensor(op, type)))
      return failure();
  if (canEmitPointwise(op) || takesColumnScalars(op) ||
      isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp, IotaOp,
          RotaryOp, exec::YieldOp>(op))
    return success();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (isa<DenseElementsAttr>(constant.getValue()))
      return success();
    return op->emitOpError("in a kernel must have a dense value");
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    for (int64_t d : reduce.getDimensions())
      if (tensorOf(reduce.getInput()).isDynamicDim(d))
        return op->emitOpError("reduces rows, dimension ")
               << d << "; a sum over rows is an accumulator's, not a kernel's";
    return success();
  }
  if (isa<LayerNormOp, LayerNormGradOp, RmsNormOp, RmsNormGradOp>(op)) {
    if (tensorOf(op->getOperand(0)).getShape().back() == ShapedType::kDynamic)
      return op->emitOpError("in a kernel needs a static last dimension");
    return success();
  }
  return op->emitOpError("cannot be compiled into a kernel; it runs as a call "
                         "of the runtime");
}

LogicalResult codegen::checkKernel(exec::KernelOp kernel) {
  if (!llvm::hasSingleElement(kernel.getBody()) ||
      kernel.getBody().front().empty() ||
      !isa<exec::YieldOp>(kernel.getBody().front().back()))
    return kernel.emitOpError("needs a body of one block that ends in exec.yield");
  Block &body = kernel.getBody().front();
  Operation *yield = &body.back();
  if (TypeRange(kernel.getFunctionType().getInputs()) !=
      TypeRange(body.getArgumentTypes()))
    return kernel.emitOpError("has arguments that do not match its type ")
           << kernel.getFunctionType();
  if (TypeRange(kernel.getFunctionType().getResults()) !=
      TypeRange(yield->getOperandTypes()))
    return yield->emitOpError("yields types that do not match the kernel's ")
           << kernel.getFunctionType();
  for (Type type : body.getArgumentTypes())
    if (failed(checkBuffer(kernel, type)))
      return failure();
  for (Type type : yield->getOperandTypes())
    if (failed(checkBuffer(kernel, type)))
      return failure();
  for (Operation &op : body)
    if (failed(checkOp(&op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Value KernelEmitter::evaluate(Value tensor, ArrayRef<Index> indices,
                              const Conditions &conditions) {
  // A condition says where an element exists; it matters to those indices only
  // that move with it.
  SmallVector<unsigned> loops;
  for (const Index &index : indices)
    space.collectLoops(index, loops);
  Conditions kept;
  for (const Condition &condition : conditions) {
    SmallVector<unsigned> used;
    space.collectLoops(condition.index, used);
    if (llvm::any_of(used, [&](unsigned term) {
          return llvm::is_contained(loops, term);
        }))
      kept.push_back(condition);
  }
  Level *level = levelOf(indices, kept);
  auto key = std::make_tuple(tensor.getAsOpaquePointer(), Indices(indices), kept);
  auto known = level->values.find(key);
  if (known != level->values.end())
    return known->second;
  Value value = compute(level, tensor, indices, kept);
  level->values[key] = value;
  return value;
}

SmallVector<Value>
KernelEmitter::computePointwise(Level *level, Operation *op,
                                ArrayRef<Index> indices,
                                const Conditions &conditions) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    // The scalars of optimizer steps have no dimensions.
    bool scalar = tensorOf(operand).getRank() == 0;
    operands.push_back(scalar ? evaluate(operand, {}, {})
                              : evaluate(operand, indices, conditions));
  }
  at(level);
  return emitPointwise(ops, op, operands,
                       [&](function_ref<void()> code) { on(root, code); });
}

Value KernelEmitter::compute(Level *level, Value tensor,
                             ArrayRef<Index> indices,
                             const Conditions &conditions) {
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    unsigned number = argument.getArgNumber();
    accesses.push_back({current, number, Indices(indices)});
    auto type = tensorOf(tensor);
    return load(level, inputs[number], type.getElementType(),
                space.linearize(indices, type.getShape()), conditions);
  }
  Operation *op = tensor.getDefiningOp();
  unsigned result = cast<OpResult>(tensor).getResultNumber();
  if (canEmitPointwise(op)) {
    SmallVector<Value> values =
        computePointwise(level, op, indices, conditions);
    for (auto [value, made] : llvm::zip(op->getResults(), values))
      level->values[{value.getAsOpaquePointer(), Indices(indices), conditions}] =
          made;
    return values[result];
  }
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](BroadcastOp op) {
        Indices from;
        for (int64_t d : op.getDimensions())
          from.push_back(indices[d]);
        return evaluate(op.getInput(), from, conditions);
      })
      .Case([&](TransposeOp op) {
        Indices from(indices.size());
        for (auto [i, d] : llvm::enumerate(op.getPermutation()))
          from[d] = indices[i];
        return evaluate(op.getInput(), from, conditions);
      })
      .Case([&](SliceOp op) {
        Indices from(indices);
        from[op.getDimension()] =
            from[op.getDimension()] + static_cast<int64_t>(op.getStart());
        return evaluate(op.getInput(), from, conditions);
      })
      .Case([&](ReshapeOp op) {
        Index where = space.linearize(indices, tensorOf(tensor).getShape());
        return evaluate(
            op.getInput(),
            space.delinearize(where, tensorOf(op.getInput()).getShape()),
            conditions);
      })
      .Case([&](IotaOp op) {
        at(level);
        Value index = indexValue(indices[op.getDimension()]);
        return ops.convert<LLVM::TruncOp>(index,
                                          tensorOf(tensor).getElementType());
      })
      .Case([&](ConstantOp op) {
        return computeConstant(level, op, indices, conditions);
      })
      .Case([&](PadOp op) { return computePad(level, op, indices, conditions); })
      .Case([&](ConcatOp op) {
        return computeConcat(level, op, indices, conditions);
      })
      .Case([&](RotaryOp op) {
        return computeRotary(level, op, indices, conditions);
      })
      .Case([&](ReduceOp op) {
        return computeReduce(level, op, indices, conditions);
      })
      .Case([&](LayerNormOp op) {
        return computeLayerNorm(level, op, result, indices, conditions);
      })
      .Case([&](LayerNormGradOp op) {
        return computeLayerNormGrad(level, op, result, indices, conditions);
      })
      .Case([&](RmsNormOp op) {
        return computeRmsNorm(level, op, result, indices, conditions);
      })
      .Case([&](RmsNormGradOp op) {
        return computeRmsNormGrad(level, op, result, indices, conditions);
      })
      .Case([&](RowMaxOp op) {
        return computeRowMax(level, op, indices, conditions);
      })
      .Case([&](RowGranuleSumsOp op) {
        return computeGranuleSums(level, op, indices, conditions);
      })
      .Case([&](SoftmaxCrossEntropyGradOp op) {
        return computeCrossEntropyGrad(level, op, indices, conditions);
      })
      .Case([&](SoftmaxScaleOp op) {
        return computeSoftmaxScale(level, op, indices, conditions);
      });
}

Value KernelEmitter::computePad(Level *level, PadOp op, ArrayRef<Index> indices,
                                const Conditions &conditions) {
  Type element = tensorOf(op.getResult()).getElementType();
  int64_t d = op.getDimension();
  int64_t size = tensorOf(op.getInput()).getDimSize(d);
  Value zero = ops.numberOf(element, 0);
  if (size == 0)
    return zero;
  Indices from(indices);
  from[d] = from[d] + -static_cast<int64_t>(op.getLow());
  Condition inside{from[d], 0, size};
  if (space.alwaysHolds(inside))
    return evaluate(op.getInput(), from, conditions);
  Conditions all(conditions);
  all.push_back(inside);
  Value value = evaluate(op.getInput(), from, all);
  at(level);
  return ops.select(conditionValue({inside}), value, zero);
}

Value KernelEmitter::computeConcat(Level *level, ConcatOp op,
                                   ArrayRef<Index> indices,
                                   const Conditions &conditions) {
  int64_t d = op.getDimension(), start = 0;
  Value result;
  for (Value input : op.getInputs()) {
    int64_t size = tensorOf(input).getDimSize(d);
    if (size == 0)
      continue;
    Indices from(indices);
    from[d] = from[d] + -start;
    Condition inside{from[d], 0, size};
    if (space.alwaysHolds(inside))
      return evaluate(input, from, conditions);
    Conditions all(conditions);
    all.push_back(inside);
    Value value = evaluate(input, from, all);
    at(level);
    // Later parts overrule earlier ones from their start on.
    Value later =
        result ? conditionValue({Condition{
                     indices[d], start, std::numeric_limits<int64_t>::max()}})
               : Value();
    result = result ? ops.select(later, value, result) : value;
    start += size;
  }
  if (!result)
    result = ops.numberOf(tensorOf(op.getResult()).getElementType(), 0);
  return result;
}

Value KernelEmitter::computeRotary(Level *level, RotaryOp op,
                                   ArrayRef<Index> indices,
                                   const Conditions &conditions) {
  auto type = tensorOf(op.getInput());
  int64_t half = type.getShape().back() / 2;
  // The column in its half, and its partner in the other one.
  auto [which, column] = space.divide(indices.back(), half);
  Indices partner(indices);
  partner.back() = column + which * -half + half;
  Value x = evaluate(op.getInput(), indices, conditions);
  Value y = evaluate(op.getInput(), partner, conditions);
  Index table[] = {indices[1], column};
  Value cosine = evaluate(op.getCos(), table, conditions);
  Value sine = evaluate(op.getSin(), table, conditions);
  at(level);
  Value first = conditionValue({Condition{which, 0, 1}});
  Value minus = ops.fneg(sine);
  sine = op.getInverse() ? ops.select(first, sine, minus)
                         : ops.select(first, minus, sine);
  Value turned = ops.fma(x, cosine, ops.fmul(y, sine));
  if (!op.getRotated())
    return turned;
  Condition rotated{indices[indices.size() - 2], 0,
                    static_cast<int64_t>(*op.getRotated())};
  if (space.alwaysHolds(rotated))
    return turned;
  return ops.select(conditionValue({rotated}), turned, x);
}

Value KernelEmitter::globalOf(ConstantOp op) {
  auto value = cast<DenseElementsAttr>(op.getValue());
  LLVM::GlobalOp &global = globals[op];
  if (!global) {
    Type element = value.getElementType();
    int64_t count = value.getNumElements();
    DenseElementsAttr data = value.reshape(RankedTensorType::get({count}, element));
    if (element.isInteger(1)) {
      element = b.getI8Type();
      SmallVector<int8_t> bytes;
      for (bool bit : value.getValues<bool>())
        bytes.push_back(bit);
      data = DenseElementsAttr::get(RankedTensorType::get({count}, element),
                                    ArrayRef<int8_t>(bytes));
    }
    std::string name = (kernel.getSymName() + ".literal" +
                        Twine(globals.size() - 1)).str();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    global = LLVM::GlobalOp::create(
        b, ops.loc, LLVM::LLVMArrayType::get(element, count),
        /*isConstant=*/true, LLVM::Linkage::Internal, name, data,
        /*alignment=*/64);
  }
  return LLVM::AddressOfOp::create(b, ops.loc, global);
}

Value KernelEmitter::computeConstant(Level *level, ConstantOp op,
                                     ArrayRef<Index> indices,
                                     const Conditions &conditions) {
  auto value = cast<DenseElementsAttr>(op.getValue());
  Type element = value.getElementType();
  if (value.getNumElements() == 0)
    return ops.numberOf(element, 0);
  if (value.isSplat())
    return ops.constant(element, value.getSplatValue<Attribute>());
  Value base;
  on(root, [&] { base = globalOf(op); });
  return load(level, base, element,
              space.linearize(indices, tensorOf(op.getResult()).getShape()),
              conditions);
}
