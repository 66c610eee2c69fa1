// RUN: mixle-opt %S/../Inputs/mini.mlir --pass-pipeline='builtin.module(mixle.program(mixle-differentiate,mixle-form-accumulators,mixle-decompose))' | FileCheck %s

// The loss is never a composite again, and the backward pass shares the
// forward pass's row statistics.
// CHECK-NOT: mixle.softmax_cross_entropy %
// CHECK-LABEL: mixle.entry @accumulate
// CHECK: %[[MAX:.*]] = mixle.row_max
// CHECK: %[[SUM:.*]] = mixle.row_sum_exp %{{.*}}, %[[MAX]]
// CHECK: mixle.select_label
// CHECK: mixle.cross_entropy %[[MAX]], %[[SUM]]
// CHECK-NOT: mixle.row_max
// CHECK-NOT: mixle.row_sum_exp
// CHECK: mixle.softmax_cross_entropy_grad %{{.*}}, %{{.*}}, %[[MAX]], %[[SUM]]
