//===- ExecutorTest.cpp - Entries, inputs, retry and commit ---------------===//

#include "test/runtime/executor/RunPrograms.h"
#include "test/runtime/program/TinyPrograms.h"

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

using fb::BufferKind;
using fb::DataType;

Status onOneRank(const fb::ProgramT &program,
                 const std::function<Status(RankExecutor &)> &body) {
  return runEverywhere(program, body);
}

TEST(Executor, refusesAnotherWorldSize) {
  auto loaded =
      *loadBytes(tinyTrainingProgram(*ParallelPlan::parseText("tp=2")));
  Status status = runOnThreads(3, [&](int, Communicator &communicator) {
    return RankExecutor::create(loaded, communicator).status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "requires world_size=2, but the process group has "
                      "world_size=3",
                      status.message());
}

TEST(Executor, namesEntriesAndInputsThatAreWrong) {
  Status status = onOneRank(
      tinyTrainingProgram(ParallelPlan()), [](RankExecutor &executor) {
        EXPECT_EQ(executor.run("leap", EntryInputs()).status().message(),
                  "the program has no entry 'leap'");
        std::vector<int32_t> ids(8);
        std::vector<float> features(24);
        EntryInputs inputs;
        inputs.rows = 2;
        inputs.data["tokens"] = ids.data();
        EXPECT_EQ(executor.run("accumulate", inputs).status().message(),
                  "entry 'accumulate': its input 'features' is not given");
        inputs.data["features"] = reinterpret_cast<char *>(features.data()) + 1;
        EXPECT_EQ(executor.run("accumulate", inputs).status().message(),
                  "entry 'accumulate': its input 'features' is not aligned to "
                  "4 bytes");
        inputs.data["features"] = features.data();
        inputs.data["labels"] = ids.data();
        EXPECT_EQ(executor.run("accumulate", inputs).status().message(),
                  "entry 'accumulate': it has no input 'labels'");
        inputs.data.erase("labels");
        inputs.rows = -1;
        EXPECT_EQ(executor.run("accumulate", inputs).status().message(),
                  "entry 'accumulate': -1 rows");
        inputs.rows = TinySizes::maxRows + 1;
        ids.resize(100);
        features.resize(1000);
        inputs.data["tokens"] = ids.data();
        inputs.data["features"] = features.data();
        EXPECT_EQ(executor.run("accumulate", inputs).status().message(),
                  "entry 'accumulate', command 1 (call "
                  "accumulate_scatter_f32): 6 rows at once; the program holds "
                  "at most 5");
        EXPECT_EQ(executor.output("step", "accuracy").status().message(),
                  "entry 'step' has no output 'accuracy'");
        float wrong;
        EXPECT_EQ(executor.readOutput("step", "loss", &wrong, 1, DataType::F32)
                      .message(),
                  "output 'loss' of entry 'step' has 1 elements of f64; asked "
                  "for 1 of f32");
        EXPECT_EQ(executor.stateBuffer("steps").status().message(),
                  "the program has no state 'steps'");
        EXPECT_FALSE(executor.parameterBuffer(0, "second").ok());
        EXPECT_EQ(executor.slots(0),
                  (std::vector<std::string>{"", "momentum"}));
        EXPECT_EQ(executor.stateNames(),
                  (std::vector<std::string>{"step", "unit"}));
        // No rows need no data.
        return executor.run("accumulate", EntryInputs()).status();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

/// `step` retries while "flag" is set, which `accumulate` clears `after` runs
/// by copying the next of a list; "tries" counts the starts of step.
struct RetryProgram {
  fb::ProgramT program;
  explicit RetryProgram() {
    ProgramBuilder b("training", ParallelPlan(), 4);
    uint32_t flag = b.buffer("flag", BufferKind::State, DataType::I32, 1);
    uint32_t tries = b.buffer("tries", BufferKind::State, DataType::I64, 1);
    uint32_t resets = b.buffer("resets", BufferKind::State, DataType::I64, 1);
    uint32_t done = b.buffer("done", BufferKind::State, DataType::I64, 1);
    uint32_t commit = b.buffer("commit", BufferKind::State, DataType::I32, 1);
    uint32_t count =
        b.buffer("count", BufferKind::Accumulator, DataType::I64, 1);
    uint32_t labels =
        b.buffer("labels", BufferKind::Input, DataType::I32, 0, 1);
    b.entry("reset").call("advance", {resets});
    b.entry("reset").fill(count, constant(8));
    b.input("accumulate", "labels", labels);
    b.entry("accumulate")
        .call("count_labels", {count, labels}, {rows(1), constant(-100)});
    b.entry("accumulate").fill(flag, constant(4));
    CommandWriter step = b.entry("step");
    step.call("advance", {tries});
    step.retry(flag);
    step.commitIf(commit, "not wanted");
    step.call("advance", {done});
    b.output("step", "count", count);
    program = b.finish();
  }
};

TEST(Executor, retryAccumulatesTheWindowAgainOnce) {
  Status status = onOneRank(RetryProgram().program, [](RankExecutor &executor) {
    std::vector<int32_t> labels = {1, 2, -100, 4};
    EntryInputs inputs;
    inputs.rows = 4;
    inputs.data["labels"] = labels.data();
    MIXLE_RETURN_IF_ERROR(executor.run("accumulate", inputs).status());
    *stateOf<int32_t>(executor, "flag") = 1;
    *stateOf<int32_t>(executor, "commit") = 1;
    int accumulated = 0;
    Expected<EntryResult> result = executor.run("step", EntryInputs(), [&] {
      ++accumulated;
      return executor.run("accumulate", inputs).status();
    });
    if (!result.ok())
      return result.status();
    EXPECT_TRUE(result->committed);
    EXPECT_TRUE(result->reran);
    EXPECT_EQ(accumulated, 1);
    EXPECT_EQ(*stateOf<int64_t>(executor, "tries"), 2);
    EXPECT_EQ(*stateOf<int64_t>(executor, "resets"), 1);
    EXPECT_EQ(*stateOf<int64_t>(executor, "done"), 1);
    EXPECT_EQ(executor.counters().reruns, 1);
    int64_t count = 0;
    MIXLE_RETURN_IF_ERROR(
        executor.readOutput("step", "count", &count, 1, DataType::I64));
    EXPECT_EQ(count, 3) << "counted once, not twice";
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Executor, aSecondRerunIsAnError) {
  Status status = onOneRank(RetryProgram().program, [](RankExecutor &executor) {
    *stateOf<int32_t>(executor, "flag") = 1;
    return executor.run("step", EntryInputs(), [] { return Status::success(); })
        .status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "entry 'step': its retry asks for a second rerun",
                      status.message());
}

TEST(Executor, aRerunNeedsTheWindow) {
  Status status = onOneRank(RetryProgram().program, [](RankExecutor &executor) {
    *stateOf<int32_t>(executor, "flag") = 1;
    return executor.run("step", EntryInputs()).status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "holds no inputs to accumulate",
                      status.message());
}

TEST(Executor, anErrorWhileAccumulatingAgainIsTheSteps) {
  Status status = onOneRank(RetryProgram().program, [](RankExecutor &executor) {
    *stateOf<int32_t>(executor, "flag") = 1;
    return executor
        .run("step", EntryInputs(), [] { return Status::error("gone"); })
        .status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "entry 'step', accumulating again: gone",
                      status.message());
}

TEST(Executor, commitIfEndsTheEntryWithItsReason) {
  Status status = onOneRank(RetryProgram().program, [](RankExecutor &executor) {
    Expected<EntryResult> result = executor.run("step", EntryInputs());
    if (!result.ok())
      return result.status();
    EXPECT_FALSE(result->committed);
    EXPECT_EQ(result->reason, "not wanted");
    EXPECT_FALSE(result->reran);
    EXPECT_EQ(*stateOf<int64_t>(executor, "done"), 0);
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Executor, refusesWhatOnlyItsRowsMakeTooLarge) {
  // The verifier tries no start of rows; the executor checks every call.
  ProgramBuilder b("training", ParallelPlan(), 4);
  uint32_t x = b.buffer("x", BufferKind::State, DataType::I64, 4);
  b.entry("accumulate").loop(2).fill(x, rowStart(16));
  Status status = onOneRank(b.finish(), [](RankExecutor &executor) {
    EntryInputs inputs;
    inputs.rows = 4;
    MIXLE_RETURN_IF_ERROR(executor.run("accumulate", inputs).status());
    inputs.rows = 8;
    return executor.run("accumulate", inputs).status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "entry 'accumulate', command 1 (fill): it touches 64 "
                      "bytes of buffer 'x', which holds 32",
                      status.message());
}

TEST(Executor, anArenaThatDoesNotFitIsAnError) {
  ProgramBuilder b("training", ParallelPlan(), 1);
  b.buffer("huge", BufferKind::Scratch, DataType::I8, int64_t(1) << 47);
  Status status =
      onOneRank(b.finish(), [](RankExecutor &) { return Status::success(); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "cannot allocate 140737488355328 bytes of scratch memory",
                      status.message());
}

} // namespace
