// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=pp=2 stop-after=plan' | mixle-opt --pass-pipeline='builtin.module(mixle.program(dist-assign-stages))' | FileCheck %s
// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=pp=2 stop-after=dist' | FileCheck %s --check-prefix=DIST
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=pp=9 stop-after=dist' 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(dist-assign-stages,dist-insert-transfers))'

// Cut after the residual addition: the tied table is on both stages, and each of
// its gradients is accumulated where the operands are.
// CHECK: mixle.parameter @wte {{.*}}dist.stages = array<i64: 0, 1>
// CHECK: mixle.parameter @up {{.*}}dist.stages = array<i64: 0>
// CHECK: mixle.parameter @down {{.*}}dist.stages = array<i64: 0>
// CHECK-LABEL: mixle.entry @accumulate
// CHECK: mixle.embedding {{.*}}dist.stages = array<i64: 0>
// CHECK: mixle.add {{.*}}dist.stages = array<i64: 0>
// CHECK: mixle.dot_general {{.*}}dist.stages = array<i64: 1>
// CHECK: mixle.accumulate_dot @wte {{.*}}dist.stages = array<i64: 1>
// CHECK: mixle.accumulate_scatter @wte {{.*}}dist.stages = array<i64: 0>
// CHECK-LABEL: mixle.entry @step
// The norm counts the tied table once, the optimizer steps on both stages.
// CHECK: mixle.resolve @wte {{.*}}dist.stages = array<i64: 0, 1>
// CHECK: mixle.exact_sum {{.*}}dist.stages = array<i64: 0>
// CHECK: mixle.adam_step {{.*}}dist.stages = array<i64: 0, 1>

// The hidden states go forward, their cotangents back; the tied gradient is summed
// over the stages that have it, the loss over all.
// DIST-LABEL: mixle.entry @accumulate
// DIST: dist.update "accumulate.p2p.0" "activation" "p2p" over ["pp"]
// DIST-SAME: dist.stages = array<i64: 0, 1>
// DIST: dist.update "accumulate.p2p.1" "activation" "p2p" over ["pp"]
// DIST-SAME: dist.stages = array<i64: 1, 0>
// DIST-LABEL: mixle.entry @step
// DIST: dist.update "wte:accumulator" "gradient" "all_reduce" over ["pp"]
// DIST-SAME: dist.stages = array<i64: 0, 1>

// MANY: backend cpu: pp = 9 with 1 stage(s) a rank needs 9 stages, but the model can be cut into

// expected-error @below {{has no mesh (run plan-check first)}}
mixle.program @meshless attributes {kind = "training"} {
}

// -----

// expected-error @below {{has no entry @accumulate to cut into stages}}
mixle.program @empty attributes {kind = "training"} {
  dist.mesh @mesh ["pp"] sizes = [2] plan = {pp = 2 : i64}
}
