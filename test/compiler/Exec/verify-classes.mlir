// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(exec-verify-classes)'

// A message and a sum that both stages agree on, in a schedule.
module {
  exec.program @first attributes {config = {stage = 0 : i64}} {
    exec.buffer @x "scratch" f32[0 + 4 x rows] at 0
    exec.buffer @sum "accumulator" i64[1 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.schedule 2 runs = [0, 0, 0, 0, 1, 1] {
        exec.phase "forward.0" {
          exec.send @x #exec.scalar<"rows", "", 4, 0> f32 stage 1 for @p2p
        }
      }
      exec.collective "all_reduce" "sum" i64 [@sum] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@total]
    }
  }
  exec.program @second attributes {config = {stage = 1 : i64}} {
    exec.buffer @x "scratch" f32[0 + 4 x rows] at 0
    exec.buffer @sum "accumulator" i64[1 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.schedule 2 runs = [0, 0, 0, 0, 1, 1] {
        exec.phase "forward.0" {
          exec.recv @x #exec.scalar<"rows", "", 4, 0> f32 stage 0 for @p2p
        }
      }
      exec.collective "all_reduce" "sum" i64 [@sum] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@total]
    }
  }
}

// -----

// expected-error @below {{entry 'run' never ends: stage 0 waits in command 0 (recv of 'there'); stage 1 waits in command 0 (recv of 'back')}}
module {
  exec.program @first attributes {config = {stage = 0 : i64}} {
    exec.buffer @x "scratch" f32[4 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.recv @x #exec.scalar<"constant", "", 4, 0> f32 stage 1 for @there
      exec.send @x #exec.scalar<"constant", "", 4, 0> f32 stage 1 for @back
    }
  }
  exec.program @second attributes {config = {stage = 1 : i64}} {
    exec.buffer @x "scratch" f32[4 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.recv @x #exec.scalar<"constant", "", 4, 0> f32 stage 0 for @back
      exec.send @x #exec.scalar<"constant", "", 4, 0> f32 stage 0 for @there
    }
  }
}

// -----

module {
  exec.program @first attributes {config = {stage = 0 : i64}} {
    exec.buffer @x "scratch" f32[4 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      // expected-error @below {{entry 'run': stage 0 sends 'lost' to stage 1, which never receives it}}
      exec.send @x #exec.scalar<"constant", "", 4, 0> f32 stage 1 for @lost
    }
  }
  exec.program @second attributes {config = {stage = 1 : i64}} {
    exec.entry @run inputs [] outputs [] {
    }
  }
}

// -----

module {
  exec.program @first attributes {config = {stage = 0 : i64}} {
    exec.buffer @x "scratch" f32[4 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.send @x #exec.scalar<"constant", "", 4, 0> f32 stage 1 for @p2p
    }
  }
  exec.program @second attributes {config = {stage = 1 : i64}} {
    exec.buffer @x "scratch" f32[8 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      // expected-error @below {{entry 'run': stage 1 receives 'p2p' from stage 0 in another size, type or order than it is sent}}
      exec.recv @x #exec.scalar<"constant", "", 8, 0> f32 stage 0 for @p2p
    }
  }
}

// -----

module {
  exec.program @first attributes {config = {stage = 0 : i64}} {
    exec.buffer @a "accumulator" i64[1 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      // expected-error @below {{entry 'run': stages do not exchange the same: stage 0 waits in command 0 (collective of 'one'), stage 1 waits in command 0 (collective of 'two')}}
      exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@one]
      exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@two]
    }
  }
  exec.program @second attributes {config = {stage = 1 : i64}} {
    exec.buffer @a "accumulator" i64[1 + 0 x rows] at 0
    exec.entry @run inputs [] outputs [] {
      exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@two]
      exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 1, 0>] over ["pp"] for [@one]
    }
  }
}
