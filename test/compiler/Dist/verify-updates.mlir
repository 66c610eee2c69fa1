// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(mixle.program(dist-verify))'

mixle.program @missing attributes {kind = "training"} {
  mixle.entry @predict(%x: tensor<4xf32> {dist.placement = #dist.placement<[[]], ["tp"], "tree">}) -> tensor<4xf32> {
    // expected-error @below {{uses operand 0 while it is still a partial sum over 'tp': an update is missing}}
    %y = mixle.neg %x : tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

mixle.program @twice attributes {kind = "training"} {
  mixle.entry @predict(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{reduces over 'tp', over which its operand is not partial}}
    %y = dist.update "again" "activation" "all_reduce" over ["tp"] %x {state_layout = "replicated", reduction_order = "tree", error_bound = "0", merge = "tree"} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}

// -----

mixle.program @wrong attributes {kind = "training"} {
  mixle.entry @predict(%x: tensor<4xf32> {dist.placement = #dist.placement<[[]], ["tp"], "max">}) -> tensor<4xf32> {
    // expected-error @below {{merges by 'tree' what must merge by 'max'}}
    %y = dist.update "sum" "activation" "all_reduce" over ["tp"] %x {state_layout = "replicated", reduction_order = "tree", error_bound = "0", merge = "tree"} : tensor<4xf32> -> tensor<4xf32>
    mixle.return %y : tensor<4xf32>
  }
}
