//===- SessionProgram.h - A language model without kernels ------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_TRAINING_SESSIONPROGRAM_H
#define MIXLE_TEST_RUNTIME_TRAINING_SESSIONPROGRAM_H

#include "runtime/program/ProgramFile.h"

namespace mixle::runtime::test {

struct SessionSizes {
  int64_t vocabulary = 7;
  int64_t sequence = 4;
  int64_t batch = 8;
};

/// A training program with the entries, roles and accumulators that the
/// compiler gives its programs, of library functions only, for any
/// dp_replicate x dp_shard x tp plan with microbatches and accumulation:
///
///   wte   [V, V]  rows split over tp and, flat, over dp_shard; in (0.5, 1.5)
///   head  [V, V]  rows split over tp, not trained
///
/// A token's loss is wte[token, label]. The gradient of wte at row `label` sums
/// the rows wte[token]; a step makes their mean the state "momentum" and leaves
/// the parameters, so everything can be foretold. predict: wte[token] head^T.
/// The logical ids are GPT-2's: "transformer.wte.weight"; the constant "scale"
/// is 1.5.
fb::ProgramT sessionProgram(const ParallelPlan &plan,
                            const SessionSizes &sizes = SessionSizes());

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_TRAINING_SESSIONPROGRAM_H
