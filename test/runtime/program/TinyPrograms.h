//===- TinyPrograms.h - A whole training program, by hand -------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_PROGRAM_TINYPROGRAMS_H
#define MIXLE_TEST_RUNTIME_PROGRAM_TINYPROGRAMS_H

#include "test/runtime/program/ProgramBuilder.h"

namespace mixle::runtime::test {

/// Sizes of the tiny program. A row is `tokens` ids and features.
struct TinySizes {
  static constexpr int64_t tokens = 4;
  static constexpr int64_t vocabulary = 7;
  static constexpr int64_t width = 3;
  static constexpr int64_t maxRows = 5;
};

/// A training program for any dp_replicate x dp_shard x tp plan, of library
/// functions only. One parameter, "table" [vocabulary, width], has its rows
/// split over tp and, flat, over dp_shard. `accumulate` scatters the features
/// of a row to the table rows of its ids, in `plan.microbatches` iterations;
/// `step` sums over ranks, decides units, and makes the mean of the features at
/// each id (sum over counted ids of the window) the table's new value; the loss
/// is the exact sum of all features. Ids of -100 count for nothing.
///
/// Inputs of accumulate: "tokens" i32, "features" f32. Outputs of step: "loss"
/// f64, "count" i64, "norm" f64, "rate" f64.
fb::ProgramT tinyTrainingProgram(const ParallelPlan &plan);

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_PROGRAM_TINYPROGRAMS_H
