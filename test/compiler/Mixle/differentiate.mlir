// RUN: mixle-opt %S/../Inputs/mini.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate))' | FileCheck %s
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(mixle-differentiate))'

// The gradients entry returns the two running sums and one gradient for each
// parameter; the tied table has two contributions, added in reverse order.
// CHECK-LABEL: mixle.entry @gradients
// CHECK-SAME: mixle.of = @wte, mixle.role = "gradient"
// CHECK-SAME: mixle.of = @up, mixle.role = "gradient"
// CHECK-SAME: mixle.of = @down, mixle.role = "gradient"
// CHECK: mixle.softmax_cross_entropy_grad
// CHECK-SAME: mixle.phase = "backward"
// CHECK: %[[HEAD:.*]] = mixle.transpose
// CHECK: %[[LOOKUP:.*]] = mixle.scatter_add
// CHECK: mixle.add %[[HEAD]], %[[LOOKUP]]

// Parameters are packed once more in the backward pass.
// RUN: mixle-opt %S/../Inputs/packed.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate))' | FileCheck %s --check-prefix=PACKED
// PACKED-LABEL: mixle.entry @gradients
// PACKED: %[[FORWARD:.*]] = mixle.concat %{{.*}} dim = 0 {mixle.phase = "forward", mixle.primal = {{.*}}} : tensor<1x6x4xf32>
// PACKED: mixle.dot_general %{{[^,]*}}, %[[FORWARD]] contract
// PACKED: %[[BACKWARD:.*]] = mixle.concat %{{.*}} dim = 0 {mixle.phase = "backward", mixle.primal = {{.*}}} : tensor<1x6x4xf32>
// PACKED-NEXT: mixle.dot_general %{{[^,]*}}, %[[BACKWARD]] contract

// expected-error @below {{has no entry @loss to differentiate}}
mixle.program @empty attributes {kind = "training"} {
}

// -----

mixle.program @unused attributes {kind = "training"} {
  // expected-error @below {{does not influence the loss; mark it trained = false or remove it}}
  mixle.parameter @w : tensor<4xf32> factors = [""] file_shape = [4] init = {kind = "constant", value = 0.0 : f64}
  mixle.entry @loss(%x: tensor<?xf32> {mixle.role = "rows"}, %l: tensor<!mixle.exact<f32>> {mixle.role = "loss"}, %w: tensor<4xf32> {mixle.role = "parameter", mixle.of = @w}) -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}) {
    %s = mixle.exact_sum %l, %x : (tensor<!mixle.exact<f32>>, tensor<?xf32>) -> tensor<!mixle.exact<f32>>
    mixle.return %s : tensor<!mixle.exact<f32>>
  }
}
