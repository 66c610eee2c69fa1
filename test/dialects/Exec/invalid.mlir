// RUN: mixle-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

exec.program @p attributes {config = {}} {
  // expected-error @below {{(X1) unknown buffer kind 'heap'}}
  exec.buffer @b "heap" f32[4 + 0 x rows]
}

// -----

exec.program @p attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{(X2) unknown collective 'gossip'}}
    exec.collective "gossip" "sum" f32 [] [] over ["tp"] for [@u]
  }
}

// -----

exec.program @p attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{(X2) carries out no update}}
    exec.collective "all_reduce" "sum" f32 [] [] over ["tp"] for []
  }
}

// -----

// expected-error @below {{unknown scalar kind 'random'}}
"test.op"() {s = #exec.scalar<"random", "", 0, 0>} : () -> ()
