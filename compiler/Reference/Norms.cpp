//===- Norms.cpp - Meanings of layer_norm and rms_norm --------------------===//

#include "compiler/Reference/Frame.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

/// A tensor seen as rows of its last dimension.
struct Rows {
  int64_t count, width;
  SmallVector<int64_t> shape; ///< Of one value per row.

  Rows(const Tensor &tensor)
      : count(tensor.sizeOf(0, tensor.rank() - 1)), width(tensor.shape.back()),
        shape(ArrayRef<int64_t>(tensor.shape).drop_back()) {}
};

} // namespace

static LogicalResult layerNorm(LayerNormOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  const Tensor &gain = frame.get(op.getGain()), &bias = frame.get(op.getBias());
  Rows rows(input);
  Tensor result = Tensor::zeros(input.shape);
  Tensor means = Tensor::zeros(rows.shape), rstds = Tensor::zeros(rows.shape);
  double epsilon = op.getEpsilon().convertToDouble();
  auto width = static_cast<double>(rows.width);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *x = input.reals.data() + r * rows.width;
    double *y = result.reals.data() + r * rows.width;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < rows.width; ++c)
      mean += x[c];
    mean /= width;
    for (int64_t c = 0; c < rows.width; ++c)
      variance += (x[c] - mean) * (x[c] - mean);
    variance /= width;
    double rstd = 1 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < rows.width; ++c)
      y[c] = (x[c] - mean) * rstd * gain.reals[c] + bias.reals[c];
    means.reals[r] = mean;
    rstds.reals[r] = rstd;
  }
  frame.set(op.getResult(), std::move(result));
  frame.set(op.getMean(), std::move(means));
  frame.set(op.getRstd(), std::move(rstds));
  return success();
}

static LogicalResult rmsNorm(RmsNormOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  const Tensor &gain = frame.get(op.getGain());
  Rows rows(input);
  Tensor result = Tensor::zeros(input.shape), rstds = Tensor::zeros(rows.shape);
  double epsilon = op.getEpsilon().convertToDouble();
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *x = input.reals.data() + r * rows.width;
    double squares = 0;
    for (int64_t c = 0; c < rows.width; ++c)
      squares += x[c] * x[c];
    double rstd =
        1 / std::sqrt(squares / static_cast<double>(rows.width) + epsilon);
    for (int64_t c = 0; c < rows.width; ++c)
      result.reals[r * rows.width + c] = x[c] * rstd * gain.reals[c];
    rstds.reals[r] = rstd;
  }
  frame.set(op.getResult(), std::move(result));
  frame.set(op.getRstd(), std::move(rstds));
  return success();
}

/// Both gradients: rms_norm's is layer_norm's without the mean. `means` may be
/// null.
static void normGrad(const Tensor &input, const Tensor &gain,
                     const Tensor *means, const Tensor &rstds,
                     const Tensor &cotangent, Tensor &inputCotangent,
                     Tensor &gainTerms) {
  Rows rows(input);
  inputCotangent = Tensor::zeros(input.shape);
  gainTerms = Tensor::zeros(input.shape);
  auto width = static_cast<double>(rows.width);
  for (int64_t r = 0; r < rows.count; ++r) {
    int64_t start = r * rows.width;
    double mean = means ? means->reals[r] : 0, rstd = rstds.reals[r];
    double sumG = 0, sumGX = 0;
    for (int64_t c = 0; c < rows.width; ++c) {
      double xhat = (input.reals[start + c] - mean) * rstd;
      double g = cotangent.reals[start + c] * gain.reals[c];
      sumG += g;
      sumGX += g * xhat;
    }
    if (!means)
      sumG = 0;
    for (int64_t c = 0; c < rows.width; ++c) {
      double xhat = (input.reals[start + c] - mean) * rstd;
      double dy = cotangent.reals[start + c];
      inputCotangent.reals[start + c] =
          rstd * (dy * gain.reals[c] - sumG / width - xhat * (sumGX / width));
      gainTerms.reals[start + c] = dy * xhat;
    }
  }
}

static LogicalResult layerNormGrad(LayerNormGradOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getInput(), op.getCotangent())) ||
      failed(frame.sameShape(op.getMean(), op.getRstd())))
    return failure();
  Tensor inputCotangent, gainTerms;
  normGrad(frame.get(op.getInput()), frame.get(op.getGain()),
           &frame.get(op.getMean()), frame.get(op.getRstd()),
           frame.get(op.getCotangent()), inputCotangent, gainTerms);
  frame.set(op.getInputCotangent(), std::move(inputCotangent));
  frame.set(op.getGainTerms(), std::move(gainTerms));
  return success();
}

static LogicalResult rmsNormGrad(RmsNormGradOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getInput(), op.getCotangent())))
    return failure();
  Tensor inputCotangent, gainTerms;
  normGrad(frame.get(op.getInput()), frame.get(op.getGain()), nullptr,
           frame.get(op.getRstd()), frame.get(op.getCotangent()),
           inputCotangent, gainTerms);
  frame.set(op.getInputCotangent(), std::move(inputCotangent));
  frame.set(op.getGainTerms(), std::move(gainTerms));
  return success();
}

void mlir::mixle::reference::addNorms(Meanings &meanings) {
  meanings.add(layerNorm);
  meanings.add(rmsNorm);
  meanings.add(layerNormGrad);
  meanings.add(rmsNormGrad);
}
