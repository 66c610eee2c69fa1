//===- MixtureSpec.h - A Gaussian mixture as users write it -----*- C++ -*-===//
//
// The estimator specification, a JSON object:
//
//   {"family": "gaussian_mixture", "dim": D, "components": K,
//    "covariance": "diag" | "full",
//    "regularization": {"kind": "absolute" | "mixle", "value": v},
//    "pseudo_count": c, "prior_statistics": {...}, "fixed_weights": [...]}
//
// Only the first three keys are required (covariance is "full"). `regularization` is
// {"kind": "absolute", "value": 1e-6} where it is not given; its kinds are those of
// MixtureRules (runtime/kernels/Mixture.h), "value" is optional for mixle.
// `pseudo_count` is a number, that of the weights, or an object of "weights", "means"
// and "covariances". `prior_statistics` is an object of "weights" [K], "means" [D] and
// "covariances" ([D], or [D][D] when full): what pseudo counts stand for, means and
// covariances the same for every component. Weights are 1/K where they are not given;
// means and covariances have to be given with their pseudo counts.
// `fixed_weights` [K] are never estimated.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_MIXTURESPEC_H
#define MIXLE_RUNTIME_TRAINING_DATA_MIXTURESPEC_H

#include "mixle/Status.h"
#include "runtime/base/Json.h"
#include "runtime/kernels/Mixture.h"

#include <string>

namespace mixle::runtime {

struct MixtureSpec {
  MixtureShape shape;
  int64_t components = 1;
  MixtureRules rules;

  /// Reads a specification. `what` names it in messages. Errors: anything but an
  /// object, an unknown key or family, a number out of range, a list of the wrong
  /// length, weights that are no probabilities, prior covariances that are not
  /// positive definite.
  static Expected<MixtureSpec> parse(const Json &json, const std::string &what);
  static Expected<MixtureSpec> parseText(const std::string &text,
                                         const std::string &what);

  /// The same specification with every key, as compact JSON.
  std::string asText() const;
};

/// Refuses weights of another number than `components`, not finite, negative, or
/// with a sum that is not 1 to within 1e-6.
Status checkWeights(const std::vector<double> &weights, int64_t components);

/// Refuses a covariance [D] or [D, D] that is not symmetric (to 1e-8 of its
/// diagonal) or not positive definite to working precision.
Status checkCovariance(const MixtureShape &shape, const double *covariance);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_MIXTURESPEC_H
