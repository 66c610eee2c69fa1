// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='stop-after=graph' | FileCheck %s
// RUN: sed 's/granules = {tokens = 4 : i64, ffn = 4 : i64, vocabulary = 4 : i64}, //' %S/../Inputs/mini.mlir > %t.mlir
// RUN: mixle-opt %t.mlir --mixle-pipeline='stop-after=graph' | FileCheck %s --check-prefix=DEFAULT

// A contraction over a named factor has granules of ceil(n / G); one over an
// unnamed dimension is a plain chain.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK: mixle.dot_general %{{.*}} contract = [2] x [0] {mixle.phase = "forward", mixle.primal = {{.*}}}
// CHECK: mixle.dot_general %{{.*}} contract = [2] x [0] {granule_dim = 0 : i64, granule_size = 2 : i64, granules = 4 : i64
// CHECK: mixle.row_sum_exp {{.*}} {granule_size = 3 : i64, granules = 4 : i64
// CHECK: mixle.accumulate_dot @wte {{.*}} block = 4

// Defaults follow from the graph: two blocks in a sequence of 8 tokens.
// DEFAULT: granules = {ffn = 8 : i64, rows = 128 : i64, sequence = 1 : i64, tokens = 4 : i64, vocabulary = 8 : i64}
