// RUN: mixle-opt %s --pass-pipeline='builtin.module(exec.program(exec-plan-memory,exec-verify-ranks))' | FileCheck %s

// @a is dead when @c is made, so they share; @b lives with both.
exec.program @p attributes {config = {max_rows = 4 : i64}} {
  // CHECK-DAG: exec.buffer @a "scratch" f32[16 + 0 x rows] at 0
  // CHECK-DAG: exec.buffer @b "scratch" f32[0 + 4 x rows] at 64
  // CHECK-DAG: exec.buffer @c "scratch" f32[16 + 0 x rows] at 0
  // CHECK-DAG: exec.buffer @state "state" f64[3 + 0 x rows] at 0
  exec.buffer @a "scratch" f32[16 + 0 x rows]
  exec.buffer @b "scratch" f32[0 + 4 x rows]
  exec.buffer @c "scratch" f32[16 + 0 x rows]
  exec.buffer @state "state" f64[3 + 0 x rows]
  exec.entry @run inputs [] outputs [] {
    exec.fill @a #exec.scalar<"constant", "", 64, 0>
    exec.copy @a to @b #exec.scalar<"constant", "", 64, 0>
    exec.copy @b to @c #exec.scalar<"constant", "", 64, 0>
    exec.copy @c to @state #exec.scalar<"constant", "", 24, 0>
  }
}
