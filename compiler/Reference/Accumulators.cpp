//===- Accumulators.cpp - Meanings of sums over data ----------------------===//
//
// Accumulators and exact scalars are the real sums that they stand for.
//
//===----------------------------------------------------------------------===//

#include "compiler/Reference/Frame.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static LogicalResult accumulateDot(AccumulateDotOp op, Frame &frame) {
  const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
  auto dataDims = static_cast<int64_t>(op.getDataDims());
  if (ArrayRef<int64_t>(lhs.shape).take_front(dataDims) !=
      ArrayRef<int64_t>(rhs.shape).take_front(dataDims))
    return frame.fail() << "contracts data of different run-time shapes";
  int64_t terms = lhs.sizeOf(0, dataDims);
  int64_t rows = lhs.sizeOf(dataDims, lhs.rank());
  int64_t columns = rhs.sizeOf(dataDims, rhs.rank());
  Tensor result = frame.get(op.getAccumulator());
  for (int64_t k = 0; k < terms; ++k)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        result.reals[i * columns + j] +=
            lhs.reals[k * rows + i] * rhs.reals[k * columns + j];
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult accumulateRows(AccumulateRowsOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  auto dataDims = static_cast<int64_t>(op.getDataDims());
  int64_t terms = input.sizeOf(0, dataDims);
  int64_t columns = input.sizeOf(dataDims, input.rank());
  Tensor result = frame.get(op.getAccumulator());
  for (int64_t k = 0; k < terms; ++k)
    for (int64_t j = 0; j < columns; ++j)
      result.reals[j] += input.reals[k * columns + j];
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult accumulateScatter(AccumulateScatterOp op, Frame &frame) {
  const Tensor &ids = frame.get(op.getIds());
  const Tensor &updates = frame.get(op.getUpdates());
  if (ArrayRef<int64_t>(updates.shape).take_front(ids.rank()) !=
      ArrayRef<int64_t>(ids.shape))
    return frame.fail() << "has updates that do not begin with the run-time "
                           "shape of the ids";
  int64_t columns = updates.sizeOf(ids.rank(), updates.rank());
  Tensor result = frame.get(op.getAccumulator());
  for (int64_t k = 0; k < ids.size(); ++k) {
    int64_t row = ids.integers[k];
    if (row < 0 || row >= result.shape[0])
      continue;
    for (int64_t j = 0; j < columns; ++j)
      result.reals[row * columns + j] += updates.reals[k * columns + j];
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult exactSum(ExactSumOp op, Frame &frame) {
  ExactSum sum;
  sum.add(frame.get(op.getAccumulator()).reals[0]);
  for (double x : frame.get(op.getInput()).reals)
    sum.add(op.getSquare() ? x * x : x);
  Tensor result = Tensor::zeros({});
  result.reals[0] = sum.value();
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult countLabels(CountLabelsOp op, Frame &frame) {
  Tensor result = frame.get(op.getAccumulator());
  for (int64_t label : frame.get(op.getLabels()).integers)
    result.integers[0] += label != static_cast<int64_t>(op.getIgnore());
  frame.set(op.getResult(), std::move(result));
  return success();
}

/// A count of zero divides zero by zero: steps without a token are refused
/// before they use the result.
static LogicalResult resolve(ResolveOp op, Frame &frame) {
  Tensor result = frame.get(op.getAccumulator());
  auto count = static_cast<double>(frame.get(op.getCount()).integers[0]);
  for (double &x : result.reals)
    x /= count;
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult roundExact(RoundExactOp op, Frame &frame) {
  frame.set(op.getResult(), Tensor(frame.get(op.getInput())));
  return success();
}

void mlir::mixle::reference::addAccumulators(Meanings &meanings) {
  meanings.add(accumulateDot);
  meanings.add(accumulateRows);
  meanings.add(accumulateScatter);
  meanings.add(exactSum);
  meanings.add(countLabels);
  meanings.add(resolve);
  meanings.add(roundExact);
}
