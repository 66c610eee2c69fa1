//===- Mixture.cpp - Gaussian mixtures in double --------------------------===//

#include "runtime/kernels/Mixture.h"
#include "runtime/kernels/Math.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

namespace mixle::runtime {

/// log(2 pi) / 2, rounded to nearest.
static constexpr double halfLogTwoPi = 0.91893853320467274178;

/// Rows of which centred scores are computed together.
static constexpr int64_t chunkRows = 64;

namespace portable {
namespace {
#include "runtime/kernels/MixtureKernels.inc"
} // namespace
} // namespace portable

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
namespace {
#include "runtime/kernels/MixtureKernels.inc"
} // namespace
} // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")
namespace avx512 {
namespace {
#include "runtime/kernels/MixtureKernels.inc"
} // namespace
} // namespace avx512
#pragma GCC pop_options

#define MIXLE_DISPATCH(CALL)                                                   \
  do {                                                                         \
    if (isa == Isa::avx512)                                                    \
      return avx512::CALL;                                                     \
    if (isa == Isa::avx2)                                                      \
      return avx2::CALL;                                                       \
    return portable::CALL;                                                     \
  } while (false)
#else
#define MIXLE_DISPATCH(CALL) return portable::CALL
#endif

void mixtureFeatures(const MixtureShape &shape, int64_t rows, const double *x,
                     const MixtureFrame &frame, double *out, Isa isa) {
  MIXLE_DISPATCH(features(shape, rows, x, frame, out));
}

int64_t prepareMixture(const MixtureShape &shape, int64_t components,
                       const double *weights, const double *means,
                       const double *covariances, const MixtureFrame &frame,
                       bool centreAll, const MixtureForms &forms, Isa isa) {
  std::vector<double> work(shape.dim * (shape.dim + 2));
  MIXLE_DISPATCH(prepare(shape, components, weights, means, covariances, frame,
                         centreAll, forms, work.data()));
}

int64_t firstIndefinite(const MixtureShape &shape, int64_t components,
                        const double *covariances, Isa isa) {
  std::vector<double> factor(shape.covarianceSize());
  MIXLE_DISPATCH(
      indefinite(shape, components, covariances, factor.data()));
}

void centredScores(const MixtureShape &shape, int64_t rows, int64_t components,
                   const double *x, const double *means,
                   const MixtureForms &forms, double *scores, int64_t ld,
                   Isa isa) {
  std::vector<double> work(2 * shape.dim * chunkRows);
  MIXLE_DISPATCH(centred(shape, rows, components, x, means, forms, scores, ld,
                         work.data()));
}

//===----------------------------------------------------------------------===//
// M-step
//===----------------------------------------------------------------------===//

double updateWeight(const MixtureRules &rules, int64_t component,
                    int64_t totalComponents, double count, double total) {
  const size_t k = static_cast<size_t>(component);
  if (!rules.fixedWeights.empty())
    return rules.fixedWeights[k];
  const double all = total + rules.weightCount;
  const double components = static_cast<double>(totalComponents);
  if (!(all > 0))
    return 1.0 / components;
  const double prior = rules.priorWeights.empty()
                           ? rules.weightCount / components
                           : rules.weightCount * rules.priorWeights[k];
  return (count + prior) / all;
}

namespace {

/// One component's M-step in the scaled frame.
class GaussianUpdate {
public:
  GaussianUpdate(const MixtureShape &shape, const MixtureRules &rules,
                 const double *statistics, const MixtureFrame &frame)
      : shape(shape), rules(rules), frame(frame), d(shape.dim),
        count(statistics[0]), first(statistics + 1),
        second(statistics + 1 + d), average(d, 0.0), centre(d, 0.0),
        prior(d, 0.0) {
    for (int64_t j = 0; j < d; ++j) {
      if (!rules.priorMean.empty())
        prior[j] = (rules.priorMean[j] - frame.anchor[j]) / frame.scale[j];
      if (count > 0)
        average[j] = first[j] / count;
    }
  }

  void run(double *mean, double *covariance) {
    if (count + rules.meanCount > 0)
      updateMean(mean);
    else
      for (int64_t j = 0; j < d; ++j)
        centre[j] = (mean[j] - frame.anchor[j]) / frame.scale[j];
    if (!(count + rules.covarianceCount > 0))
      return;
    int64_t index = 0;
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = i; j < (shape.full ? d : i + 1); ++j) {
        double value = element(i, j, second[index++]) * frame.scale[i] *
                       frame.scale[j];
        if (!shape.full)
          covariance[i] = value;
        else
          covariance[i * d + j] = covariance[j * d + i] = value;
      }
    regularize(mean, covariance);
  }

private:
  void updateMean(double *mean) {
    for (int64_t j = 0; j < d; ++j) {
      centre[j] = rules.meanCount > 0
                      ? std::fma(rules.meanCount, prior[j], first[j]) /
                            (count + rules.meanCount)
                      : average[j];
      mean[j] = std::fma(centre[j], frame.scale[j], frame.anchor[j]);
    }
  }

  /// Sum of responsibilities times (z_j - average_j)^2, a zero where only the
  /// rounding of the statistics is left of it.
  double spread(int64_t j) const {
    double square = second[shape.full ? j * d - j * (j - 1) / 2 : j];
    double value = std::fma(-average[j], first[j], square);
    return value > 0x1p-47 * square ? value : 0.0;
  }

  double element(int64_t i, int64_t j, double product) const {
    double scatter = 0;
    if (count > 0) {
      if (i == j)
        scatter = spread(i);
      else if (spread(i) > 0 && spread(j) > 0)
        scatter = std::fma(-average[i], first[j], product);
    }
    const double shiftI = centre[i] - average[i];
    const double shiftJ = centre[j] - average[j];
    scatter = std::fma(count * shiftI, shiftJ, scatter);
    if (rules.covarianceCount > 0) {
      double value = rules.priorCovariance[shape.full ? i * d + j : i];
      value = value / frame.scale[i] / frame.scale[j];
      // The prior's mean counts here where it is given.
      if (!rules.priorMean.empty())
        value = std::fma(prior[i] - centre[i], prior[j] - centre[j], value);
      scatter = std::fma(rules.covarianceCount, value, scatter);
    }
    return scatter / (count + rules.covarianceCount);
  }

  double &variance(double *covariance, int64_t j) const {
    return covariance[shape.full ? j * d + j : j];
  }

  void regularize(const double *mean, double *covariance) const {
    constexpr double least = 1e-8;
    if (rules.kind == MixtureRules::Kind::absolute) {
      for (int64_t j = 0; j < d; ++j)
        variance(covariance, j) += rules.regularization.value_or(0.0);
      return;
    }
    if (!shape.full && d == 1) {
      double &value = covariance[0];
      if (rules.regularization)
        value = std::max(value, *rules.regularization);
      else if (!(value > 0)) {
        value = least * (mean[0] * mean[0]);
        if (!(value > 0))
          value = least;
      }
      return;
    }
    const double ridge = rules.regularization.value_or(1e-6);
    double sum = 0, positive = 0;
    for (int64_t j = 0; j < d; ++j)
      if (variance(covariance, j) > 0) {
        sum += variance(covariance, j);
        positive += 1;
      }
    const double typical = positive > 0 ? ridge * (sum / positive) : 0.0;
    for (int64_t j = 0; j < d; ++j) {
      double &value = variance(covariance, j);
      if (value > 0 && !shape.full)
        continue;
      double added = value > 0 ? ridge * value : typical;
      value += added > 0 ? added : least;
    }
  }

  const MixtureShape &shape;
  const MixtureRules &rules;
  const MixtureFrame &frame;
  const int64_t d;
  const double count;
  const double *first, *second;
  /// The data's mean, the new mean and the prior's, in the frame.
  std::vector<double> average, centre, prior;
};

} // namespace

void updateGaussian(const MixtureShape &shape, const MixtureRules &rules,
                    const double *statistics, const MixtureFrame &frame,
                    double *mean, double *covariance) {
  GaussianUpdate(shape, rules, statistics, frame).run(mean, covariance);
}

} // namespace mixle::runtime
