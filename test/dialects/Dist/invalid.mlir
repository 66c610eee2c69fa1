// RUN: mixle-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// expected-error @below {{(L1) mesh axis "tp" is used twice}}
"test.op"() {p = #dist.placement<[["tp"], ["tp"]], [], "">} : () -> ()

// -----

// expected-error @below {{(L2) partial axes and their merge go together}}
"test.op"() {p = #dist.placement<[[]], ["tp"], "">} : () -> ()

// -----

// An axis that the mesh does not have (case B101).
// expected-error @below {{unknown mesh axis "data"}}
"test.op"() {p = #dist.placement<[["data"]], [], "">} : () -> ()

// -----

// expected-error @below {{(M1) axis "tp" has size 0; it must be positive}}
dist.mesh @mesh ["tp"] sizes = [0] plan = {}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{(U1) a distributed collective cannot claim guaranteed numerical exactness}}
    %y = dist.update "u" "gradient" "all_reduce" over ["dp_shard"] %x {state_layout = "replicated", exact = true, reduction_order = "integer", error_bound = "0", merge = "integer"} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{(U2) numerics evidence is all or nothing}}
    %y = dist.update "u" "gradient" "all_reduce" over ["dp_shard"] %x {state_layout = "replicated", reduction_order = "integer", error_bound = "0", merge = "integer", determinism_observed = true} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{(U3) unknown payload 'weights'}}
    %y = dist.update "u" "weights" "all_reduce" over [] %x {state_layout = "replicated", reduction_order = "integer", error_bound = "0", merge = "integer"} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{(U4) node_id must not be blank}}
    %y = dist.update " " "gradient" "all_reduce" over [] %x {state_layout = "replicated", reduction_order = "integer", error_bound = "0", merge = "integer"} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

// Two dimensions given for a tensor of one (case B101).
mixle.program @p attributes {kind = "training"} {
  // expected-error @below {{(L3) placement #dist.placement<[["tp"], []], [], ""> of argument 0 has 2 dimensions, the argument has 1}}
  mixle.entry @e(%x: tensor<4xf32> {dist.placement = #dist.placement<[["tp"], []], [], "">}) -> tensor<4xf32> {
    mixle.return %x : tensor<4xf32>
  }
}

// -----

mixle.program @p attributes {kind = "training"} {
  mixle.entry @e(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{(L3) placement #dist.placement<[], [], ""> has 0 dimensions, the value 'tensor<4xf32>' has 1}}
    %y = mixle.neg %x {dist.placements = [#dist.placement<[], [], "">]} : tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}
