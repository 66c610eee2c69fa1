// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='stop-after=graph' | FileCheck %s
// RUN: sed 's/max_grad_norm = 1.0 : f64/optimizer = "rprop"/' %S/../Inputs/mini.mlir > %t.mlir
// RUN: not mixle-opt %t.mlir --mixle-pipeline='stop-after=graph' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: sed 's/mixle.role = "count"/mixle.role = "tally"/' %S/../Inputs/packed.mlir > %t.count.mlir
// RUN: not mixle-opt %t.count.mlir --mixle-pipeline='stop-after=graph' 2>&1 | FileCheck %s --check-prefix=COUNT

// CHECK: mixle.entry @evaluate
// CHECK-LABEL: mixle.entry @step
// CHECK: mixle.resolve @wte
// CHECK: mixle.exact_sum {{.*}} {square = true}
// CHECK: mixle.clip_coefficient
// CHECK: mixle.schedule
// CHECK-COUNT-3: mixle.adam_step {{.*}}weight_decay = 1.000000e-02

// UNKNOWN: error: unknown optimizer 'rprop'; known are sgd, adam and adamw
// COUNT: error: has no result of role 'count', which a step divides by or reports
