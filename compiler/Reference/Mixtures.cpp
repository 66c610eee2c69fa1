//===- Mixtures.cpp - Meanings of Gaussian mixture ops --------------------===//
//
// An M-step is what runtime/kernels/Mixture.h says of its rules, and is called
// there; everything else is written out.
//
//===----------------------------------------------------------------------===//

#include "compiler/Reference/Frame.h"
#include "runtime/training/data/MixtureSpec.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;
namespace rt = ::mixle::runtime;

static LogicalResult features(MixtureFeaturesOp op, Frame &frame) {
  const Tensor &rows = frame.get(op.getRows());
  const Tensor &anchor = frame.get(op.getAnchor());
  const Tensor &scale = frame.get(op.getScale());
  int64_t d = rows.shape[1];
  int64_t f = op.getResult().getType().getDimSize(1);
  Tensor result = Tensor::zeros({rows.shape[0], f});
  for (int64_t r = 0; r < rows.shape[0]; ++r) {
    std::vector<double> values = {1};
    for (int64_t j = 0; j < d; ++j)
      values.push_back((rows.reals[r * d + j] - anchor.reals[j]) / scale.reals[j]);
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = i; j < (op.getFull() ? d : i + 1); ++j)
        values.push_back(values[1 + i] * values[1 + j]);
    std::copy(values.begin(), values.end(), result.reals.begin() + r * f);
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

/// The lower Cholesky factor of a row-major matrix; false where there is none.
static bool cholesky(int64_t d, const std::vector<double> &matrix,
                     std::vector<double> &lower) {
  lower.assign(d * d, 0);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double sum = matrix[i * d + j];
      for (int64_t k = 0; k < j; ++k)
        sum -= lower[i * d + k] * lower[j * d + k];
      if (i != j) {
        lower[i * d + j] = sum / lower[j * d + j];
        continue;
      }
      if (!(sum > 4 * static_cast<double>(d) * 0x1p-52 * matrix[i * d + i]) ||
          !std::isfinite(sum))
        return false;
      lower[i * d + i] = std::sqrt(sum);
    }
  return true;
}

/// One component's covariance as a matrix.
static std::vector<double> matrixOf(const Tensor &covariances, int64_t component,
                                    bool full) {
  int64_t d = covariances.shape[1];
  std::vector<double> matrix(d * d, 0);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j < d; ++j)
      if (full)
        matrix[i * d + j] = covariances.reals[(component * d + i) * d + j];
      else if (i == j)
        matrix[i * d + i] = covariances.reals[component * d + i];
  return matrix;
}

/// y with L y = x.
static std::vector<double> solve(int64_t d, const std::vector<double> &lower,
                                 std::vector<double> x) {
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < i; ++j)
      x[i] -= lower[i * d + j] * x[j];
    x[i] /= lower[i * d + i];
  }
  return x;
}

static LogicalResult forms(MixtureFormsOp op, Frame &frame) {
  const Tensor &weights = frame.get(op.getWeights());
  const Tensor &means = frame.get(op.getMeans());
  const Tensor &covariances = frame.get(op.getCovariances());
  const Tensor &anchor = frame.get(op.getAnchor());
  const Tensor &scale = frame.get(op.getScale());
  bool full = op.getFull();
  int64_t k = means.shape[0], d = means.shape[1];
  int64_t f = op.getNatural().getType().getDimSize(1);
  Tensor natural = Tensor::zeros({k, f}), factors = Tensor::zeros(covariances.shape);
  Tensor constants = Tensor::zeros({k}), centred = Tensor::integerZeros({k});
  const double log2Pi = 1.8378770664093454836;
  for (int64_t c = 0; c < k; ++c) {
    std::vector<double> lower;
    if (!cholesky(d, matrixOf(covariances, c, full), lower))
      return frame.fail() << "component " << c
                          << " has a covariance that is not positive definite";
    // The precision, column by column of the inverse factor.
    std::vector<std::vector<double>> inverse;
    double constant = std::log(weights.reals[c]);
    for (int64_t j = 0; j < d; ++j) {
      std::vector<double> unit(d, 0);
      unit[j] = 1;
      inverse.push_back(solve(d, lower, unit));
      constant -= 0.5 * log2Pi + std::log(lower[j * d + j]);
      if (full)
        std::copy_n(lower.begin() + j * d, d,
                    factors.reals.begin() + (c * d + j) * d);
      else
        factors.reals[c * d + j] = lower[j * d + j];
    }
    auto precision = [&](int64_t i, int64_t j) {
      double sum = 0;
      for (int64_t l = 0; l < d; ++l)
        sum += inverse[i][l] * inverse[j][l];
      return sum * scale.reals[i] * scale.reals[j];
    };
    auto centre = [&](int64_t j) {
      return (means.reals[c * d + j] - anchor.reals[j]) / scale.reals[j];
    };
    double *eta = natural.reals.data() + c * f;
    eta[0] = constant;
    int64_t index = 1 + d;
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        eta[1 + i] += precision(i, j) * centre(j);
        eta[0] -= 0.5 * precision(i, j) * centre(i) * centre(j);
      }
      for (int64_t j = i; j < (full ? d : i + 1); ++j)
        eta[index++] = i == j ? -0.5 * precision(i, j) : -precision(i, j);
    }
    constants.reals[c] = constant;
    double size = 0;
    for (int64_t i = 0; i < f; ++i)
      size += std::fabs(eta[i]);
    centred.integers[c] =
        op.getCentreAll() || !(size * static_cast<double>(f) <= 0x1p20);
    if (centred.integers[c])
      std::fill_n(eta, f, 0.0);
  }
  frame.set(op.getNatural(), std::move(natural));
  frame.set(op.getFactors(), std::move(factors));
  frame.set(op.getConstants(), std::move(constants));
  frame.set(op.getCentred(), std::move(centred));
  return success();
}

static LogicalResult centredScores(CentredScoresOp op, Frame &frame) {
  const Tensor &rows = frame.get(op.getRows());
  const Tensor &means = frame.get(op.getMeans());
  const Tensor &factors = frame.get(op.getFactors());
  const Tensor &constants = frame.get(op.getConstants());
  const Tensor &centred = frame.get(op.getCentred());
  Tensor result = frame.get(op.getScores());
  int64_t k = means.shape[0], d = means.shape[1];
  if (rows.shape[0] != result.shape[0])
    return frame.fail() << "has scores and rows of different run-time sizes";
  for (int64_t c = 0; c < k; ++c) {
    if (!centred.integers[c])
      continue;
    std::vector<double> lower = matrixOf(factors, c, op.getFull());
    for (int64_t r = 0; r < rows.shape[0]; ++r) {
      std::vector<double> x;
      for (int64_t j = 0; j < d; ++j)
        x.push_back(rows.reals[r * d + j] - means.reals[c * d + j]);
      double squares = 0;
      for (double y : solve(d, lower, x))
        squares += y * y;
      result.reals[r * k + c] = constants.reals[c] - 0.5 * squares;
    }
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult resolveSum(ResolveSumOp op, Frame &frame) {
  frame.set(op.getResult(), Tensor(frame.get(op.getAccumulator())));
  return success();
}

static LogicalResult mixtureStep(MixtureStepOp op, Frame &frame) {
  auto spec = rt::MixtureSpec::parseText(op.getSpec().str(), "spec");
  if (!spec.ok())
    return frame.fail() << spec.status().message();
  const Tensor &statistics = frame.get(op.getStatistics());
  double total = frame.get(op.getTotal()).reals[0];
  Tensor weights = frame.get(op.getWeights()), means = frame.get(op.getMeans());
  Tensor covariances = frame.get(op.getCovariances());
  if (spec->shape.dim != means.shape[1] ||
      spec->shape.full != (covariances.rank() == 3))
    return frame.fail() << "has a spec of another shape than its operands";
  // Part of a mixture does not say which part it is.
  const int64_t components = means.shape[0];
  const bool named =
      !spec->rules.fixedWeights.empty() || !spec->rules.priorWeights.empty();
  if (components > spec->components || (named && components != spec->components))
    return frame.fail() << "has " << components << " components, its spec "
                        << spec->components
                        << (named ? " with a weight for each" : "");
  rt::MixtureFrame at{frame.get(op.getAnchor()).reals.data(),
                      frame.get(op.getScale()).reals.data()};
  int64_t f = spec->shape.features(), c = spec->shape.covarianceSize();
  for (int64_t k = 0; k < means.shape[0]; ++k) {
    const double *own = statistics.reals.data() + k * f;
    weights.reals[k] =
        rt::updateWeight(spec->rules, k, spec->components, own[0], total);
    rt::updateGaussian(spec->shape, spec->rules, own, at,
                       means.reals.data() + k * spec->shape.dim,
                       covariances.reals.data() + k * c);
  }
  frame.set(op.getNewWeights(), std::move(weights));
  frame.set(op.getNewMeans(), std::move(means));
  frame.set(op.getNewCovariances(), std::move(covariances));
  return success();
}

static LogicalResult mixtureStatus(MixtureStatusOp op, Frame &frame) {
  const Tensor &covariances = frame.get(op.getCovariances());
  int64_t k = covariances.shape[0];
  Tensor result = Tensor::integerZeros({});
  std::vector<double> lower;
  for (int64_t c = k; c-- > 0;)
    if (!cholesky(covariances.shape[1], matrixOf(covariances, c, op.getFull()),
                  lower))
      result.integers[0] = k - c;
  frame.set(op.getStatus(), std::move(result));
  return success();
}

void mlir::mixle::reference::addMixtures(Meanings &meanings) {
  meanings.add(features);
  meanings.add(forms);
  meanings.add(centredScores);
  meanings.add(resolveSum);
  meanings.add(mixtureStep);
  meanings.add(mixtureStatus);
}
