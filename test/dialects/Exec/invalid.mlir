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

// -----

exec.program @p attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{(X3) has 1 runs of 1 phases on 2 microbatches}}
    exec.schedule 2 runs = [0, 0, 0] {
      exec.phase "forward.0" {
      }
    }
  }
}

// -----

exec.program @p attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{(X3) runs phase 0 on microbatch 1 twice, or one of them does not exist}}
    exec.schedule 2 runs = [0, 1, 0, 0, 1, 0] {
      exec.phase "forward.0" {
      }
    }
  }
}

// -----

exec.program @p attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{(X3) has a body of phases only, not of exec.fill}}
    exec.schedule 1 runs = [] {
      exec.fill @a #exec.scalar<"constant", "", 4, 0>
    }
  }
}
