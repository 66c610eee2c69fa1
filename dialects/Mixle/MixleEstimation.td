//===- MixleEstimation.td - Ops of Gaussian mixtures -------*- tablegen -*-===//
//
// The parts of an E- and M-step that are no product, softmax or sum over data.
// Included by MixleOps.td. K components, D dimensions, F features: 1 + D + D for
// diagonal covariances, 1 + D + D (D + 1) / 2 for full ones (`full`). Everything
// is f64.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_ESTIMATION_TD
#define MIXLE_ESTIMATION_TD

include "dialects/Mixle/MixleBase.td"

def Mixle_F64Tensor : RankedTensorOf<[F64]>;

def Mixle_MixtureFeaturesOp : Mixle_InferredOp<"mixture_features"> {
  let summary = "Features of rows about an anchor: 1, z, and z^2 or z_i z_j for i <= j.";
  let description = [{
    z = (x - anchor) / scale; the products of a full covariance are the upper
    triangle in row-major order.
    Constraint (M1): `rows` is [rows, D], `anchor` and `scale` are [D].
    Made by estimator front ends; becomes a library call.
  }];
  let arguments = (ins Mixle_F64Tensor:$rows, Mixle_F64Tensor:$anchor, Mixle_F64Tensor:$scale,
      BoolAttr:$full);
  let results = (outs Mixle_F64Tensor:$result);
  let assemblyFormat = [{
    $rows `,` $anchor `,` $scale `full` `=` $full attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_MixtureFormsOp : Mixle_InferredOp<"mixture_forms"> {
  let summary = "Natural parameters and Cholesky factors of Gaussian components.";
  let description = [{
    `natural` [K, F] times the features of a row is log(weight) plus the row's
    log-density; the quadratic ones are -1/2 the precision's diagonal and minus
    what is beside it. `factors` are the deviations [K, D] or lower Cholesky factors
    [K, D, D], `constants` [K] the log-weight and normaliser. `centred` [K] is 1
    for the components whose product with the natural parameters would cancel too
    much (their row of `natural` is zero), and for all of them if `centre_all`.
    A covariance that is not positive definite is an error when the op runs.
    Constraint (M2): weights [K], means [K, D], covariances [K, D] or [K, D, D],
    anchor and scale [D].
  }];
  let arguments = (ins Mixle_F64Tensor:$weights, Mixle_F64Tensor:$means,
      Mixle_F64Tensor:$covariances, Mixle_F64Tensor:$anchor, Mixle_F64Tensor:$scale,
      BoolAttr:$full, DefaultValuedAttr<BoolAttr, "false">:$centre_all);
  let results = (outs Mixle_F64Tensor:$natural, Mixle_F64Tensor:$factors,
      Mixle_F64Tensor:$constants, RankedTensorOf<[I32]>:$centred);
  let assemblyFormat = [{
    $weights `,` $means `,` $covariances `,` $anchor `,` $scale `full` `=` $full attr-dict
    `:` functional-type(operands, results)
  }];
}

def Mixle_CentredScoresOp : Mixle_InferredOp<"centred_scores", [], Mixle_OwnCost> {
  let summary = "Scores with the columns of centred components computed from rows minus means.";
  let description = [{
    Column k becomes constants[k] - |L_k^-1 (x - means[k])|^2 / 2 where centred[k]
    is not 0, and stays where it is.
    Constraint (M3): scores [rows, K] and rows [rows, D]; the others as
    mixture_forms gives them.
  }];
  let arguments = (ins Mixle_F64Tensor:$scores, Mixle_F64Tensor:$rows, Mixle_F64Tensor:$means,
      Mixle_F64Tensor:$factors, Mixle_F64Tensor:$constants, RankedTensorOf<[I32]>:$centred,
      BoolAttr:$full);
  let results = (outs Mixle_F64Tensor:$result);
  let assemblyFormat = [{
    $scores `,` $rows `,` $means `,` $factors `,` $constants `,` $centred `full` `=` $full
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_ResolveSumOp : Mixle_InferredOp<"resolve_sum"> {
  let summary = "accumulator * unit: the sum itself, rounded once.";
  let arguments = (ins Mixle_AccTensor:$accumulator, FlatSymbolRefAttr:$of);
  let results = (outs Mixle_F64Tensor:$result);
  let assemblyFormat = "$of $accumulator attr-dict `:` functional-type(operands, results)";
}

def Mixle_MixtureStepOp : Mixle_InferredOp<"mixture_step"> {
  let summary = "An M-step: new weights, means and covariances from sufficient statistics.";
  let description = [{
    `statistics` [K, F] are responsibility-weighted sums of features, `total` the sum
    of all counts. `spec` is an estimator specification (docs/estimators.md) that
    says how to regularise and which pseudo counts there are. A component without
    any weight keeps its mean and covariance.
    Constraint (M4): shapes as in mixture_forms; `total` is a scalar; `spec` is not
    empty.
  }];
  let arguments = (ins Mixle_F64Tensor:$statistics, Mixle_F64Tensor:$total,
      Mixle_F64Tensor:$anchor, Mixle_F64Tensor:$scale, Mixle_F64Tensor:$weights,
      Mixle_F64Tensor:$means, Mixle_F64Tensor:$covariances, StrAttr:$spec);
  let results = (outs Mixle_F64Tensor:$new_weights, Mixle_F64Tensor:$new_means,
      Mixle_F64Tensor:$new_covariances);
  let assemblyFormat = [{
    operands `spec` `=` $spec attr-dict `:` functional-type(operands, results)
  }];
}

def Mixle_MixtureStatusOp : Mixle_InferredOp<"mixture_status"> {
  let summary = "Which covariance is the first that is not positive definite.";
  let description = [{
    K - k for the first such component k of the whole mixture, 0 if all are positive
    definite to working precision (every pivot above 4 D 2^-52 times its diagonal
    element): over parts of the components, the largest is the first one's.
    Constraint (M2): covariances [K, D], or [K, D, D] if `full`.
  }];
  let arguments = (ins Mixle_F64Tensor:$covariances, BoolAttr:$full);
  let results = (outs RankedTensorOf<[I64]>:$status);
  let assemblyFormat = "$covariances `full` `=` $full attr-dict `:` functional-type(operands, results)";
}

#endif // MIXLE_ESTIMATION_TD
