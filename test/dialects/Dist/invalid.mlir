// RUN: mixle-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

// expected-error @below {{(L1) mesh axis "tp" is used twice}}
"test.op"() {p = #dist.placement<[["tp"], ["tp"]], [], "">} : () -> ()

// -----

// expected-error @below {{(L2) partial axes and their merge go together}}
"test.op"() {p = #dist.placement<[[]], ["tp"], "">} : () -> ()

// -----

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
