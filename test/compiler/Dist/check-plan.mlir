// RUN: mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=dp_replicate=3,tp=2 stop-after=plan' | FileCheck %s
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=cp=2 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=8 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=GRANULE
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=0 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=ZERO
// More ranks than there is to split: no number of granules helps.
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=11 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=FEWER --implicit-check-not=--granules
// Cases B101: sizes that are no sizes.
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=-1 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=2,tp=2 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not mixle-opt %S/../Inputs/mini.mlir --mixle-pipeline='plan=tp=2 precision=bf16 stop-after=plan' 2>&1 | FileCheck %s --check-prefix=PRECISION

// CHECK: dist.mesh @mesh ["dp_replicate", "dp_shard", "tp", "pp", "cp"] sizes = [3, 1, 2, 1, 1]
// AXIS: cpu does not execute requested parallel axes: cp
// GRANULE: tp=8 cuts inside a granule of 'vocabulary' (10 in 4 granules of 3){{.*}}--granules vocabulary=N with N at least 8, or use tp = 1, 2, 3, 4
// FEWER: tp=11 is more than the 10 of 'vocabulary', of which every rank needs one; use tp = 1, 2, 3, 4
// ZERO: tp=0: tp must be an exact positive integer
// NEGATIVE: tp=-1: tp must be an exact positive integer
// TWICE: key 'tp' is given twice
// PRECISION: cpu does not support precision='bf16'
