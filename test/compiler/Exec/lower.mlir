// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=2,tp=2' | FileCheck %s

// CHECK-LABEL: exec.program @mini
// CHECK-LABEL: exec.entry @accumulate
// CHECK: exec.loop 1
// CHECK: exec.call "embedding_f32"
// CHECK-NEXT: exec.collective "all_reduce" "bit_or" ui32
// CHECK: exec.call "dot_tree_f32"
// CHECK: exec.collective "tree_all_reduce" "sum" f32
// Units are judged before anything is summed, and nothing of the state changes
// before both conditions for a commit hold.
// CHECK-LABEL: exec.entry @step
// CHECK: exec.collective "all_reduce" "max" ui64 [@amax]
// CHECK-NEXT: exec.call "decide_units"
// CHECK-NEXT: exec.commit_if @flag.finite "non_finite"
// CHECK-NEXT: exec.retry @flag.rerun
// CHECK-NOT: exec.launch {{.*}}@p.
// CHECK: exec.call "check_commit"
// CHECK-NEXT: exec.commit_if @flag.commit "no_valid_token"
// CHECK-COUNT-3: exec.launch {{.*}}@p.
// CHECK: exec.call "advance"
