// Mixture ops, printed, parsed again and printed the same.
// RUN: mixle-opt %s | mixle-opt | FileCheck %s
// RUN: mixle-opt --mlir-print-op-generic %s | mixle-opt | FileCheck %s

// CHECK-LABEL: mixle.program @mixtures
mixle.program @mixtures attributes {kind = "estimation"} {
  // CHECK-LABEL: mixle.entry @full
  mixle.entry @full(%rows: tensor<?x2xf64>, %anchor: tensor<2xf64>, %scale: tensor<2xf64>,
      %weights: tensor<3xf64>, %means: tensor<3x2xf64>, %covariances: tensor<3x2x2xf64>,
      %scores: tensor<?x3xf64>) {
    // CHECK: mixle.mixture_features %{{.*}}, %{{.*}}, %{{.*}} full = true
    // CHECK-SAME: -> tensor<?x6xf64>
    %features = mixle.mixture_features %rows, %anchor, %scale full = true
        : (tensor<?x2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<?x6xf64>
    // CHECK: mixle.mixture_forms {{.*}} full = true {centre_all = true}
    // CHECK-SAME: -> (tensor<3x6xf64>, tensor<3x2x2xf64>, tensor<3xf64>, tensor<3xi32>)
    %forms:4 = mixle.mixture_forms %weights, %means, %covariances, %anchor, %scale full = true
        {centre_all = true}
        : (tensor<3xf64>, tensor<3x2xf64>, tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
        -> (tensor<3x6xf64>, tensor<3x2x2xf64>, tensor<3xf64>, tensor<3xi32>)
    // CHECK: mixle.centred_scores {{.*}} full = true
    %0 = mixle.centred_scores %scores, %rows, %means, %forms#1, %forms#2, %forms#3 full = true
        : (tensor<?x3xf64>, tensor<?x2xf64>, tensor<3x2xf64>, tensor<3x2x2xf64>, tensor<3xf64>,
           tensor<3xi32>) -> tensor<?x3xf64>
    // CHECK: mixle.mixture_status %{{.*}} full = true
    %1 = mixle.mixture_status %covariances full = true : (tensor<3x2x2xf64>) -> tensor<i64>
    mixle.return
  }
  // CHECK-LABEL: mixle.entry @diagonal
  mixle.entry @diagonal(%acc: tensor<3x5x!mixle.acc<f64>>, %total: tensor<f64>,
      %anchor: tensor<2xf64>, %scale: tensor<2xf64>, %weights: tensor<3xf64>,
      %means: tensor<3x2xf64>, %variances: tensor<3x2xf64>) {
    // CHECK: mixle.resolve_sum @_statistics %{{.*}} : (tensor<3x5x!mixle.acc<f64>>) -> tensor<3x5xf64>
    %statistics = mixle.resolve_sum @_statistics %acc
        : (tensor<3x5x!mixle.acc<f64>>) -> tensor<3x5xf64>
    // CHECK: mixle.mixture_forms
    // CHECK-NOT: centre_all
    // CHECK-SAME: -> (tensor<3x5xf64>, tensor<3x2xf64>, tensor<3xf64>, tensor<3xi32>)
    %forms:4 = mixle.mixture_forms %weights, %means, %variances, %anchor, %scale full = false
        : (tensor<3xf64>, tensor<3x2xf64>, tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>)
        -> (tensor<3x5xf64>, tensor<3x2xf64>, tensor<3xf64>, tensor<3xi32>)
    // CHECK: mixle.mixture_step {{.*}} spec = "{}"
    %new:3 = mixle.mixture_step %statistics, %total, %anchor, %scale, %weights, %means, %variances
        spec = "{}"
        : (tensor<3x5xf64>, tensor<f64>, tensor<2xf64>, tensor<2xf64>, tensor<3xf64>,
           tensor<3x2xf64>, tensor<3x2xf64>)
        -> (tensor<3xf64>, tensor<3x2xf64>, tensor<3x2xf64>)
    mixle.return
  }
}
