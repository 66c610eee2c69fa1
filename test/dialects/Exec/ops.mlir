// RUN: mixle-opt %s | mixle-opt | FileCheck %s

// CHECK-LABEL: exec.program @p
exec.program @p attributes {config = {kind = "training"}} {
  // CHECK: exec.parameter @w {decay = true}
  exec.parameter @w {decay = true}
  // CHECK: exec.buffer @a "state" f32[4 + 2 x rows] at 64 of @w slot "first"
  exec.buffer @a "state" f32[4 + 2 x rows] at 64 of @w slot "first"
  // CHECK: exec.buffer @copies "scratch" f32[4 + 0 x rows] {slots = 3 : i64}
  exec.buffer @copies "scratch" f32[4 + 0 x rows] {slots = 3 : i64}
  // CHECK: exec.update @u {node_id = "u"}
  exec.update @u {node_id = "u"}
  // CHECK: exec.kernel @k(%{{.*}}: tensor<?xf32>) -> tensor<?xf32>
  exec.kernel @k(%x: tensor<?xf32>) -> tensor<?xf32> {
    %y = mixle.neg %x : tensor<?xf32>
    exec.yield %y : tensor<?xf32>
  }
  // CHECK: exec.entry @run inputs [{buffer = @a, role = "rows"}] outputs []
  exec.entry @run inputs [{role = "rows", buffer = @a}] outputs [] {
    // CHECK: exec.loop 2
    exec.loop 2 {
      // CHECK: exec.launch @k [@a, @a] [#exec.scalar<"rows", "", 1, 0>]
      exec.launch @k [@a, @a] [#exec.scalar<"rows", "", 1, 0>]
    }
    // CHECK: exec.schedule 2 runs = [0, 0, 0, 0, 1, 1] {
    exec.schedule 2 runs = [0, 0, 0, 0, 1, 1] {
      // CHECK: exec.phase "forward.0" {
      exec.phase "forward.0" {
        // CHECK: exec.recv @a <"rows", "", 4, 0> f32 stage 0 for @u
        exec.recv @a #exec.scalar<"rows", "", 4, 0> f32 stage 0 for @u
        // CHECK: exec.send @a <"rows", "", 4, 0> f32 stage 2 for @u
        exec.send @a #exec.scalar<"rows", "", 4, 0> f32 stage 2 for @u
      }
    }
    // CHECK: exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 4, 0>] over ["pp"] for [@u] {stages = array<i64: 0, 2>}
    exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 4, 0>] over ["pp"] for [@u] {stages = array<i64: 0, 2>}
    // CHECK: exec.call "schedule" [@a] [] {floats = array<f64: 1.000000e+00>, text = "constant"}
    exec.call "schedule" [@a] [] {floats = array<f64: 1.0>, text = "constant"}
    // CHECK: exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 4, 0>] over ["tp"] for [@u]
    exec.collective "all_reduce" "sum" i64 [@a] [#exec.scalar<"constant", "", 4, 0>] over ["tp"] for [@u]
    // CHECK: exec.copy @a to @a
    exec.copy @a to @a #exec.scalar<"constant", "", 4, 0>
    // CHECK: exec.fill @a
    exec.fill @a #exec.scalar<"constant", "", 4, 0>
    // CHECK: exec.retry @a
    exec.retry @a
    // CHECK: exec.commit_if @a "reason"
    exec.commit_if @a "reason"
  }
}
