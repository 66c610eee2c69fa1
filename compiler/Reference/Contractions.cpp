//===- Contractions.cpp - Meanings of sums, products and lookups ----------===//

#include "compiler/Reference/Frame.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static LogicalResult reduce(ReduceOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  bool max = op.getKind() == "max";
  SmallVector<int64_t> shape, kept;
  for (int64_t d = 0; d < input.rank(); ++d)
    if (!llvm::is_contained(op.getDimensions(), d)) {
      kept.push_back(d);
      shape.push_back(input.shape[d]);
    }
  Tensor result = Tensor::zeros(shape);
  // The maximum of nothing is -inf.
  if (max)
    for (double &x : result.reals)
      x = -std::numeric_limits<double>::infinity();
  SmallVector<int64_t> strides = stridesOf(shape);
  forEachIndex(input.shape, [&](ArrayRef<int64_t> index, int64_t position) {
    int64_t target = 0;
    for (auto [i, d] : llvm::enumerate(kept))
      target += strides[i] * index[d];
    double x = input.reals[position];
    double &held = result.reals[target];
    if (!max)
      held += x;
    else if (std::isnan(x) || x > held)
      held = std::isnan(held) ? held : x;
  });
  frame.set(op.getResult(), std::move(result));
  return success();
}

namespace {

/// One operand of a contraction: for each of its dimensions, the loop (of the
/// result's dimensions, then the contracted ones) that runs over it.
struct LoopedOperand {
  SmallVector<int64_t> loops;
  SmallVector<int64_t> strides;

  LoopedOperand(const Tensor &tensor)
      : loops(tensor.shape.size(), -1), strides(stridesOf(tensor.shape)) {}

  int64_t position(ArrayRef<int64_t> result, ArrayRef<int64_t> contracted) const {
    int64_t at = 0;
    auto rank = static_cast<int64_t>(result.size());
    for (size_t d = 0; d < loops.size(); ++d)
      at += strides[d] * (loops[d] < rank ? result[loops[d]]
                                          : contracted[loops[d] - rank]);
    return at;
  }
};

} // namespace

static LogicalResult dotGeneral(DotGeneralOp op, Frame &frame) {
  const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
  LoopedOperand left(lhs), right(rhs);
  SmallVector<int64_t> shape, contracted;
  auto pair = [&](ArrayRef<int64_t> a, ArrayRef<int64_t> b) -> LogicalResult {
    for (auto [i, j] : llvm::zip(a, b))
      if (lhs.shape[i] != rhs.shape[j])
        return frame.fail() << "pairs dimension " << i << " of run-time size "
                            << lhs.shape[i] << " with dimension " << j
                            << " of run-time size " << rhs.shape[j];
    return success();
  };
  if (failed(pair(op.getLhsBatch(), op.getRhsBatch())) ||
      failed(pair(op.getLhsContract(), op.getRhsContract())))
    return failure();

  for (auto [i, j] : llvm::zip(op.getLhsBatch(), op.getRhsBatch())) {
    left.loops[i] = right.loops[j] = static_cast<int64_t>(shape.size());
    shape.push_back(lhs.shape[i]);
  }
  auto addFree = [&](const Tensor &tensor, LoopedOperand &operand,
                     ArrayRef<int64_t> used) {
    for (int64_t d = 0; d < tensor.rank(); ++d) {
      if (operand.loops[d] >= 0 || llvm::is_contained(used, d))
        continue;
      operand.loops[d] = static_cast<int64_t>(shape.size());
      shape.push_back(tensor.shape[d]);
    }
  };
  addFree(lhs, left, op.getLhsContract());
  addFree(rhs, right, op.getRhsContract());
  for (auto [i, j] : llvm::zip(op.getLhsContract(), op.getRhsContract())) {
    left.loops[i] = right.loops[j] =
        static_cast<int64_t>(shape.size() + contracted.size());
    contracted.push_back(lhs.shape[i]);
  }

  Tensor result = Tensor::zeros(shape);
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t position) {
    double sum = 0;
    forEachIndex(contracted, [&](ArrayRef<int64_t> inner, int64_t) {
      sum += lhs.reals[left.position(index, inner)] *
             rhs.reals[right.position(index, inner)];
    });
    result.reals[position] = sum;
  });
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult embedding(EmbeddingOp op, Frame &frame) {
  const Tensor &table = frame.get(op.getTable()), &ids = frame.get(op.getIds());
  int64_t width = table.sizeOf(1, table.rank());
  SmallVector<int64_t> shape(ids.shape);
  shape.append(table.shape.begin() + 1, table.shape.end());
  Tensor result = Tensor::zeros(shape);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t row = ids.integers[i];
    if (row < 0 || row >= table.shape[0])
      continue;
    for (int64_t c = 0; c < width; ++c)
      result.reals[i * width + c] = table.reals[row * width + c];
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult scatterAdd(ScatterAddOp op, Frame &frame) {
  const Tensor &ids = frame.get(op.getIds());
  const Tensor &updates = frame.get(op.getUpdates());
  if (ArrayRef<int64_t>(updates.shape).take_front(ids.rank()) !=
      ArrayRef<int64_t>(ids.shape))
    return frame.fail() << "has updates that do not begin with the run-time "
                           "shape of the ids";
  auto rows = static_cast<int64_t>(op.getRows());
  int64_t width = updates.sizeOf(ids.rank(), updates.rank());
  SmallVector<int64_t> shape{rows};
  shape.append(updates.shape.begin() + ids.rank(), updates.shape.end());
  Tensor result = Tensor::zeros(shape);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t row = ids.integers[i];
    if (row < 0 || row >= rows)
      continue;
    for (int64_t c = 0; c < width; ++c)
      result.reals[row * width + c] += updates.reals[i * width + c];
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

void mlir::mixle::reference::addContractions(Meanings &meanings) {
  meanings.add(reduce);
  meanings.add(dotGeneral);
  meanings.add(embedding);
  meanings.add(scatterAdd);
}
