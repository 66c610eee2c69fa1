// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=2,tp=2 stop-after=plan' | mixle-opt --pass-pipeline='builtin.module(mixle.program(dist-place))' | FileCheck %s
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(dist-place))' | FileCheck %s --check-prefix=HERE

// Column-parallel then row-parallel: the second product is partial over tp.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK-SAME: dist.placement = #dist.placement<{{\[\[}}"dp_replicate"], []], [], "">, mixle.role = "tokens"
// CHECK: mixle.embedding {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], []], ["tp"], "select">
// CHECK: mixle.dot_general {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], ["tp"]], [], "">
// CHECK: mixle.dot_general {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], []], ["tp"], "tree">

// A gain that the heads share is summed over the heads, which tp splits: its
// accumulator is partial over tp as well, in the step too.
// HERE-LABEL: mixle.program @shared
mixle.program @shared attributes {kind = "training"} {
  dist.mesh @mesh ["dp_replicate", "tp"] sizes = [2, 2] plan = {dp_replicate = 2 : i64, tp = 2 : i64}
  mixle.parameter @w : tensor<2x4xf32> factors = ["heads", ""] file_shape = [2, 4] init = {kind = "constant", value = 0.0 : f64}
  mixle.parameter @gain : tensor<4xf32> factors = [""] file_shape = [4] init = {kind = "constant", value = 0.0 : f64}
  // HERE: mixle.accumulate_rows @gain {{.*}}#dist.placement<{{\[\[}}]], ["dp_replicate", "tp"], "integer">
  mixle.entry @accumulate(%x: tensor<?x3xf32> {mixle.role = "rows"}, %w: tensor<2x4xf32> {mixle.role = "parameter", mixle.of = @w},
      %a: tensor<4x!mixle.acc<f32>> {mixle.role = "accumulator", mixle.of = @gain})
      -> (tensor<4x!mixle.acc<f32>> {mixle.role = "accumulator", mixle.of = @gain}) {
    %t = mixle.dot_general %x, %w contract = [] x [] : tensor<?x3xf32>, tensor<2x4xf32> -> tensor<?x3x2x4xf32>
    %r = mixle.accumulate_rows @gain %a, %t data_dims = 3 : (tensor<4x!mixle.acc<f32>>, tensor<?x3x2x4xf32>) -> tensor<4x!mixle.acc<f32>>
    mixle.return %r : tensor<4x!mixle.acc<f32>>
  }
  // HERE: mixle.entry @step(%{{.*}}: tensor<4x!mixle.acc<f32>> {dist.placement = #dist.placement<{{\[\[}}]], ["dp_replicate", "tp"], "integer">
  mixle.entry @step(%a: tensor<4x!mixle.acc<f32>> {mixle.role = "accumulator", mixle.of = @gain}, %n: tensor<i64>) {
    %g = mixle.resolve @gain %a, %n : (tensor<4x!mixle.acc<f32>>, tensor<i64>) -> tensor<4xf32>
    mixle.return
  }
}

// -----

mixle.program @mixed attributes {kind = "training"} {
  dist.mesh @mesh ["tp"] sizes = [2] plan = {tp = 2 : i64}
  mixle.parameter @w : tensor<2x4xf32> factors = ["heads", ""] file_shape = [2, 4] init = {kind = "constant", value = 0.0 : f64}
  mixle.parameter @gain : tensor<4xf32> factors = [""] file_shape = [4] init = {kind = "constant", value = 0.0 : f64}
  mixle.entry @accumulate(%x: tensor<?x4xf32> {mixle.role = "rows"}, %w: tensor<2x4xf32> {mixle.role = "parameter", mixle.of = @w},
      %a: tensor<4x!mixle.acc<f32>> {mixle.role = "accumulator", mixle.of = @gain})
      -> (tensor<4x!mixle.acc<f32>> {mixle.role = "accumulator", mixle.of = @gain}) {
    // expected-error @below {{adds what is whole over 'tp' to the gradient of @gain, which other uses sum over it}}
    %r = mixle.accumulate_rows @gain %a, %x data_dims = 1 : (tensor<4x!mixle.acc<f32>>, tensor<?x4xf32>) -> tensor<4x!mixle.acc<f32>>
    %s = mixle.accumulate_rows @gain %r, %w data_dims = 1 : (tensor<4x!mixle.acc<f32>>, tensor<2x4xf32>) -> tensor<4x!mixle.acc<f32>>
    mixle.return %s : tensor<4x!mixle.acc<f32>>
  }
}

// -----

mixle.program @whole attributes {kind = "training"} {
  dist.mesh @mesh ["tp"] sizes = [2] plan = {tp = 2 : i64}
  mixle.parameter @w : tensor<4x6xf32> factors = ["", "ffn"] file_shape = [4, 6] init = {kind = "constant", value = 0.0 : f64}
  mixle.entry @predict(%w: tensor<4x6xf32> {mixle.role = "parameter", mixle.of = @w}) -> tensor<4xf32> {
    // expected-error @below {{needs dimension 1 of operand 0 whole, but the plan splits it over 'tp'}}
    %s = mixle.reduce "sum" %w dims = [1] : tensor<4x6xf32> -> tensor<4xf32>
    mixle.return %s : tensor<4xf32>
  }
}

// -----

// expected-error @below {{has no mesh (run plan-check first)}}
mixle.program @meshless attributes {kind = "training"} {
}
