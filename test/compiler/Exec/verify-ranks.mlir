// RUN: mixle-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(exec.program(exec-verify-ranks))'

exec.program @unwritten attributes {config = {}} {
  exec.buffer @a "scratch" f32[4 + 0 x rows] at 0
  exec.buffer @b "scratch" f32[4 + 0 x rows] at 64
  exec.entry @run inputs [] outputs [] {
    // expected-error @below {{reads buffer 'a' before anything wrote it}}
    exec.copy @a to @b #exec.scalar<"constant", "", 16, 0>
  }
}

// -----

exec.program @overlap attributes {config = {}} {
  exec.buffer @a "scratch" f32[32 + 0 x rows] at 0
  exec.buffer @b "scratch" f32[32 + 0 x rows] at 64
  // expected-error @below {{buffers 'a' and 'b' overlap in the arena while both are in use}}
  exec.entry @run inputs [] outputs [] {
    exec.fill @a #exec.scalar<"constant", "", 128, 0>
    exec.copy @a to @b #exec.scalar<"constant", "", 128, 0>
  }
}

// -----

exec.program @idle attributes {config = {}} {
  exec.entry @run inputs [] outputs [] {
  }
  // expected-error @below {{update 'lost' is carried out by no command}}
  exec.update @lost {node_id = "lost"}
}
