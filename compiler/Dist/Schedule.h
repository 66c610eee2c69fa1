//===- Schedule.h - Pipeline schedules --------------------------*- C++ -*-===//
//
// In which order each rank of a pipeline works on microbatches. A schedule is
// the record of a simulated run, so an order in which a rank could wait forever
// cannot come out; sends never wait (Communicator.h).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_DIST_SCHEDULE_H
#define MIXLE_COMPILER_DIST_SCHEDULE_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace mlir::dist {

enum class PipelinePhase { Forward, Backward, Weight };

/// One phase of one chunk of a rank's model, on one microbatch.
struct PipelineRun {
  PipelinePhase phase;
  int64_t chunk;
  int64_t microbatch;
  int64_t slot; ///< copy of the chunk's buffers that holds the microbatch
};

struct PipelineSchedule {
  std::vector<std::vector<PipelineRun>> ranks;
  /// Per rank and chunk: microbatches alive at once.
  std::vector<std::vector<int64_t>> slots;
  /// Part of the ranks' time in which they wait, where a forward takes 1 and a
  /// backward 2 (zb-h1: 1, and 1 for the weights), of a stage.
  double bubble = 0;
};

/// gpipe (all forwards, then all backwards; Huang et al. 2019), 1f1b (one
/// forward, one backward, at most `ranks - r` microbatches alive on rank r;
/// Narayanan et al. 2019), interleaved (several chunks a rank; Narayanan et al.
/// 2021), zb-h1 (weight gradients apart, in what would be idle time, with 1f1b's
/// memory; Qi et al. 2023).
bool isPipelineSchedule(std::string_view name);

/// Whether the schedule takes weight gradients apart from input gradients.
bool splitsBackward(std::string_view name);

/// A schedule of that name; ranks, chunks and microbatches are at least 1. Any
/// schedule takes any number of chunks.
PipelineSchedule makeSchedule(std::string_view name, int64_t ranks,
                              int64_t chunks, int64_t microbatches);

} // namespace mlir::dist

#endif // MIXLE_COMPILER_DIST_SCHEDULE_H
