//===- Shapes.cpp - Meanings of constants and of ops that move elements ---===//

#include "compiler/Reference/Frame.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

/// Zeros of `shape` that hold what `like` holds.
Tensor emptyLike(const Tensor &like, ArrayRef<int64_t> shape) {
  return like.integral ? Tensor::integerZeros(shape) : Tensor::zeros(shape);
}

void copyElement(const Tensor &from, int64_t source, Tensor &to,
                 int64_t target) {
  if (from.integral)
    to.integers[target] = from.integers[source];
  else
    to.reals[target] = from.reals[source];
}

/// Copies `source` into `target` so that the former's index 0 along
/// `dimension` lands at `offset`. Elements outside `target` are dropped.
void place(const Tensor &source, Tensor &target, int64_t dimension,
           int64_t offset) {
  SmallVector<int64_t> strides = stridesOf(target.shape);
  forEachIndex(source.shape, [&](ArrayRef<int64_t> index, int64_t position) {
    int64_t moved = index[dimension] + offset;
    if (moved < 0 || moved >= target.shape[dimension])
      return;
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += strides[d] * (static_cast<int64_t>(d) == dimension ? moved
                                                               : index[d]);
    copyElement(source, position, target, at);
  });
}

} // namespace

static LogicalResult constant(ConstantOp op, Frame &frame) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements)
    return frame.fail() << "holds " << op.getValue()
                        << ", the interpreter reads dense elements only";
  auto type = op.getResult().getType();
  if (type.getElementType().isInteger()) {
    Tensor result = Tensor::integerZeros(type.getShape());
    // A boolean is one bit, and true is 1.
    bool boolean = type.getElementType().isInteger(1);
    for (auto [i, value] : llvm::enumerate(elements.getValues<APInt>()))
      result.integers[i] = boolean ? static_cast<int64_t>(value.getZExtValue())
                                   : value.getSExtValue();
    frame.set(op.getResult(), std::move(result));
    return success();
  }
  Tensor result = Tensor::zeros(type.getShape());
  for (auto [i, value] : llvm::enumerate(elements.getValues<APFloat>()))
    result.reals[i] = value.convertToDouble();
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult iota(IotaOp op, Frame &frame) {
  Tensor result = Tensor::integerZeros(op.getResult().getType().getShape());
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t position) {
    result.integers[position] = index[op.getDimension()];
  });
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult broadcast(BroadcastOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  const Tensor &target = frame.get(op.getLike());
  for (auto [i, d] : llvm::enumerate(op.getDimensions()))
    if (input.shape[i] != target.shape[d])
      return frame.fail() << "dimension " << i << " has run-time size "
                          << input.shape[i] << ", dimension " << d
                          << " of the target has " << target.shape[d];
  Tensor result = emptyLike(input, target.shape);
  SmallVector<int64_t> strides = stridesOf(input.shape);
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index, int64_t position) {
    int64_t source = 0;
    for (auto [i, d] : llvm::enumerate(op.getDimensions()))
      source += strides[i] * index[d];
    copyElement(input, source, result, position);
  });
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult reshape(ReshapeOp op, Frame &frame) {
  Tensor result = frame.get(op.getInput());
  auto type = op.getResult().getType();
  int64_t rows = result.rank() ? result.shape[0] : 1;
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  if (type.getRank() && type.isDynamicDim(0))
    result.shape[0] = rows; // (S1): the rows stay the rows
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult transpose(TransposeOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  SmallVector<int64_t> shape, inputStrides = stridesOf(input.shape), strides;
  for (int64_t d : op.getPermutation()) {
    shape.push_back(input.shape[d]);
    strides.push_back(inputStrides[d]);
  }
  Tensor result = emptyLike(input, shape);
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t position) {
    int64_t source = 0;
    for (size_t d = 0; d < index.size(); ++d)
      source += strides[d] * index[d];
    copyElement(input, source, result, position);
  });
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult slice(SliceOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  auto dimension = static_cast<int64_t>(op.getDimension());
  SmallVector<int64_t> shape(input.shape);
  shape[dimension] = static_cast<int64_t>(op.getLimit() - op.getStart());
  Tensor result = emptyLike(input, shape);
  place(input, result, dimension, -static_cast<int64_t>(op.getStart()));
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult pad(PadOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  auto dimension = static_cast<int64_t>(op.getDimension());
  SmallVector<int64_t> shape(input.shape);
  shape[dimension] += static_cast<int64_t>(op.getLow() + op.getHigh());
  Tensor result = emptyLike(input, shape);
  place(input, result, dimension, static_cast<int64_t>(op.getLow()));
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult concat(ConcatOp op, Frame &frame) {
  auto dimension = static_cast<int64_t>(op.getDimension());
  SmallVector<int64_t> shape(frame.get(op.getInputs().front()).shape);
  shape[dimension] = 0;
  for (Value value : op.getInputs()) {
    const Tensor &input = frame.get(value);
    for (int64_t d = 0; d < input.rank(); ++d)
      if (d != dimension && input.shape[d] != shape[d])
        return frame.fail() << "joins run-time sizes " << shape[d] << " and "
                            << input.shape[d] << " of dimension " << d;
    shape[dimension] += input.shape[dimension];
  }
  Tensor result = emptyLike(frame.get(op.getInputs().front()), shape);
  int64_t offset = 0;
  for (Value value : op.getInputs()) {
    place(frame.get(value), result, dimension, offset);
    offset += frame.get(value).shape[dimension];
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

void mlir::mixle::reference::addShapes(Meanings &meanings) {
  meanings.add(constant);
  meanings.add(iota);
  meanings.add(broadcast);
  meanings.add(reshape);
  meanings.add(transpose);
  meanings.add(slice);
  meanings.add(pad);
  meanings.add(concat);
}
