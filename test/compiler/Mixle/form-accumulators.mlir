// RUN: mixle-opt %S/../Inputs/mini.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators))' | FileCheck %s
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators))'

// All uses of one parameter add into one accumulator, and no gradient tensor
// of a parameter is left.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK-SAME: %[[WTE:arg[0-9]+]]: tensor<10x4x!mixle.acc<f32>> {mixle.of = @wte, mixle.role = "accumulator"}
// CHECK: %[[A:.*]] = mixle.accumulate_dot @wte %[[WTE]]
// CHECK-NOT: mixle.scatter_add
// CHECK: mixle.accumulate_scatter @wte %[[A]]

mixle.program @quadratic attributes {kind = "training"} {
  mixle.parameter @w : tensor<f32> factors = [] file_shape = [1] init = {kind = "constant", value = 0.0 : f64}
  // expected-error @below {{the gradient of @w is not a sum over data}}
  mixle.entry @loss(%x: tensor<?xf32> {mixle.role = "rows"}, %l: tensor<!mixle.exact<f32>> {mixle.role = "loss"}, %w: tensor<f32> {mixle.role = "parameter", mixle.of = @w}) -> (tensor<!mixle.exact<f32>> {mixle.role = "loss"}) {
    // expected-note @below {{this contribution cannot become an accumulator}}
    %q = mixle.mul %w, %w : tensor<f32>
    %s = mixle.exact_sum %l, %q : (tensor<!mixle.exact<f32>>, tensor<f32>) -> tensor<!mixle.exact<f32>>
    mixle.return %s : tensor<!mixle.exact<f32>>
  }
}
