// Every constraint of the dialect, by its label.
// RUN: mixle-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{(P1) numerics 'sloppy' is neither 'reproducible' nor 'fast'}}
mixle.program @p attributes {kind = "training", numerics = "sloppy"} {
}

// -----

// expected-error @+1 {{(P1) kind 'inference' is neither 'training' nor 'estimation'}}
mixle.program @p attributes {kind = "inference"} {
}

// -----

// expected-error @+1 {{(P2) granules of 'heads' must be a positive integer, got 0 : i64}}
mixle.program @p attributes {kind = "training", granules = {heads = 0 : i64}} {
}

// -----

// expected-error @+1 {{(P2) granules of 'tokens' must be a positive integer, got "many"}}
mixle.program @p attributes {kind = "training", granules = {tokens = "many"}} {
}

// -----

mixle.program @p attributes {kind = "training"} {
  // expected-error @+1 {{(R1) has 1 factor names for 2 dimensions}}
  mixle.parameter @w : tensor<2x3xf32> factors = ["ffn"] file_shape = [2, 3]
      init = {kind = "constant", value = 0.0 : f64}
}

// -----

mixle.program @p attributes {kind = "training"} {
  // expected-error @+1 {{(R1) factor names must be strings}}
  mixle.parameter @w : tensor<2xf32> factors = [1] file_shape = [2]
      init = {kind = "constant", value = 0.0 : f64}
}

// -----

mixle.program @p attributes {kind = "training"} {
  // expected-error @+1 {{(R2) file_shape has 5 elements, the type has 6}}
  mixle.parameter @w : tensor<2x3xf32> factors = ["", ""] file_shape = [5]
      init = {kind = "constant", value = 0.0 : f64}
}

// -----

mixle.program @p attributes {kind = "training"} {
  // expected-error @+1 {{(R3) init kind must be 'constant', 'normal' or 'uniform', got {kind = "magic"}}}
  mixle.parameter @w : tensor<2xf32> factors = [""] file_shape = [2] init = {kind = "magic"}
}

// -----

mixle.program @p attributes {kind = "training"} {
  // expected-error @+1 {{needs a static shape, got 'tensor<?xf32>'}}
  mixle.parameter @w : tensor<?xf32> factors = [""] file_shape = [2] init = {kind = "constant"}
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>) -> tensor<3xf32> {
    // expected-error @+1 {{returns types that differ from the results of entry 'e'}}
    mixle.return %x : tensor<2xf32>
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>) {
    // expected-error @+1 {{(G1) approximate 'sigmoid' is neither 'none' nor 'tanh'}}
    %0 = mixle.gelu %x {approximate = "sigmoid"} : tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>) {
    // expected-error @+1 {{(G1) approximate 'sigmoid' is neither 'none' nor 'tanh'}}
    %0 = mixle.gelu_grad %x, %x {approximate = "sigmoid"} : tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>) {
    // expected-error @+1 {{(C1) predicate 'like' is none of eq, ne, lt, le, gt, ge}}
    %0 = mixle.compare "like" %x, %x : tensor<2xf32> -> tensor<2xi1>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%c: tensor<3xi1>, %x: tensor<2xf32>) {
    // expected-error @+1 {{(C2) condition 'tensor<3xi1>' should be 'tensor<2xi1>'}}
    %0 = mixle.select %c, %x, %x : tensor<3xi1>, tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>) {
    // expected-error @+1 {{(C3) changes the shape: 'tensor<2xf32>' to 'tensor<1x2xf64>'}}
    %0 = mixle.convert %x : tensor<2xf32> -> tensor<1x2xf64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e() {
    // expected-error @+1 {{(C4) needs a static shape and a dimension of it, got 2 of 'tensor<3x4xi32>'}}
    %0 = mixle.iota {dimension = 2 : i64} : tensor<3x4xi32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x3xf32>, %y: tensor<4x2x3xf32>) {
    // expected-error @+1 {{(B1) broadcast dimensions must be increasing}}
    %0 = mixle.broadcast %x like %y dims = [2, 1] : tensor<2x3xf32>, tensor<4x2x3xf32> -> tensor<4x2x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2xf32>, %y: tensor<4x3xf32>) {
    // expected-error @+1 {{(B1) dimension 0 of 'tensor<2xf32>' does not match dimension 1 of 'tensor<4x3xf32>'}}
    %0 = mixle.broadcast %x like %y dims = [1] : tensor<2xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<?x6xf32>) {
    // expected-error @+1 {{(S1) cannot turn 'tensor<?x6xf32>' into 'tensor<2x?x3xf32>'}}
    %0 = mixle.reshape %x : tensor<?x6xf32> -> tensor<2x?x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(S1) cannot turn 'tensor<4x6xf32>' into 'tensor<5x5xf32>'}}
    %0 = mixle.reshape %x : tensor<4x6xf32> -> tensor<5x5xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(S2) transpose needs a permutation of the dimensions of 'tensor<4x6xf32>'}}
    %0 = mixle.transpose %x perm = [0, 0] : tensor<4x6xf32> -> tensor<4x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<?x6xf32>) {
    // expected-error @+1 {{(S3) slice dimension 0 is not a static dimension of 'tensor<?x6xf32>'}}
    %0 = mixle.slice %x[0 : 0, 1] : tensor<?x6xf32> -> tensor<1x6xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<?x6xf32>) {
    // expected-error @+1 {{(S3) slice [4, 7) is outside dimension 1 of 'tensor<?x6xf32>'}}
    %0 = mixle.slice %x[1 : 4, 7] : tensor<?x6xf32> -> tensor<?x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(S4) pad needs a static dimension and sizes >= 0, got [1 : -1, 0] of 'tensor<4x6xf32>'}}
    %0 = mixle.pad %x[1 : -1, 0] : tensor<4x6xf32> -> tensor<4x5xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<5x6xf32>) {
    // expected-error @+1 {{(S5) concat input 'tensor<5x6xf32>' does not fit 'tensor<4x6xf32>'}}
    %0 = mixle.concat %x, %y dim = 1 : tensor<4x6xf32>, tensor<5x6xf32> -> tensor<4x12xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(S5) concat dimension 2 is out of range for 'tensor<4x6xf32>'}}
    %0 = mixle.concat %x dim = 2 : tensor<4x6xf32> -> tensor<4x6xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(D1) reduce kind 'mean' is neither 'sum' nor 'max'}}
    %0 = mixle.reduce "mean" %x dims = [1] : tensor<4x6xf32> -> tensor<4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(D1) reduce dimensions must be increasing and in range}}
    %0 = mixle.reduce "sum" %x dims = [1, 2] : tensor<4x6xf32> -> tensor<4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<5x3xf32>) {
    // expected-error @+1 {{(D2) contracted dimension 1 of 'tensor<4x6xf32>' does not match dimension 0 of 'tensor<5x3xf32>'}}
    %0 = mixle.dot_general %x, %y contract = [1] x [0] : tensor<4x6xf32>, tensor<5x3xf32> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>) {
    // expected-error @+1 {{(D2) batch dimensions are out of range or differ in number}}
    %0 = mixle.dot_general %x, %x contract = [1] x [1] {lhs_batch = array<i64: 0>} : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<6x6xf32>) {
    // expected-error @+1 {{(D2) a dimension is named twice}}
    %0 = mixle.dot_general %x, %x contract = [1, 1] x [0, 1] : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<6x3xf64>) {
    // expected-error @+1 {{(D2) dot_general needs one element type, got 'tensor<4x6xf32>' and 'tensor<6x3xf64>'}}
    %0 = mixle.dot_general %x, %y contract = [1] x [0] : tensor<4x6xf32>, tensor<6x3xf64> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<6x3xf32>) {
    // expected-error @+1 {{(D3) granule_dim and granules come together}}
    %0 = mixle.dot_general %x, %y contract = [1] x [0] {granules = 2 : i64, granule_size = 3 : i64} : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<6x3xf32>) {
    // expected-error @+1 {{(D3) granule_dim 1 is no position among 1 contracted dimensions}}
    %0 = mixle.dot_general %x, %y contract = [1] x [0] {granule_dim = 1 : i64, granules = 2 : i64, granule_size = 3 : i64} : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4x6xf32>, %y: tensor<6x3xf32>) {
    // expected-error @+1 {{(D3) 2 granules of 2 do not cover a dimension of 6}}
    %0 = mixle.dot_general %x, %y contract = [1] x [0] {granule_dim = 0 : i64, granules = 2 : i64, granule_size = 2 : i64} : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<f32>, %i: tensor<2xi32>) {
    // expected-error @+1 {{(E1) embedding table needs at least one dimension}}
    %0 = mixle.embedding %x, %i : tensor<f32>, tensor<2xi32> -> tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<3x4xf32>, %i: tensor<2xi32>) {
    // expected-error @+1 {{(E2) scatter_add updates 'tensor<3x4xf32>' do not begin with the dimensions of ids 'tensor<2xi32>'}}
    %0 = mixle.scatter_add %i, %x rows = 5 : tensor<2xi32>, tensor<3x4xf32> -> tensor<5x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x4xf32>, %i: tensor<2xi32>) {
    // expected-error @+1 {{(E2) scatter_add rows must be positive, got 0}}
    %0 = mixle.scatter_add %i, %x rows = 0 : tensor<2xi32>, tensor<2x4xf32> -> tensor<0x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %b: tensor<5xf32>) {
    // expected-error @+1 {{(N1) norm gain or bias 'tensor<5xf32>' does not match the last dimension of 'tensor<2x4xf32>'}}
    %0:3 = mixle.layer_norm %x, %g, %b eps = 1.0e-05 : (tensor<2x4xf32>, tensor<4xf32>, tensor<5xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x4xf32>, %g: tensor<3xf32>) {
    // expected-error @+1 {{(N1) norm gain or bias 'tensor<3xf32>'}}
    %0:2 = mixle.rms_norm %x, %g eps = 1.0e-05 : (tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %m: tensor<3xf32>, %r: tensor<2xf32>) {
    // expected-error @+1 {{(N2) mean 'tensor<3xf32>' should be 'tensor<2xf32>'}}
    %0:2 = mixle.layer_norm_grad %x, %g, %m, %r, %x : (tensor<2x4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %r: tensor<2xf32>) {
    // expected-error @+1 {{(N2) cotangent 'tensor<2xf32>' should be 'tensor<2x4xf32>'}}
    %0:2 = mixle.rms_norm_grad %x, %g, %r, %r : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x2x3x4xf32>) {
    // expected-error @+1 {{(Q1) attention needs qkv of shape [rows, tokens, 3, heads, head_dim], got 'tensor<2x8x2x3x4xf32>'}}
    %0:3 = mixle.attention %x scale = 1.0 causal = true : (tensor<2x8x2x3x4xf32>) -> (tensor<2x8x3x4xf32>, tensor<2x3x8xi32>, tensor<2x3x8xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x3x2x4xf32>) {
    // expected-error @+1 {{(Q1) grouped attention needs qkv of shape [rows, tokens, groups, queries + 2, head_dim], got 'tensor<2x8x3x2x4xf32>'}}
    %0:3 = mixle.attention %x scale = 1.0 causal = true {grouped} : (tensor<2x8x3x2x4xf32>) -> (tensor<2x8x3x1x4xf32>, tensor<2x3x1x8xi32>, tensor<2x3x1x8xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x5xf32>, %c: tensor<8x2xf32>) {
    // expected-error @+1 {{(O1) rotary needs an input [rows, tokens, ..., D] with an even D, got 'tensor<2x8x5xf32>'}}
    %0 = mixle.rotary %x, %c, %c : (tensor<2x8x5xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<2x8x5xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x3x4xf32>, %c: tensor<8x2xf32>, %s: tensor<8x4xf32>) {
    // expected-error @+1 {{(O1) sin 'tensor<8x4xf32>' should be 'tensor<8x2xf32>'}}
    %0 = mixle.rotary %x, %c, %s : (tensor<2x8x3x4xf32>, tensor<8x2xf32>, tensor<8x4xf32>) -> tensor<2x8x3x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x3x4xf32>, %c: tensor<8x2xf32>) {
    // expected-error @+1 {{(O2) rotated = 4 is no number of entries of the last dimension but one of 'tensor<2x8x3x4xf32>'}}
    %0 = mixle.rotary %x, %c, %c {rotated = 4 : i64} : (tensor<2x8x3x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<2x8x3x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x4xf32>, %c: tensor<8x2xf32>) {
    // expected-error @+1 {{(O2) rotated = 2 is no number of entries}}
    %0 = mixle.rotary %x, %c, %c {rotated = 2 : i64} : (tensor<2x8x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<2x8x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x3x2x4xf32>) {
    // expected-error @+1 {{(Q2) key_granules must be positive, got 0}}
    %0:3 = mixle.attention %x scale = 1.0 causal = true {key_granules = 0 : i64} : (tensor<2x8x3x2x4xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xi32>, tensor<2x2x8xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x3x2x4xf32>, %o: tensor<2x8x2x4xf32>, %m: tensor<2x8x2xi32>, %l: tensor<2x2x8xf32>) {
    // expected-error @+1 {{(Q3) reference 'tensor<2x8x2xi32>' should be 'tensor<2x2x8xi32>'}}
    %0 = mixle.attention_grad %x, %o, %m, %l, %o scale = 1.0 causal = true : (tensor<2x8x3x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2xi32>, tensor<2x2x8xf32>, tensor<2x8x2x4xf32>) -> tensor<2x8x3x2x4xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8x10xf32>, %y: tensor<2x9xi32>) {
    // expected-error @+1 {{(L1) labels 'tensor<2x9xi32>' do not match the rows of logits 'tensor<2x8x10xf32>'}}
    %0 = mixle.softmax_cross_entropy %x, %y : (tensor<2x8x10xf32>, tensor<2x9xi32>) -> tensor<2x8xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %y: tensor<2xi32>) {
    // expected-error @+1 {{(L1) labels 'tensor<2xi32>' should be 'tensor<2x8xi32>'}}
    %0 = mixle.cross_entropy %x, %x, %x, %y : tensor<2x8xf32>, tensor<2xi32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<f32>) {
    // expected-error @+1 {{(L2) needs at least one dimension, got 'tensor<f32>'}}
    %0 = mixle.row_max %x : (tensor<f32>) -> tensor<f32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %m: tensor<8xf32>) {
    // expected-error @+1 {{(L2) maximum 'tensor<8xf32>' should be 'tensor<2xf32>'}}
    %0 = mixle.row_sum_exp %x, %m : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %m: tensor<2xf32>, %s: tensor<2x8xf32>) {
    // expected-error @+1 {{(L2) scale 'tensor<2x8xf32>' should be 'tensor<2xf32>'}}
    %0 = mixle.softmax_scale %x, %m, %m, %s : (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %y: tensor<2xi32>, %m: tensor<2xf32>, %c: tensor<3xf32>) {
    // expected-error @+1 {{(L2) cotangent 'tensor<3xf32>' should be 'tensor<2xf32>'}}
    %0 = mixle.softmax_cross_entropy_grad %x, %y, %m, %m, %c : (tensor<2x8xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2x8xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %m: tensor<2xf32>) {
    // expected-error @+1 {{(L3) granules and granule_size come together}}
    %0 = mixle.row_sum_exp %x, %m {granules = 2 : i64} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %m: tensor<2xf32>) {
    // expected-error @+1 {{(L3) 2 granules of 3 do not cover a dimension of 8}}
    %0 = mixle.row_sum_exp %x, %m {granules = 2 : i64, granule_size = 3 : i64} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<4x3x!mixle.acc<f64>>, %x: tensor<?x4xf32>, %y: tensor<?x3xf32>) {
    // expected-error @+1 {{(A1) accumulator 'tensor<4x3x!mixle.acc<f64>>' does not match the contribution}}
    %0 = mixle.accumulate_dot @w %a, %x, %y data_dims = 1 block = 4 : (tensor<4x3x!mixle.acc<f64>>, tensor<?x4xf32>, tensor<?x3xf32>) -> tensor<4x3x!mixle.acc<f64>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<4x!mixle.acc<f32>>, %x: tensor<?x3xf32>) {
    // expected-error @+1 {{(A1) accumulator 'tensor<4x!mixle.acc<f32>>' does not match the contribution}}
    %0 = mixle.accumulate_rows @b %a, %x data_dims = 1 : (tensor<4x!mixle.acc<f32>>, tensor<?x3xf32>) -> tensor<4x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<2x!mixle.exact<f32>>, %x: tensor<?x3xf32>) {
    // expected-error @+1 {{(A1) needs a rank-0 exact scalar of the input's type, got 'tensor<2x!mixle.exact<f32>>'}}
    %0 = mixle.exact_sum %a, %x : (tensor<2x!mixle.exact<f32>>, tensor<?x3xf32>) -> tensor<2x!mixle.exact<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<4x3x!mixle.acc<f32>>, %x: tensor<2x4xf32>, %y: tensor<3x3xf32>) {
    // expected-error @+1 {{(A2) data dimension 0 differs: 'tensor<2x4xf32>' and 'tensor<3x3xf32>'}}
    %0 = mixle.accumulate_dot @w %a, %x, %y data_dims = 1 block = 4 : (tensor<4x3x!mixle.acc<f32>>, tensor<2x4xf32>, tensor<3x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<4x3x!mixle.acc<f32>>, %x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
    // expected-error @+1 {{(A2) data_dims must be 1 or 2 and within both operands}}
    %0 = mixle.accumulate_dot @w %a, %x, %y data_dims = 3 block = 4 : (tensor<4x3x!mixle.acc<f32>>, tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<3x!mixle.acc<f32>>, %x: tensor<2x3xf32>) {
    // expected-error @+1 {{(A2) data_dims must be within the operand}}
    %0 = mixle.accumulate_rows @b %a, %x data_dims = 3 : (tensor<3x!mixle.acc<f32>>, tensor<2x3xf32>) -> tensor<3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<5x3x!mixle.acc<f32>>, %i: tensor<2xi32>, %x: tensor<4x3xf32>) {
    // expected-error @+1 {{(A2) updates 'tensor<4x3xf32>' do not begin with the dimensions of ids 'tensor<2xi32>'}}
    %0 = mixle.accumulate_scatter @w %a, %i, %x : (tensor<5x3x!mixle.acc<f32>>, tensor<2xi32>, tensor<4x3xf32>) -> tensor<5x3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<4x3x!mixle.acc<f32>>, %x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
    // expected-error @+1 {{(A3) block must be positive, got 0}}
    %0 = mixle.accumulate_dot @w %a, %x, %y data_dims = 1 block = 0 : (tensor<4x3x!mixle.acc<f32>>, tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<4x3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<2xi64>, %i: tensor<?xi32>) {
    // expected-error @+1 {{(A4) accumulator 'tensor<2xi64>' should be 'tensor<i64>'}}
    %0 = mixle.count_labels %a, %i : (tensor<2xi64>, tensor<?xi32>) -> tensor<2xi64>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<3x!mixle.acc<f32>>, %n: tensor<3xi64>) {
    // expected-error @+1 {{(A4) count 'tensor<3xi64>' should be 'tensor<i64>'}}
    %0 = mixle.resolve @w %a, %n : (tensor<3x!mixle.acc<f32>>, tensor<3xi64>) -> tensor<3xf32>
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%s: tensor<1xi64>) {
    // expected-error @+1 {{(O1) needs a scalar of rank 0, got 'tensor<1xi64>'}}
    %0:3 = mixle.schedule %s {lr = 1.0 : f64, schedule = "constant", beta1 = 0.9 : f64, beta2 = 0.99 : f64} : (tensor<1xi64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%s: tensor<2x!mixle.exact<f32>>) {
    // expected-error @+1 {{(O1) sum_of_squares 'tensor<2x!mixle.exact<f32>>' should be 'tensor<!mixle.exact<f32>>'}}
    %0:2 = mixle.clip_coefficient %s {max_norm = 1.0 : f64} : (tensor<2x!mixle.exact<f32>>) -> (tensor<f64>, tensor<f64>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%p: tensor<3xf32>, %r: tensor<f64>, %c: tensor<1xf64>) {
    // expected-error @+1 {{(O1) needs a scalar of rank 0, got 'tensor<1xf64>'}}
    %0:2 = mixle.sgd_step %p, %p, %p, %r, %c {mu = 0.9 : f64, weight_decay = 0.0 : f64} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f64>, tensor<1xf64>) -> (tensor<3xf32>, tensor<3xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%p: tensor<3xf32>, %r: tensor<f64>, %c: tensor<3xf64>) {
    // expected-error @+1 {{(O1) needs a scalar of rank 0, got 'tensor<3xf64>'}}
    %0:3 = mixle.adam_step %p, %p, %p, %p, %r, %r, %c, %r {beta1 = 0.9 : f64, beta2 = 0.99 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.0 : f64, decoupled = true} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f64>, tensor<f64>, tensor<3xf64>, tensor<f64>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    mixle.return
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<2x8xf32>, %m: tensor<2xf32>) {
    // expected-error @+1 {{(L3) 1 granules of 3 do not cover a dimension of 8}}
    %0 = mixle.row_granule_sums %x, %m {granules = 1 : i64, granule_size = 3 : i64} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2x1xf32>
    mixle.return
  }
}

// -----

// An accumulator is no float: nothing but accumulate ops adds to it.
mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%a: tensor<3x!mixle.acc<f32>>) {
    // expected-error @+1 {{must be ranked tensor of}}
    %0 = mixle.add %a, %a : tensor<3x!mixle.acc<f32>>
    mixle.return
  }
}

// -----

// A person who writes a wrong result type is told the right one.
mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<?x4xf32>, %w: tensor<4x3xf32>) {
    // expected-error @+1 {{has results of types 'tensor<?x5xf32>', expected 'tensor<?x3xf32>'}}
    %0 = mixle.dot_general %x, %w contract = [1] x [0] : tensor<?x4xf32>, tensor<4x3xf32> -> tensor<?x5xf32>
    mixle.return
  }
}
