//===- Verifier.h - What a program says, checked ----------------*- C++ -*-===//
//
// The parts of verifyProgram, in the order in which they run: each relies on
// what the earlier ones established. Every function returns the first problem.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_PROGRAM_VERIFIER_H
#define MIXLE_RUNTIME_PROGRAM_VERIFIER_H

#include "mixle/ParallelPlan.h"
#include "mixle/Status.h"
#include "runtime/schema/program_generated.h"

#include <cstdint>
#include <vector>

namespace mixle::runtime {

struct VerifierState {
  const fb::ProgramT &program;
  ParallelPlan plan;
  /// Work that may still be done, in evaluations of a command's scalars: a
  /// bound on the time (a few tenths of a second at most).
  int64_t budget = int64_t(1) << 23;
};

/// Updates: enums, exactness, evidence.
Status verifyUpdates(const VerifierState &state);

/// Kernels' names and the ELF images.
Status verifyCode(const fb::ProgramT &program);

/// Buffers: sizes, places, what they hold.
Status verifyBuffers(const VerifierState &state, const fb::RankClassT &body);

/// Elements that a valid buffer holds for `rows` rows.
inline int64_t elementsOf(const fb::BufferT &buffer, int64_t rows) {
  return buffer.fixed + buffer.per_row * rows;
}

/// An entry: bindings and commands.
Status verifyEntry(VerifierState &state, const fb::RankClassT &body,
                   const fb::EntryT &entry);

/// Checks mesh axes of an update or collective: known and distinct.
Status verifyAxes(const std::vector<fb::Axis> &axes);

/// Checks the coordinates along pp that take part in an exchange over `axes`:
/// increasing, within the plan; none where pp is not among the axes.
Status verifyStages(const VerifierState &state,
                    const std::vector<fb::Axis> &axes,
                    const std::vector<int32_t> &stages);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_VERIFIER_H
