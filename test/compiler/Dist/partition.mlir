// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_shard=3,tp=2 stop-after=dist' | FileCheck %s

// A rank holds whole granules: 10 words in granules of 3 are 6 a rank, padded.
// Under dp_shard it keeps a flat third of that (24 / 3), gathered when needed.
// CHECK-LABEL: mixle.entry @accumulate
// CHECK-SAME: tensor<8xf32> {dist.flat_shard, dist.global_type = tensor<10x4xf32>
// CHECK: dist.update "wte:gather:accumulate:forward" {{.*}} : tensor<8xf32> -> tensor<6x4xf32>
// CHECK: mixle.dot_general {{.*}} : tensor<?x8x4xf32>, tensor<4x4xf32> -> tensor<?x8x4xf32>
// CHECK-LABEL: mixle.entry @step
// CHECK: mixle.resolve @wte {{.*}} -> tensor<8xf32>
