//===- TrainingTest.cpp - A whole program under many plans ----------------===//

#include "test/runtime/executor/RunPrograms.h"
#include "test/runtime/program/TinyPrograms.h"

#include <cmath>
#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

constexpr int64_t tokens = TinySizes::tokens, width = TinySizes::width;

/// Rows of one window, the same for every plan.
struct Rows {
  std::vector<int32_t> ids;
  std::vector<float> features;
  int64_t count;

  explicit Rows(int64_t count, unsigned seed = 1) : count(count) {
    unsigned state = seed;
    auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
    for (int64_t i = 0; i < count * tokens; ++i) {
      unsigned draw = next() % (TinySizes::vocabulary + 1);
      ids.push_back(draw == TinySizes::vocabulary ? -100
                                                  : static_cast<int32_t>(draw));
    }
    for (int64_t i = 0; i < count * tokens * width; ++i)
      features.push_back(
          std::ldexp(static_cast<float>(next() % 2001) - 1000, -12));
  }
};

/// This rank's rows: contiguous parts over the data-parallel domain.
EntryInputs partOf(const Rows &rows, const RankExecutor &executor) {
  const ParallelPlan &plan = executor.program().plan;
  int64_t parts = plan.dataParallelSize();
  int64_t part = dataParallelRank(plan, executor.coordinate());
  int64_t chunk = (rows.count + parts - 1) / parts;
  int64_t begin = std::min(rows.count, part * chunk);
  EntryInputs inputs;
  inputs.rows = std::min(chunk, rows.count - begin);
  inputs.data["tokens"] = rows.ids.data() + begin * tokens;
  inputs.data["features"] = rows.features.data() + begin * tokens * width;
  return inputs;
}

struct StepOutcome {
  EntryResult result;
  double loss = 0, norm = 0, rate = 0;
  int64_t count = 0;
};

/// One window of calls and a step, as a session would run them.
Expected<StepOutcome> trainStep(RankExecutor &executor,
                                const std::vector<Rows> &window) {
  MIXLE_RETURN_IF_ERROR(executor.run("reset", EntryInputs()).status());
  auto accumulate = [&]() -> Status {
    for (const Rows &rows : window)
      MIXLE_RETURN_IF_ERROR(
          executor.run("accumulate", partOf(rows, executor)).status());
    return Status::success();
  };
  MIXLE_RETURN_IF_ERROR(accumulate());
  StepOutcome outcome;
  MIXLE_ASSIGN_OR_RETURN(outcome.result,
                         executor.run("step", EntryInputs(), accumulate));
  for (auto [role, value] :
       {std::pair("loss", &outcome.loss), std::pair("norm", &outcome.norm),
        std::pair("rate", &outcome.rate)})
    MIXLE_RETURN_IF_ERROR(
        executor.readOutput("step", role, value, 1, fb::DataType::F64));
  MIXLE_RETURN_IF_ERROR(executor.readOutput("step", "count", &outcome.count, 1,
                                            fb::DataType::I64));
  return outcome;
}

std::string digestOf(const char *planText) {
  std::string digests;
  ExecutorOptions options;
  options.seed = 42;
  Status status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText(planText)),
      [&](RankExecutor &executor) {
        bool first = executor.communicator().rank() == 0;
        CommandContext context{"digest", 0, ""};
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        MIXLE_ASSIGN_OR_RETURN(StateDigest start,
                               executor.stateDigest(context));
        if (first)
          digests = start.hex();
        for (int step = 0; step < 3; ++step) {
          MIXLE_ASSIGN_OR_RETURN(
              StepOutcome outcome,
              trainStep(executor, {Rows(5, 3 + step), Rows(2, 9)}));
          EXPECT_TRUE(outcome.result.committed) << outcome.result.reason;
          // The first step has no unit yet.
          EXPECT_EQ(outcome.result.reran, step == 0);
          MIXLE_ASSIGN_OR_RETURN(StateDigest after,
                                 executor.stateDigest(context));
          if (first) {
            char numbers[128];
            std::snprintf(numbers, sizeof(numbers), " %a %a %a %lld ",
                          outcome.loss, outcome.norm, outcome.rate,
                          static_cast<long long>(outcome.count));
            digests += numbers + after.hex();
          }
        }
        EXPECT_GT(executor.counters().commandsRun, 0);
        EXPECT_EQ(executor.counters().bytesSent > 0,
                  executor.program().plan.worldSize() > 1);
        return Status::success();
      },
      options);
  EXPECT_TRUE(status.ok()) << planText << ": " << status.message();
  return digests;
}

TEST(Training, everyPlanGivesTheSameBits) {
  const std::string one = digestOf("tp=1");
  EXPECT_EQ(one.find("nan"), std::string::npos);
  for (const char *plan :
       {"tp=2", "tp=3", "tp=4", "dp_replicate=2", "dp_replicate=3",
        "dp_replicate=4", "dp_shard=2", "dp_shard=3", "dp_shard=4",
        "dp_replicate=2,tp=2", "dp_shard=2,tp=2", "dp_replicate=2,dp_shard=2",
        "microbatches=3", "dp_replicate=2,microbatches=4",
        "dp_replicate=2,dp_shard=2,tp=2,microbatches=2"})
    EXPECT_EQ(digestOf(plan), one) << plan;
}

TEST(Training, anotherSeedGivesAnotherDigest) {
  auto start = [](uint64_t seed) {
    std::string digest;
    ExecutorOptions options;
    options.seed = seed;
    Status status = runEverywhere(
        tinyTrainingProgram(ParallelPlan()),
        [&](RankExecutor &executor) {
          MIXLE_RETURN_IF_ERROR(
              executor.run("initialize", EntryInputs()).status());
          digest = executor.localStateDigest().hex();
          return Status::success();
        },
        options);
    EXPECT_TRUE(status.ok());
    return digest;
  };
  EXPECT_EQ(start(1), start(1));
  EXPECT_NE(start(1), start(2));
}

TEST(Training, meansAreThoseOfTheRows) {
  Status status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText("dp_shard=2,tp=2")),
      [](RankExecutor &executor) {
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        Rows rows(5);
        MIXLE_ASSIGN_OR_RETURN(StepOutcome outcome,
                               trainStep(executor, {rows}));
        std::vector<double> sums(TinySizes::vocabulary * width);
        double loss = 0;
        int64_t count = 0;
        for (int64_t t = 0; t < rows.count * tokens; ++t) {
          count += rows.ids[t] != -100;
          for (int64_t d = 0; d < width; ++d) {
            loss += rows.features[t * width + d];
            if (rows.ids[t] != -100)
              sums[rows.ids[t] * width + d] += rows.features[t * width + d];
          }
        }
        EXPECT_EQ(outcome.count, count);
        EXPECT_EQ(outcome.loss, loss);
        EXPECT_EQ(outcome.rate, 0.05) << "half of 0.1 in warm-up";
        return executor.forEachOwnedRange(
            0, "", [&](const ElementRange &range) {
              for (int64_t i = 0; i < range.count; ++i)
                EXPECT_FLOAT_EQ(
                    static_cast<float *>(range.data)[i],
                    static_cast<float>(sums[range.globalStart + i] / count));
              return Status::success();
            });
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

// B015: nothing moves where a gradient is not finite.
TEST(Training, aGradientThatIsNotFiniteCommitsNothing) {
  Status status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText("dp_replicate=2,tp=2")),
      [](RankExecutor &executor) {
        CommandContext context{"digest", 0, ""};
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        MIXLE_RETURN_IF_ERROR(trainStep(executor, {Rows(5)}).status());
        MIXLE_ASSIGN_OR_RETURN(StateDigest before,
                               executor.stateDigest(context));
        Rows bad(5);
        bad.ids[0] = 3;
        bad.features[1] = std::numeric_limits<float>::infinity();
        MIXLE_ASSIGN_OR_RETURN(StepOutcome outcome, trainStep(executor, {bad}));
        EXPECT_FALSE(outcome.result.committed);
        EXPECT_EQ(outcome.result.reason, "non_finite");
        EXPECT_EQ(outcome.result.detail,
                  "the gradient of parameter 'table' is not finite");
        MIXLE_ASSIGN_OR_RETURN(StateDigest after,
                               executor.stateDigest(context));
        EXPECT_EQ(before, after);
        return Status::success();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

// B004: a window without a valid token anywhere.
TEST(Training, noValidTokenCommitsNothing) {
  Status status =
      runEverywhere(tinyTrainingProgram(*ParallelPlan::parseText("dp_shard=2")),
                    [](RankExecutor &executor) {
                      MIXLE_RETURN_IF_ERROR(
                          executor.run("initialize", EntryInputs()).status());
                      Rows rows(4);
                      std::fill(rows.ids.begin(), rows.ids.end(), -100);
                      MIXLE_ASSIGN_OR_RETURN(StepOutcome outcome,
                                             trainStep(executor, {rows}));
                      EXPECT_FALSE(outcome.result.committed);
                      EXPECT_EQ(outcome.result.reason, "no_valid_token");
                      EXPECT_EQ(*stateOf<int64_t>(executor, "step"), 0);
                      return Status::success();
                    });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Training, anExplosionChoosesANewUnit) {
  Status status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText("dp_replicate=2")),
      [](RankExecutor &executor) {
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        MIXLE_RETURN_IF_ERROR(trainStep(executor, {Rows(5)}).status());
        int32_t unit = *stateOf<int32_t>(executor, "unit");
        Rows large(5);
        for (float &x : large.features)
          x *= 0x1p40f;
        MIXLE_ASSIGN_OR_RETURN(StepOutcome outcome,
                               trainStep(executor, {large}));
        EXPECT_TRUE(outcome.result.committed);
        EXPECT_TRUE(outcome.result.reran);
        EXPECT_EQ(*stateOf<int32_t>(executor, "unit"), unit + 40);
        EXPECT_EQ(executor.counters().reruns, 2);
        return Status::success();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Training, heldRangesLoadWhatOwnedRangesSave) {
  // Saved under one plan, loaded under another: global positions tell.
  std::vector<float> saved(TinySizes::vocabulary * width, NAN);
  ExecutorOptions options;
  options.seed = 7;
  std::string digest;
  Status status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText("dp_shard=2,tp=2")),
      [&](RankExecutor &executor) {
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        MIXLE_RETURN_IF_ERROR(
            executor.forEachOwnedRange(0, "", [&](const ElementRange &range) {
              std::copy_n(static_cast<const float *>(range.data), range.count,
                          saved.begin() + range.globalStart);
              return Status::success();
            }));
        MIXLE_ASSIGN_OR_RETURN(StateDigest d, executor.stateDigest({}));
        if (executor.communicator().rank() == 0)
          digest = d.hex();
        return Status::success();
      },
      options);
  ASSERT_TRUE(status.ok()) << status.message();
  for (float x : saved)
    EXPECT_FALSE(std::isnan(x));
  options.seed = 8; // not what the parameters will come from
  status = runEverywhere(
      tinyTrainingProgram(*ParallelPlan::parseText("dp_replicate=2,tp=3")),
      [&](RankExecutor &executor) {
        MIXLE_RETURN_IF_ERROR(
            executor.run("initialize", EntryInputs()).status());
        MIXLE_RETURN_IF_ERROR(
            executor.forEachHeldRange(0, "", [&](const ElementRange &range) {
              std::copy_n(saved.begin() + range.globalStart, range.count,
                          static_cast<float *>(range.data));
              return Status::success();
            }));
        MIXLE_ASSIGN_OR_RETURN(StateDigest d, executor.stateDigest({}));
        EXPECT_EQ(d.hex(), digest);
        return Status::success();
      },
      options);
  EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace
