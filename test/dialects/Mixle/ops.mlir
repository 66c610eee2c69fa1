// Every op is printed, parsed again and printed the same: the first tool proves
// that what is written here is legal, the second that what it prints is.
// RUN: mixle-opt %s | mixle-opt | FileCheck %s
// The generic form holds the same program: nothing is lost between the two.
// RUN: mixle-opt --mlir-print-op-generic %s | mixle-opt | FileCheck %s

// Only what the printed form could lose is checked: attributes with defaults
// stay away, optional ones stay, and the types that reading needs are there.

// CHECK-LABEL: mixle.program @structure attributes {granules = {tokens = 32 : i64}, kind = "training"}
mixle.program @structure attributes {kind = "training", numerics = "reproducible",
    granules = {tokens = 32 : i64}} {
  // CHECK: mixle.parameter @transformer.wte.weight : tensor<10x4xf32>
  // CHECK-SAME: factors = ["vocabulary", ""] file_shape = [10, 4]
  // CHECK-SAME: init = {kind = "normal", mean = 0.000000e+00 : f64, std = 2.000000e-02 : f64}
  // CHECK-NOT: decay
  mixle.parameter @"transformer.wte.weight" : tensor<10x4xf32> factors = ["vocabulary", ""]
      file_shape = [10, 4] init = {kind = "normal", mean = 0.0 : f64, std = 0.02 : f64}
  // CHECK: mixle.parameter @bias : tensor<2x2xf64>
  // CHECK-SAME: {decay = false, trained = false}
  mixle.parameter @bias : tensor<2x2xf64> factors = ["", ""] file_shape = [4]
      init = {kind = "constant", value = 1.0 : f64} {decay = false, trained = false}
  // CHECK: mixle.entry @predict(%{{.*}}: tensor<?x8xi32> {mixle.role = "tokens"},
  // CHECK-SAME: {mixle.of = @transformer.wte.weight, mixle.role = "parameter"})
  // CHECK-SAME: -> (tensor<?x8x4xf32> {mixle.role = "logits"})
  mixle.entry @predict(%tokens: tensor<?x8xi32> {mixle.role = "tokens"},
      %wte: tensor<10x4xf32> {mixle.role = "parameter", mixle.of = @"transformer.wte.weight"})
      -> (tensor<?x8x4xf32> {mixle.role = "logits"}) {
    // CHECK: mixle.embedding %{{.*}}, %{{.*}} : tensor<10x4xf32>, tensor<?x8xi32> -> tensor<?x8x4xf32>
    %0 = mixle.embedding %wte, %tokens : tensor<10x4xf32>, tensor<?x8xi32> -> tensor<?x8x4xf32>
    // CHECK-NEXT: mixle.return %{{.*}} : tensor<?x8x4xf32>
    mixle.return %0 : tensor<?x8x4xf32>
  }
  // CHECK: mixle.entry @nothing()
  mixle.entry @nothing() {
    // CHECK-NEXT: mixle.return
    mixle.return
  }
}

// CHECK-LABEL: mixle.program @pointwise
// CHECK-SAME: kind = "estimation", numerics = "fast"
mixle.program @pointwise attributes {kind = "estimation", numerics = "fast"} {
  mixle.entry @unary(%x: tensor<?x4xf64>) -> tensor<?x4xf64> {
    // CHECK: mixle.neg %{{.*}} : tensor<?x4xf64>
    %0 = mixle.neg %x : tensor<?x4xf64>
    // CHECK-NEXT: mixle.exp %
    %1 = mixle.exp %0 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.log %
    %2 = mixle.log %1 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.tanh %
    %3 = mixle.tanh %2 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.erf %
    %4 = mixle.erf %3 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.sin %
    %5 = mixle.sin %4 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.cos %
    %6 = mixle.cos %5 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.sqrt %
    %7 = mixle.sqrt %6 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.abs %
    %8 = mixle.abs %7 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.silu %
    %9 = mixle.silu %8 : tensor<?x4xf64>
    // The default approximation is not printed.
    // CHECK-NEXT: mixle.gelu %{{[^ ]*}} : tensor<?x4xf64>
    %10 = mixle.gelu %9 : tensor<?x4xf64>
    // CHECK-NEXT: mixle.gelu %{{[^ ]*}} {approximate = "tanh"} : tensor<?x4xf64>
    %11 = mixle.gelu %10 {approximate = "tanh"} : tensor<?x4xf64>
    // CHECK-NEXT: mixle.gelu_grad %{{[^ ]*}}, %{{[^ ]*}} {approximate = "tanh"} : tensor<?x4xf64>
    %12 = mixle.gelu_grad %11, %x {approximate = "tanh"} : tensor<?x4xf64>
    mixle.return %12 : tensor<?x4xf64>
  }

  mixle.entry @binary(%a: tensor<3xf32>, %b: tensor<3xf32>, %i: tensor<3xi64>) -> (tensor<3xf32>, tensor<3xi32>) {
    // CHECK: mixle.add %{{.*}}, %{{.*}} : tensor<3xf32>
    %0 = mixle.add %a, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.sub %
    %1 = mixle.sub %0, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.mul %
    %2 = mixle.mul %1, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.div %
    %3 = mixle.div %2, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.max %
    %4 = mixle.max %3, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.min %
    %5 = mixle.min %4, %b : tensor<3xf32>
    // CHECK-NEXT: mixle.compare "lt" %{{.*}}, %{{.*}} : tensor<3xf32> -> tensor<3xi1>
    %6 = mixle.compare "lt" %5, %a : tensor<3xf32> -> tensor<3xi1>
    // CHECK-NEXT: mixle.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<3xi1>, tensor<3xf32>
    %7 = mixle.select %6, %a, %b : tensor<3xi1>, tensor<3xf32>
    // CHECK-NEXT: mixle.convert %{{.*}} : tensor<3xi64> -> tensor<3xi32>
    %8 = mixle.convert %i : tensor<3xi64> -> tensor<3xi32>
    mixle.return %7, %8 : tensor<3xf32>, tensor<3xi32>
  }
}

// CHECK-LABEL: mixle.program @shapes
mixle.program @shapes attributes {kind = "training"} {
  mixle.entry @all(%x: tensor<?x2x6xf32>, %v: tensor<6xf32>) -> tensor<?x2x8xf32> {
    // CHECK: mixle.constant dense<[1, 2]> : tensor<2xi32>
    %c = mixle.constant dense<[1, 2]> : tensor<2xi32>
    // CHECK-NEXT: mixle.iota {dimension = 1 : i64} : tensor<2x6xi32>
    %i = mixle.iota {dimension = 1 : i64} : tensor<2x6xi32>
    // CHECK-NEXT: mixle.broadcast %{{.*}} like %{{.*}} dims = [2] : tensor<6xf32>, tensor<?x2x6xf32> -> tensor<?x2x6xf32>
    %b = mixle.broadcast %v like %x dims = [2] : tensor<6xf32>, tensor<?x2x6xf32> -> tensor<?x2x6xf32>
    // CHECK-NEXT: mixle.reshape %{{.*}} : tensor<?x2x6xf32> -> tensor<?x12xf32>
    %r = mixle.reshape %b : tensor<?x2x6xf32> -> tensor<?x12xf32>
    // CHECK-NEXT: mixle.transpose %{{.*}} perm = [2, 0, 1] : tensor<?x2x6xf32> -> tensor<6x?x2xf32>
    %t = mixle.transpose %b perm = [2, 0, 1] : tensor<?x2x6xf32> -> tensor<6x?x2xf32>
    // CHECK-NEXT: mixle.slice %{{.*}}[2 : 1, 3] : tensor<?x2x6xf32> -> tensor<?x2x2xf32>
    %s = mixle.slice %b[2 : 1, 3] : tensor<?x2x6xf32> -> tensor<?x2x2xf32>
    // CHECK-NEXT: mixle.pad %{{.*}}[2 : 3, 1] : tensor<?x2x2xf32> -> tensor<?x2x6xf32>
    %p = mixle.pad %s[2 : 3, 1] : tensor<?x2x2xf32> -> tensor<?x2x6xf32>
    // CHECK-NEXT: mixle.concat %{{.*}}, %{{.*}} dim = 2 : tensor<?x2x2xf32>, tensor<?x2x6xf32> -> tensor<?x2x8xf32>
    %j = mixle.concat %s, %p dim = 2 : tensor<?x2x2xf32>, tensor<?x2x6xf32> -> tensor<?x2x8xf32>
    mixle.return %j : tensor<?x2x8xf32>
  }
}

// CHECK-LABEL: mixle.program @contractions
mixle.program @contractions attributes {kind = "training"} {
  mixle.entry @all(%x: tensor<?x4x6xf32>, %y: tensor<?x5x6xf32>, %w: tensor<6x3xf32>,
      %ids: tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4x5xf32>, tensor<?x4x3xf32>, tensor<9x6xf32>) {
    // CHECK: mixle.reduce "sum" %{{.*}} dims = [2] : tensor<?x4x6xf32> -> tensor<?x4xf32>
    %s = mixle.reduce "sum" %x dims = [2] : tensor<?x4x6xf32> -> tensor<?x4xf32>
    // CHECK-NEXT: mixle.reduce "max" %{{.*}} dims = [] : tensor<?x4xf32> -> tensor<?x4xf32>
    %m = mixle.reduce "max" %s dims = [] : tensor<?x4xf32> -> tensor<?x4xf32>
    // CHECK-NEXT: mixle.dot_general %{{.*}}, %{{.*}} contract = [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}
    // CHECK-SAME: : tensor<?x4x6xf32>, tensor<?x5x6xf32> -> tensor<?x4x5xf32>
    %d = mixle.dot_general %x, %y contract = [2] x [2] {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}
        : tensor<?x4x6xf32>, tensor<?x5x6xf32> -> tensor<?x4x5xf32>
    // CHECK-NEXT: mixle.dot_general %{{.*}}, %{{.*}} contract = [2] x [0] {granule_dim = 0 : i64, granule_size = 2 : i64, granules = 3 : i64}
    %e = mixle.dot_general %x, %w contract = [2] x [0] {granule_dim = 0, granules = 3, granule_size = 2}
        : tensor<?x4x6xf32>, tensor<6x3xf32> -> tensor<?x4x3xf32>
    // CHECK-NEXT: mixle.scatter_add %{{.*}}, %{{.*}} rows = 9 : tensor<?x4xi32>, tensor<?x4x6xf32> -> tensor<9x6xf32>
    %a = mixle.scatter_add %ids, %x rows = 9 : tensor<?x4xi32>, tensor<?x4x6xf32> -> tensor<9x6xf32>
    mixle.return %m, %d, %e, %a : tensor<?x4xf32>, tensor<?x4x5xf32>, tensor<?x4x3xf32>, tensor<9x6xf32>
  }
}

// CHECK-LABEL: mixle.program @composites
mixle.program @composites attributes {kind = "training"} {
  mixle.entry @norms(%x: tensor<?x4xf32>, %g: tensor<4xf32>) -> tensor<?x4xf32> {
    // CHECK: mixle.layer_norm %{{.*}}, %{{.*}}, %{{.*}} eps = 1.000000e-05 : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>)
    // CHECK-SAME: -> (tensor<?x4xf32>, tensor<?xf32>, tensor<?xf32>)
    %y, %mean, %rstd = mixle.layer_norm %x, %g, %g eps = 1.0e-05
        : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>, tensor<?xf32>)
    // CHECK-NEXT: mixle.layer_norm_grad %
    %dx, %dg = mixle.layer_norm_grad %x, %g, %mean, %rstd, %y
        : (tensor<?x4xf32>, tensor<4xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    // CHECK-NEXT: mixle.rms_norm %{{.*}}, %{{.*}} eps = 1.562500e-02 : (tensor<?x4xf32>, tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>)
    %z, %r = mixle.rms_norm %dx, %g eps = 0.015625 : (tensor<?x4xf32>, tensor<4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>)
    // CHECK-NEXT: mixle.rms_norm_grad %
    %dz, %dh = mixle.rms_norm_grad %z, %g, %r, %dg
        : (tensor<?x4xf32>, tensor<4xf32>, tensor<?xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    mixle.return %dz : tensor<?x4xf32>
  }

  mixle.entry @attention(%qkv: tensor<?x8x3x2x4xf32>) -> tensor<?x8x3x2x4xf32> {
    // One key granule is the default and is not printed.
    // CHECK: mixle.attention %{{.*}} scale = 5.000000e-01 causal = true : (tensor<?x8x3x2x4xf32>)
    // CHECK-SAME: -> (tensor<?x8x2x4xf32>, tensor<?x2x8xi32>, tensor<?x2x8xf32>)
    %o, %m, %l = mixle.attention %qkv scale = 0.5 causal = true
        : (tensor<?x8x3x2x4xf32>) -> (tensor<?x8x2x4xf32>, tensor<?x2x8xi32>, tensor<?x2x8xf32>)
    // CHECK-NEXT: mixle.attention_grad {{.*}} scale = 5.000000e-01 causal = false {key_granules = 2 : i64}
    %d = mixle.attention_grad %qkv, %o, %m, %l, %o scale = 0.5 causal = false {key_granules = 2 : i64}
        : (tensor<?x8x3x2x4xf32>, tensor<?x8x2x4xf32>, tensor<?x2x8xi32>, tensor<?x2x8xf32>, tensor<?x8x2x4xf32>)
        -> tensor<?x8x3x2x4xf32>
    mixle.return %d : tensor<?x8x3x2x4xf32>
  }

  mixle.entry @grouped(%qkv: tensor<?x8x3x4x6xf32>, %c: tensor<8x3xf32>) -> tensor<?x8x3x4x6xf32> {
    // CHECK: mixle.rotary %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {rotated = 3 : i64} : (tensor<?x8x3x4x6xf32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<?x8x3x4x6xf32>
    %r = mixle.rotary %qkv, %c, %c {rotated = 3 : i64}
        : (tensor<?x8x3x4x6xf32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<?x8x3x4x6xf32>
    // Three groups of two queries.
    // CHECK-NEXT: mixle.attention %{{.*}} scale = 5.000000e-01 causal = true {grouped} : (tensor<?x8x3x4x6xf32>)
    // CHECK-SAME: -> (tensor<?x8x3x2x6xf32>, tensor<?x3x2x8xi32>, tensor<?x3x2x8xf32>)
    %o, %m, %l = mixle.attention %r scale = 0.5 causal = true {grouped}
        : (tensor<?x8x3x4x6xf32>) -> (tensor<?x8x3x2x6xf32>, tensor<?x3x2x8xi32>, tensor<?x3x2x8xf32>)
    // CHECK-NEXT: mixle.attention_grad {{.*}} causal = true {grouped, key_granules = 2 : i64}
    %d = mixle.attention_grad %r, %o, %m, %l, %o scale = 0.5 causal = true {grouped, key_granules = 2 : i64}
        : (tensor<?x8x3x4x6xf32>, tensor<?x8x3x2x6xf32>, tensor<?x3x2x8xi32>, tensor<?x3x2x8xf32>, tensor<?x8x3x2x6xf32>)
        -> tensor<?x8x3x4x6xf32>
    // CHECK-NEXT: mixle.rotary %{{.*}} {inverse, rotated = 3 : i64}
    %b = mixle.rotary %d, %c, %c {inverse, rotated = 3 : i64}
        : (tensor<?x8x3x4x6xf32>, tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<?x8x3x4x6xf32>
    mixle.return %b : tensor<?x8x3x4x6xf32>
  }

  mixle.entry @padding(%table: tensor<9x6xf32>, %ids: tensor<?x4xi32>) -> tensor<?x4x6xf32> {
    // CHECK: mixle.embedding %{{[^ ]*}}, %{{[^ ]*}} {padding = 2 : i64}
    %e = mixle.embedding %table, %ids {padding = 2 : i64} : tensor<9x6xf32>, tensor<?x4xi32> -> tensor<?x4x6xf32>
    mixle.return %e : tensor<?x4x6xf32>
  }

  mixle.entry @loss(%x: tensor<?x8x10xf32>, %y: tensor<?x8xi32>) -> tensor<?x8x10xf32> {
    // CHECK: mixle.softmax_cross_entropy %{{[^ ]*}}, %{{[^ ]*}} : (tensor<?x8x10xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    %0 = mixle.softmax_cross_entropy %x, %y : (tensor<?x8x10xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.softmax_cross_entropy %{{[^ ]*}}, %{{[^ ]*}} {ignore = -1 : i64}
    %1 = mixle.softmax_cross_entropy %x, %y {ignore = -1 : i64} : (tensor<?x8x10xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.logsumexp %{{.*}} : (tensor<?x8x10xf32>) -> tensor<?x8xf32>
    %2 = mixle.logsumexp %x : (tensor<?x8x10xf32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.row_max %
    %3 = mixle.row_max %x : (tensor<?x8x10xf32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.row_sum_exp %{{[^ ]*}}, %{{[^ ]*}} {granule_size = 5 : i64, granules = 2 : i64} : (tensor<?x8x10xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %4 = mixle.row_sum_exp %x, %3 {granules = 2, granule_size = 5} : (tensor<?x8x10xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.row_granule_sums %
    %g = mixle.row_granule_sums %x, %3 {granules = 2 : i64, granule_size = 5 : i64} : (tensor<?x8x10xf32>, tensor<?x8xf32>) -> tensor<?x8x2xf32>
    // CHECK-NEXT: mixle.select_label %
    %5 = mixle.select_label %x, %y : (tensor<?x8x10xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    // CHECK-NEXT: mixle.cross_entropy %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x8xi32>
    %6 = mixle.cross_entropy %3, %4, %5, %y : tensor<?x8xf32>, tensor<?x8xi32>
    // CHECK-NEXT: mixle.log_add %{{.*}}, %{{.*}} : tensor<?x8xf32>
    %7 = mixle.log_add %3, %4 : tensor<?x8xf32>
    // CHECK-NEXT: mixle.softmax_cross_entropy_grad %
    %8 = mixle.softmax_cross_entropy_grad %x, %y, %3, %4, %6
        : (tensor<?x8x10xf32>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8x10xf32>
    // CHECK-NEXT: mixle.softmax_scale %
    %9 = mixle.softmax_scale %8, %3, %4, %7
        : (tensor<?x8x10xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8x10xf32>
    mixle.return %9 : tensor<?x8x10xf32>
  }
}

// CHECK-LABEL: mixle.program @sums
mixle.program @sums attributes {kind = "training"} {
  mixle.entry @accumulate(%acc: tensor<4x3x!mixle.acc<f32>>, %bias: tensor<3x!mixle.acc<f32>>,
      %loss: tensor<!mixle.exact<f32>>, %count: tensor<i64>,
      %x: tensor<?x8x4xf32>, %dy: tensor<?x8x3xf32>, %ids: tensor<?x8xi32>)
      -> (tensor<4x3xf32>, tensor<f64>) {
    // CHECK: mixle.accumulate_dot @w %{{.*}}, %{{.*}}, %{{.*}} data_dims = 2 block = 4
    // CHECK-SAME: : (tensor<4x3x!mixle.acc<f32>>, tensor<?x8x4xf32>, tensor<?x8x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    %0 = mixle.accumulate_dot @w %acc, %x, %dy data_dims = 2 block = 4
        : (tensor<4x3x!mixle.acc<f32>>, tensor<?x8x4xf32>, tensor<?x8x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    // CHECK-NEXT: mixle.accumulate_rows @b %{{.*}}, %{{.*}} data_dims = 2 :
    %1 = mixle.accumulate_rows @b %bias, %dy data_dims = 2
        : (tensor<3x!mixle.acc<f32>>, tensor<?x8x3xf32>) -> tensor<3x!mixle.acc<f32>>
    // CHECK-NEXT: mixle.accumulate_scatter @w %{{.*}}, %{{.*}}, %{{.*}} :
    %2 = mixle.accumulate_scatter @w %0, %ids, %dy
        : (tensor<4x3x!mixle.acc<f32>>, tensor<?x8xi32>, tensor<?x8x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    // CHECK-NEXT: mixle.exact_sum %{{[^ ]*}}, %{{[^ ]*}} : (tensor<!mixle.exact<f32>>, tensor<?x8x3xf32>)
    %3 = mixle.exact_sum %loss, %dy : (tensor<!mixle.exact<f32>>, tensor<?x8x3xf32>) -> tensor<!mixle.exact<f32>>
    // CHECK-NEXT: mixle.exact_sum %{{[^ ]*}}, %{{[^ ]*}} {square = true}
    %4 = mixle.exact_sum %3, %dy {square = true} : (tensor<!mixle.exact<f32>>, tensor<?x8x3xf32>) -> tensor<!mixle.exact<f32>>
    // CHECK-NEXT: mixle.count_labels %{{[^ ]*}}, %{{[^ ]*}} : (tensor<i64>, tensor<?x8xi32>) -> tensor<i64>
    %5 = mixle.count_labels %count, %ids : (tensor<i64>, tensor<?x8xi32>) -> tensor<i64>
    // CHECK-NEXT: mixle.resolve @w %{{.*}}, %{{.*}} : (tensor<4x3x!mixle.acc<f32>>, tensor<i64>) -> tensor<4x3xf32>
    %6 = mixle.resolve @w %2, %5 : (tensor<4x3x!mixle.acc<f32>>, tensor<i64>) -> tensor<4x3xf32>
    // CHECK-NEXT: mixle.round_exact %{{.*}} : (tensor<!mixle.exact<f32>>) -> tensor<f64>
    %7 = mixle.round_exact %4 : (tensor<!mixle.exact<f32>>) -> tensor<f64>
    mixle.return %6, %7 : tensor<4x3xf32>, tensor<f64>
  }

  mixle.entry @step(%p: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>, %g: tensor<3xf32>,
      %squares: tensor<!mixle.exact<f32>>, %step: tensor<i64>) -> tensor<3xf32> {
    // CHECK: mixle.schedule %{{.*}} {beta1 = 5.000000e-01 : f64, beta2 = 7.500000e-01 : f64, lr = 1.000000e-03 : f64, schedule = "constant"}
    // CHECK-SAME: : (tensor<i64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    %lr, %c1, %c2 = mixle.schedule %step {lr = 1.0e-03 : f64, schedule = "constant", beta1 = 0.5 : f64, beta2 = 0.75 : f64}
        : (tensor<i64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    // CHECK-NEXT: mixle.clip_coefficient %{{.*}} {max_norm = 1.000000e+00 : f64}
    %c, %norm = mixle.clip_coefficient %squares {max_norm = 1.0 : f64} : (tensor<!mixle.exact<f32>>) -> (tensor<f64>, tensor<f64>)
    // CHECK-NEXT: mixle.sgd_step %
    %p1, %m1 = mixle.sgd_step %p, %m, %g, %lr, %c {mu = 0.9 : f64, weight_decay = 0.1 : f64}
        : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f64>, tensor<f64>) -> (tensor<3xf32>, tensor<3xf32>)
    // CHECK-NEXT: mixle.adam_step %{{.*}} {beta1 = 5.000000e-01 : f64, beta2 = 7.500000e-01 : f64, decoupled = true,
    %p2, %m2, %v2 = mixle.adam_step %p1, %m1, %v, %g, %lr, %c1, %c2, %c
        {beta1 = 0.5 : f64, beta2 = 0.75 : f64, epsilon = 1.0e-08 : f64, weight_decay = 0.1 : f64, decoupled = true}
        : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>)
        -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    mixle.return %p2 : tensor<3xf32>
  }
}
