// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=2,tp=2' | FileCheck %s
// Without clipping there is no norm to judge.
// RUN: sed 's/, max_grad_norm = 1.0 : f64//' %S/../Inputs/mini.mlir > %t.mlir
// RUN: mixle-opt %t.mlir --mixle-pipeline='plan=dp_replicate=2,tp=2' | FileCheck %s --check-prefix=UNCLIPPED --implicit-check-not=gradient_norm --implicit-check-not=non_finite_norm
// UNCLIPPED: exec.commit_if @flag.tokens "no_valid_token"

// Slices and pads are read where they are used, in one kernel with their users.
// RUN: mixle-opt %S/../Inputs/packed.mlir --mixle-pipeline='plan=tp=2' | FileCheck %s --check-prefix=SLICE
// RUN: mixle-opt %S/../Inputs/packed.mlir --mixle-pipeline='plan=tp=2' | FileCheck %s --check-prefix=PAD
// SLICE: mixle.slice %{{.*}}[2 : 0, 1] : tensor<?x8x2x3xf32>
// SLICE-NEXT: mixle.silu
// SLICE-NEXT: mixle.slice %{{.*}}[2 : 1, 2] : tensor<?x8x2x3xf32>
// SLICE-NEXT: mixle.mul
// PAD: mixle.pad %{{.*}}[2 : 1, 0] : tensor<?x8x1x3xf32>
// PAD-NEXT: mixle.pad %{{.*}}[2 : 0, 1] : tensor<?x8x1x3xf32>
// PAD-NEXT: mixle.add

// CHECK-LABEL: exec.program @mini
// CHECK-LABEL: exec.entry @accumulate
// CHECK: exec.loop 1
// CHECK: exec.call "embedding_f32"
// CHECK-NEXT: exec.collective "all_reduce" "bit_or" ui32
// CHECK: exec.call "dot_tree_f32"
// CHECK: exec.collective "tree_all_reduce" "sum" f32
// Units are judged before anything is summed, and nothing of the state changes
// before all conditions for a commit hold, each with its own reason.
// CHECK-LABEL: exec.entry @step
// CHECK: exec.collective "all_reduce" "max" ui64 [@amax]
// CHECK-NEXT: exec.call "decide_units"
// CHECK-NEXT: exec.commit_if @flag.finite "non_finite"
// CHECK-NEXT: exec.retry @flag.rerun
// CHECK-NOT: exec.launch {{.*}}@p.
// CHECK: exec.call "flag_positive"
// CHECK-NEXT: exec.commit_if @flag.tokens "no_valid_token"
// CHECK-NEXT: exec.call "flag_finite" [@out.gradient_norm, @flag.norm]
// CHECK-NEXT: exec.commit_if @flag.norm "non_finite_norm"
// CHECK-COUNT-3: exec.launch {{.*}}@p.
// CHECK: exec.call "advance"
