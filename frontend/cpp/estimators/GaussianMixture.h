//===- GaussianMixture.h - Estimators of Gaussian mixtures ------*- C++ -*-===//
//
// A Gaussian mixture in exponential-family form: the features of a row times the
// components' natural parameters are scores; their logsumexp is the row's
// log-density; softmax times the row's weight are responsibilities; responsibilities
// times features, summed over rows, are the sufficient statistics. An M-step makes
// new parameters of them. A single Gaussian is a mixture of one component.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_ESTIMATORS_GAUSSIANMIXTURE_H
#define MIXLE_FRONTEND_ESTIMATORS_GAUSSIANMIXTURE_H

#include "frontend/cpp/Graph.h"
#include "runtime/training/data/MixtureSpec.h"

namespace mixle::frontend {

/// Rows that one call of a program's entries takes at most, unless its config says
/// another `batch`: a multiple of the block length, small enough for a cache.
inline constexpr int64_t kEstimatorTileRows = 1024;

/// Builds the program of a specification (runtime/training/data/MixtureSpec.h), of
/// kind estimation and in f64 throughout: entries @accumulate (an E-step over rows,
/// added to running statistics), @estimate (the M-step) and @log_density. Its
/// parameters are `weights` [K], `means` [K, D] and `covariances` [K, D] or
/// [K, D, D], and those whose names begin with "_", which files do not hold:
/// `_anchor` and `_scale` [D], the frame of the features, which whoever runs the
/// program sets from the data, and `_statistics` [K, F], the last ones used.
/// Components are the factor "components".
mlir::OwningOpRef<mlir::ModuleOp>
buildGaussianMixture(const mixle::runtime::MixtureSpec &spec,
                     mlir::MLIRContext &context);

/// Reads a specification and builds its program. `spec` is the path of a JSON file
/// or the JSON text itself. Errors are FrontendErrors, one message each.
mlir::OwningOpRef<mlir::ModuleOp> buildEstimator(llvm::StringRef spec,
                                                 mlir::MLIRContext &context);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_ESTIMATORS_GAUSSIANMIXTURE_H
