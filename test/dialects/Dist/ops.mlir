// RUN: mixle-opt %s | mixle-opt | FileCheck %s

// CHECK: dist.mesh @mesh ["dp_replicate", "tp"] sizes = [2, 4] plan = {tp = 4 : i64}
dist.mesh @mesh ["dp_replicate", "tp"] sizes = [2, 4] plan = {tp = 4 : i64}

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32> {dist.placement = #dist.placement<[[]], ["tp"], "tree">}) -> tensor<4xf32> {
    // CHECK: dist.update "u" "activation" "all_reduce" over ["tp"]
    // CHECK-SAME: numerics_evidence_id = "run-1", numerics_sample_count = 3
    %y = dist.update "u" "activation" "all_reduce" over ["tp"] %x {state_layout = "replicated", reduction_order = "tree", error_bound = "0", merge = "tree", determinism_observed = true, maximum_absolute_error = 0.0 : f64, maximum_relative_error = 0.0 : f64, numerics_evidence_id = "run-1", numerics_sample_count = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}
