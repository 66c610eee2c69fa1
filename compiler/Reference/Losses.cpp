//===- Losses.cpp - Meanings of ops over rows of logits -------------------===//

#include "compiler/Reference/Frame.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

/// A tensor [..., V] as rows of columns.
struct LogitRows {
  const double *data;
  int64_t rows, columns;
  SmallVector<int64_t> shape; ///< Of one value per row.

  LogitRows(const Tensor &tensor)
      : data(tensor.reals.data()), rows(tensor.sizeOf(0, tensor.rank() - 1)),
        columns(tensor.shape.back()),
        shape(ArrayRef<int64_t>(tensor.shape).drop_back()) {}

  const double *row(int64_t r) const { return data + r * columns; }

  double maximum(int64_t r) const {
    double largest = -HUGE_VAL;
    for (int64_t c = 0; c < columns; ++c) {
      if (std::isnan(row(r)[c]))
        return row(r)[c];
      largest = std::max(largest, row(r)[c]);
    }
    return largest;
  }

  /// sum(exp(x - maximum)), 0 where the maximum is -inf.
  double sumExp(int64_t r, double maximum) const {
    double sum = 0;
    if (maximum == -HUGE_VAL)
      return sum;
    for (int64_t c = 0; c < columns; ++c)
      sum += std::exp(row(r)[c] - maximum);
    return sum;
  }

  /// The element that a label selects, zero outside the columns.
  double select(int64_t r, int64_t label) const {
    return label >= 0 && label < columns ? row(r)[label] : 0;
  }
};

double logAdd(double maximum, double sum) {
  return maximum == -HUGE_VAL ? maximum : maximum + std::log(sum);
}

/// An error unless `value` has one element per row.
LogicalResult checkRows(const LogitRows &logits, Value value, Frame &frame) {
  if (frame.get(value).shape == logits.shape)
    return success();
  return frame.fail() << "has an operand of another run-time shape than the "
                         "rows of its first";
}

} // namespace

/// One value per row, from the row alone.
template <typename Function>
static void perRow(const LogitRows &logits, Value result, Frame &frame,
                   Function function) {
  Tensor values = Tensor::zeros(logits.shape);
  for (int64_t r = 0; r < logits.rows; ++r)
    values.reals[r] = function(r);
  frame.set(result, std::move(values));
}

static LogicalResult softmaxCrossEntropy(SoftmaxCrossEntropyOp op,
                                         Frame &frame) {
  LogitRows logits(frame.get(op.getLogits()));
  if (failed(checkRows(logits, op.getLabels(), frame)))
    return failure();
  const Tensor &labels = frame.get(op.getLabels());
  perRow(logits, op.getResult(), frame, [&](int64_t r) {
    int64_t label = labels.integers[r];
    if (label == static_cast<int64_t>(op.getIgnore()))
      return 0.0;
    double maximum = logits.maximum(r);
    return logAdd(maximum, logits.sumExp(r, maximum)) - logits.select(r, label);
  });
  return success();
}

static LogicalResult logSumExp(LogSumExpOp op, Frame &frame) {
  LogitRows rows(frame.get(op.getInput()));
  perRow(rows, op.getResult(), frame, [&](int64_t r) {
    double maximum = rows.maximum(r);
    return logAdd(maximum, rows.sumExp(r, maximum));
  });
  return success();
}

static LogicalResult rowMax(RowMaxOp op, Frame &frame) {
  LogitRows rows(frame.get(op.getInput()));
  perRow(rows, op.getResult(), frame,
         [&](int64_t r) { return rows.maximum(r); });
  return success();
}

static LogicalResult rowSumExp(RowSumExpOp op, Frame &frame) {
  LogitRows rows(frame.get(op.getInput()));
  if (failed(checkRows(rows, op.getMaximum(), frame)))
    return failure();
  const Tensor &maximum = frame.get(op.getMaximum());
  perRow(rows, op.getResult(), frame,
         [&](int64_t r) { return rows.sumExp(r, maximum.reals[r]); });
  return success();
}

static LogicalResult rowGranuleSums(RowGranuleSumsOp op, Frame &frame) {
  LogitRows rows(frame.get(op.getInput()));
  if (failed(checkRows(rows, op.getMaximum(), frame)))
    return failure();
  const Tensor &maximum = frame.get(op.getMaximum());
  auto granules = static_cast<int64_t>(op.getGranules());
  auto size = static_cast<int64_t>(op.getGranuleSize());
  SmallVector<int64_t> shape(rows.shape);
  shape.push_back(granules);
  Tensor result = Tensor::zeros(shape);
  for (int64_t r = 0; r < rows.rows; ++r)
    for (int64_t c = 0; c < rows.columns && maximum.reals[r] != -HUGE_VAL; ++c)
      result.reals[r * granules + c / size] +=
          std::exp(rows.row(r)[c] - maximum.reals[r]);
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult selectLabel(SelectLabelOp op, Frame &frame) {
  LogitRows logits(frame.get(op.getLogits()));
  if (failed(checkRows(logits, op.getLabels(), frame)))
    return failure();
  const Tensor &labels = frame.get(op.getLabels());
  perRow(logits, op.getResult(), frame,
         [&](int64_t r) { return logits.select(r, labels.integers[r]); });
  return success();
}

static LogicalResult crossEntropy(CrossEntropyOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getMaximum(), op.getSum())) ||
      failed(frame.sameShape(op.getMaximum(), op.getTarget())) ||
      failed(frame.sameShape(op.getMaximum(), op.getLabels())))
    return failure();
  Tensor result = frame.get(op.getMaximum());
  for (int64_t i = 0; i < result.size(); ++i)
    result.reals[i] =
        frame.get(op.getLabels()).integers[i] ==
                static_cast<int64_t>(op.getIgnore())
            ? 0
            : logAdd(result.reals[i], frame.get(op.getSum()).reals[i]) -
                  frame.get(op.getTarget()).reals[i];
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult logAddOp(LogAddOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getMaximum(), op.getSum())))
    return failure();
  Tensor result = frame.get(op.getMaximum());
  for (int64_t i = 0; i < result.size(); ++i)
    result.reals[i] = logAdd(result.reals[i], frame.get(op.getSum()).reals[i]);
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult softmaxCrossEntropyGrad(SoftmaxCrossEntropyGradOp op,
                                             Frame &frame) {
  LogitRows logits(frame.get(op.getLogits()));
  for (Value operand : op->getOperands().drop_front())
    if (failed(checkRows(logits, operand, frame)))
      return failure();
  Tensor result = Tensor::zeros(frame.get(op.getLogits()).shape);
  for (int64_t r = 0; r < logits.rows; ++r) {
    int64_t label = frame.get(op.getLabels()).integers[r];
    if (label == static_cast<int64_t>(op.getIgnore()))
      continue;
    double maximum = frame.get(op.getMaximum()).reals[r];
    double sum = frame.get(op.getSum()).reals[r];
    double cotangent = frame.get(op.getCotangent()).reals[r];
    for (int64_t c = 0; c < logits.columns; ++c)
      result.reals[r * logits.columns + c] =
          (std::exp(logits.row(r)[c] - maximum) / sum - (c == label ? 1 : 0)) *
          cotangent;
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult softmaxScale(SoftmaxScaleOp op, Frame &frame) {
  LogitRows rows(frame.get(op.getInput()));
  for (Value operand : op->getOperands().drop_front())
    if (failed(checkRows(rows, operand, frame)))
      return failure();
  Tensor result = Tensor::zeros(frame.get(op.getInput()).shape);
  for (int64_t r = 0; r < rows.rows; ++r) {
    double maximum = frame.get(op.getMaximum()).reals[r];
    if (maximum == -HUGE_VAL)
      continue;
    double sum = frame.get(op.getSum()).reals[r];
    double scale = frame.get(op.getScale()).reals[r];
    for (int64_t c = 0; c < rows.columns; ++c)
      result.reals[r * rows.columns + c] =
          std::exp(rows.row(r)[c] - maximum) / sum * scale;
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

void mlir::mixle::reference::addLosses(Meanings &meanings) {
  meanings.add(softmaxCrossEntropy);
  meanings.add(logSumExp);
  meanings.add(rowMax);
  meanings.add(rowSumExp);
  meanings.add(rowGranuleSums);
  meanings.add(selectLabel);
  meanings.add(crossEntropy);
  meanings.add(logAddOp);
  meanings.add(softmaxCrossEntropyGrad);
  meanings.add(softmaxScale);
}
