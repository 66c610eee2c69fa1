//===- ScheduleTest.cpp - Orders in which a pipeline works ----------------===//

#include "compiler/Dist/Schedule.h"
#include <gtest/gtest.h>

#include <map>
#include <string>

using namespace mlir::dist;

namespace {

using Step = std::pair<PipelinePhase, int64_t>; // phase and stage

std::vector<PipelinePhase> phasesOf(std::string_view name) {
  std::vector<PipelinePhase> phases = {PipelinePhase::Forward,
                                       PipelinePhase::Backward};
  if (splitsBackward(name))
    phases.push_back(PipelinePhase::Weight);
  return phases;
}

/// Runs all ranks; each waits for the message that a phase needs. Returns how
/// many phases were left when nobody could go on.
int64_t replay(const PipelineSchedule &schedule, int64_t ranks, int64_t chunks) {
  std::map<std::pair<Step, int64_t>, bool> done;
  std::vector<size_t> at(ranks, 0);
  int64_t left = 0;
  for (const auto &runs : schedule.ranks)
    left += static_cast<int64_t>(runs.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t r = 0; r < ranks; ++r)
      while (at[r] < schedule.ranks[r].size()) {
        const PipelineRun &run = schedule.ranks[r][at[r]];
        int64_t stage = run.chunk * ranks + r;
        bool ready = true;
        auto needs = [&](PipelinePhase phase, int64_t s) {
          ready = ready && done.count({{phase, s}, run.microbatch});
        };
        if (run.phase == PipelinePhase::Forward && stage > 0)
          needs(PipelinePhase::Forward, stage - 1);
        if (run.phase != PipelinePhase::Forward)
          needs(PipelinePhase::Forward, stage);
        if (run.phase == PipelinePhase::Backward && stage + 1 < ranks * chunks)
          needs(PipelinePhase::Backward, stage + 1);
        if (run.phase == PipelinePhase::Weight)
          needs(PipelinePhase::Backward, stage);
        if (!ready)
          break;
        done[{{run.phase, stage}, run.microbatch}] = true;
        ++at[r];
        --left;
        moved = true;
      }
  }
  return left;
}

class ScheduleTest : public testing::TestWithParam<const char *> {};

TEST_P(ScheduleTest, EveryPhaseOnceInOrderAndNobodyWaitsForever) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t chunks = 1; chunks <= 3; ++chunks)
      for (int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(chunks) +
                     " chunks, " + std::to_string(microbatches) + " microbatches");
        PipelineSchedule schedule =
            makeSchedule(GetParam(), ranks, chunks, microbatches);
        ASSERT_EQ(static_cast<size_t>(ranks), schedule.ranks.size());
        for (int64_t r = 0; r < ranks; ++r) {
          std::map<std::pair<PipelinePhase, int64_t>, int64_t> next;
          std::map<std::pair<int64_t, int64_t>, int64_t> holder; // chunk, slot
          PipelinePhase last = phasesOf(GetParam()).back();
          for (const PipelineRun &run : schedule.ranks[r]) {
            // Messages of one update arrive in the order of microbatches.
            int64_t &expected = next[{run.phase, run.chunk}];
            EXPECT_EQ(expected, run.microbatch);
            ++expected;
            ASSERT_LT(run.slot, schedule.slots[r][run.chunk]);
            auto key = std::make_pair(run.chunk, run.slot);
            if (run.phase == PipelinePhase::Forward) {
              EXPECT_EQ(0u, holder.count(key));
              holder[key] = run.microbatch;
            } else {
              ASSERT_EQ(1u, holder.count(key));
              EXPECT_EQ(run.microbatch, holder[key]);
            }
            if (run.phase == last)
              holder.erase(key);
          }
          for (PipelinePhase phase : phasesOf(GetParam()))
            for (int64_t c = 0; c < chunks; ++c) {
              auto count = next.find({phase, c});
              ASSERT_NE(count, next.end());
              EXPECT_EQ(microbatches, count->second);
            }
        }
        EXPECT_EQ(0, replay(schedule, ranks, chunks));
      }
}

INSTANTIATE_TEST_SUITE_P(Names, ScheduleTest,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb-h1"),
                         [](const auto &info) {
                           std::string name = info.param;
                           return name == "zb-h1" ? std::string("zbh1") : "s" + name;
                         });

TEST(Schedule, OneForwardOneBackward) {
  // Rank r warms up with ranks - r forwards, then alternates.
  const int64_t ranks = 4, microbatches = 6;
  PipelineSchedule schedule = makeSchedule("1f1b", ranks, 1, microbatches);
  for (int64_t r = 0; r < ranks; ++r) {
    std::string text, expected(static_cast<size_t>(ranks - r), 'F');
    for (const PipelineRun &run : schedule.ranks[r])
      text += run.phase == PipelinePhase::Forward ? 'F' : 'B';
    for (int64_t m = ranks - r; m < microbatches; ++m)
      expected += "BF";
    expected += std::string(static_cast<size_t>(ranks - r), 'B');
    EXPECT_EQ(expected, text) << "rank " << r;
    EXPECT_EQ(ranks - r, schedule.slots[r][0]);
  }
}

TEST(Schedule, Bubbles) {
  // (p - 1) / (m + p - 1) for both: Huang et al. 2019, Narayanan et al. 2019.
  for (int64_t ranks : {2, 4, 8})
    for (int64_t microbatches : {8, 16, 32}) {
      double expected = double(ranks - 1) / double(microbatches + ranks - 1);
      EXPECT_NEAR(expected, makeSchedule("gpipe", ranks, 1, microbatches).bubble,
                  1e-12);
      EXPECT_NEAR(expected, makeSchedule("1f1b", ranks, 1, microbatches).bubble,
                  1e-12);
      // A v-th of the wait with v chunks: Narayanan et al. 2021.
      for (int64_t chunks : {2, 3})
        EXPECT_NEAR(double(ranks - 1) / double(chunks * microbatches + ranks - 1),
                    makeSchedule("interleaved", ranks, chunks, microbatches).bubble,
                    1e-12);
      // Weight gradients in the gaps: less.
      EXPECT_LT(makeSchedule("zb-h1", ranks, 1, microbatches).bubble, expected);
    }
}

TEST(Schedule, GpipeKeepsAllMicrobatchesAlive) {
  EXPECT_EQ(5, makeSchedule("gpipe", 2, 1, 5).slots[1][0]);
}

} // namespace
