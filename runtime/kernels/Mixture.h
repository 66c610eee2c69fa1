//===- Mixture.h - Gaussian mixtures in double ------------------*- C++ -*-===//
//
// The parts of a Gaussian mixture's E- and M-step that are no matrix product and
// no softmax. Gaussians are diagonal or full; all arithmetic is double, each number
// one fixed sequence of operations whatever the instruction set.
//
// Features of a row x about an anchor a, scaled by powers of two s so that every
// feature of the data lies within [-1, 1]: z = (x - a) / s, then
//   1, z_0 .. z_{D-1}, then z_j^2 (diagonal) or z_i z_j for i <= j in row-major order
//   of the upper triangle (full).
// A component's log-density plus its log-weight is the product of the features with
// its natural parameters. Where that sum would cancel too much, the component is
// *centred*: its scores come from L^-1 (x - mean), L being the Cholesky factor of its
// covariance.
//
// Layouts: weights [K], means [K, D], covariances [K, D] or [K, D, D] in the data's
// own units; statistics [K, F] are responsibility-weighted sums of features.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_MIXTURE_H
#define MIXLE_RUNTIME_KERNELS_MIXTURE_H

#include "runtime/kernels/Isa.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mixle::runtime {

struct MixtureShape {
  int64_t dim = 1;
  bool full = false;

  /// Elements of one component's covariance.
  int64_t covarianceSize() const { return full ? dim * dim : dim; }
  /// F.
  int64_t features() const {
    return 1 + dim + (full ? dim * (dim + 1) / 2 : dim);
  }
};

/// Where features are taken about, and their scales: D each. Scales are powers of
/// two.
struct MixtureFrame {
  const double *anchor = nullptr;
  const double *scale = nullptr;
};

/// features[rows, F] of x[rows, D].
void mixtureFeatures(const MixtureShape &shape, int64_t rows, const double *x,
                     const MixtureFrame &frame, double *features,
                     Isa isa = bestIsa());

/// A component in the two forms that scores are computed from.
struct MixtureForms {
  double *natural = nullptr;   ///< [K, F]: times the features
  double *factors = nullptr;   ///< [K, D] deviations or [K, D, D] lower Cholesky
  double *constants = nullptr; ///< [K]: log weight and normaliser
  int32_t *centred = nullptr;  ///< [K]: 1 where scores must be centred
};

/// Fills `forms` from the parameters of `components` components. A component is
/// centred if the rounding of the product with its natural parameters, bounded by
/// F 2^-53 sum |natural|, could exceed 2^-33, or if `centreAll`. Returns the first
/// component whose covariance is not positive definite to working precision (forms
/// from there on are unspecified), or -1.
int64_t prepareMixture(const MixtureShape &shape, int64_t components,
                       const double *weights, const double *means,
                       const double *covariances, const MixtureFrame &frame,
                       bool centreAll, const MixtureForms &forms,
                       Isa isa = bestIsa());

/// The first of `components` covariances that is not positive definite to working
/// precision: a pivot is not above 4 D 2^-52 times its diagonal element, or not
/// finite. -1 if there is none.
int64_t firstIndefinite(const MixtureShape &shape, int64_t components,
                        const double *covariances, Isa isa = bestIsa());

/// scores[row, k] (ld elements between rows) of the centred components, from
/// x[rows, D]; other columns stay as they are.
void centredScores(const MixtureShape &shape, int64_t rows, int64_t components,
                   const double *x, const double *means,
                   const MixtureForms &forms, double *scores, int64_t ld,
                   Isa isa = bestIsa());

/// How an M-step treats what the data alone does not determine.
struct MixtureRules {
  /// Absolute: `regularization` is added to every variance (0 when not given).
  /// Mixle: the conventions of the mixle library: a full covariance gains
  /// `regularization` (1e-6 when not given) times its diagonal, or 1e-8 where that
  /// is zero; a diagonal one is only changed where a variance is zero, to
  /// `regularization` (1e-6) times the mean of the positive ones, or 1e-8 without
  /// any; of one dimension, the variance is at least `regularization`, or when that
  /// is not given, a zero becomes 1e-8 mean^2 (1e-8 for a zero mean).
  enum class Kind { absolute, mixle };
  Kind kind = Kind::absolute;
  std::optional<double> regularization;

  /// Pseudo counts of weights, means and covariances with what they stand for.
  /// Empty prior weights are 1/K; the other priors are there where their counts are
  /// not 0.
  double weightCount = 0, meanCount = 0, covarianceCount = 0;
  std::vector<double> priorWeights;     ///< [K]
  std::vector<double> priorMean;        ///< [D]
  std::vector<double> priorCovariance;  ///< [D] or [D, D]
  std::vector<double> fixedWeights;     ///< [K]: weights stay these; or empty
};

/// Component `component` of `totalComponents`: its new weight from its count and
/// the sum of all counts.
double updateWeight(const MixtureRules &rules, int64_t component,
                    int64_t totalComponents, double count, double total);

/// New mean and covariance of one component from its statistics [F]. Without any
/// weight, pseudo counts included, both stay. `mean` and `covariance` hold the old
/// ones on entry.
void updateGaussian(const MixtureShape &shape, const MixtureRules &rules,
                    const double *statistics, const MixtureFrame &frame,
                    double *mean, double *covariance);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_MIXTURE_H
