// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=2,tp=2 stop-after=plan' | mixle-opt --pass-pipeline='builtin.module(mixle.program(dist-place))' | FileCheck %s
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(dist-place))'

// Column-parallel then row-parallel: the second product is partial over tp.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK-SAME: dist.placement = #dist.placement<{{\[\[}}"dp_replicate"], []], [], "">, mixle.role = "tokens"
// CHECK: mixle.embedding {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], []], ["tp"], "select">
// CHECK: mixle.dot_general {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], ["tp"]], [], "">
// CHECK: mixle.dot_general {{.*}}#dist.placement<{{\[\[}}"dp_replicate"], [], []], ["tp"], "tree">

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
