// RUN: mixle-opt %S/../Inputs/mini.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators))' | FileCheck %s
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators))'

// All uses of one parameter add into one accumulator, and no gradient tensor
// of a parameter is left.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK-SAME: %[[WTE:arg[0-9]+]]: tensor<10x4x!mixle.acc<f32>> {mixle.of = @wte, mixle.role = "accumulator"}
// CHECK: %[[A:.*]] = mixle.accumulate_dot @wte %[[WTE]]
// CHECK-NOT: mixle.scatter_add
// CHECK: mixle.accumulate_scatter @wte %[[A]]

// What is packed into one product has an accumulator each: the slice of the
// product's gradient is the product with the slice, and of a sum of pads that
// slice is what was padded.
// RUN: mixle-opt %S/../Inputs/packed.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators))' | FileCheck %s --check-prefix=PACKED
// PACKED-LABEL: mixle.entry @accumulate
// PACKED: %[[DUP:.*]] = mixle.pad %[[UP:[0-9]+]][2 : 1, 0]
// PACKED: %[[DGATE:.*]] = mixle.pad %[[GATE:[0-9]+]][2 : 0, 1]
// PACKED: %[[D:.*]] = mixle.add %[[DUP]], %[[DGATE]]
// PACKED-NOT: mixle.slice
// PACKED: mixle.dot_general %[[D]], %
// PACKED-NOT: mixle.slice
// PACKED-DAG: mixle.accumulate_dot @gate %{{[^,]*}}, %[[GATE]], %
// PACKED-DAG: mixle.accumulate_dot @up %{{[^,]*}}, %[[UP]], %
// PACKED-DAG: mixle.accumulate_rows @gate_bias %{{[^,]*}}, %[[GATE]] data_dims = 2
// PACKED-DAG: mixle.accumulate_rows @up_bias %{{[^,]*}}, %[[UP]] data_dims = 2

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
