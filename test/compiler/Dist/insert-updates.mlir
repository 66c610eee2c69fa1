// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=2,dp_shard=2,tp=2 stop-after=dist' | FileCheck %s
// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=1 stop-after=dist' | FileCheck %s --check-prefix=ONE

// One rank exchanges nothing.
// ONE-NOT: dist.update

// Parameters are gathered in each pass; a tree partial is completed before the
// residual addition; no exchange claims to be exact.
// CHECK-NOT: exact = true
// CHECK-LABEL: mixle.entry @accumulate
// CHECK: dist.update "down:gather:accumulate:forward" "parameter" "all_gather" over ["dp_shard"]
// CHECK: %[[PARTIAL:.*]] = mixle.dot_general {{.*}}["tp"], "tree"
// CHECK-NEXT: %[[WHOLE:.*]] = dist.update {{.*}} "activation" "all_reduce" over ["tp"] %[[PARTIAL]]
// CHECK: mixle.add {{.*}}%[[WHOLE]]
// CHECK: dist.update "down:gather:accumulate:backward" "parameter" "all_gather" over ["dp_shard"]

// Gradients: scattered over dp_shard, then summed over dp_replicate; the norm is
// a sum over the shards.
// CHECK-LABEL: mixle.entry @step
// CHECK: %[[SCATTERED:.*]] = dist.update "wte:accumulator:dp_shard" "gradient" "reduce_scatter" over ["dp_shard"]
// CHECK: dist.update "wte:accumulator" "gradient" "all_reduce" over ["dp_replicate"] %[[SCATTERED]]
// CHECK: dist.update "step.exact_sum.0" "sufficient_statistic" "all_reduce" over ["dp_shard", "tp"]
