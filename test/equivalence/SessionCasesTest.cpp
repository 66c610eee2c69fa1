//===- SessionCasesTest.cpp - Cases that the tools cannot say -------------===//
//
// Compiled programs in sessions: windows of unequal calls that are flushed, and
// the state after a step that was refused.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/ThreadRanks.h"
#include "runtime/program/ProgramFile.h"
#include "runtime/training/Session.h"
#include "runtime/training/data/RowOrder.h"
#include "test/runtime/base/TestFiles.h"

#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>

using namespace mixle::runtime;
using mixle::test::Folder;

namespace {

/// Rows of one call: tokens and labels, [rows, sequence].
struct Call {
  std::vector<int32_t> tokens, labels;
};

/// Compiles an input of this folder and runs `body` with a session on each
/// rank.
Status runCompiled(const std::string &input, const std::string &plan,
                   const std::string &options,
                   const std::function<Status(TrainingSession &)> &body) {
  Folder folder;
  const std::string path = folder / "program.fbs";
  const std::string command = std::string(MIXLE_TEST_COMPILE) + " " +
                              MIXLE_TEST_INPUTS + "/" + input + " --plan " +
                              plan + " " + options + " -o " + path;
  if (std::system(command.c_str()) != 0)
    return Status::error("failed: " + command);
  MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedProgram> program,
                         loadProgram(path));
  ThreadWorldOptions world;
  world.timeout = 300;
  return runOnThreads(
      static_cast<int>(program->plan.worldSize()),
      [&](int, Communicator &communicator) -> Status {
        MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<TrainingSession> session,
                               TrainingSession::create(program, communicator));
        return body(*session);
      },
      world);
}

/// trainBatch with this rank's share of the call.
Expected<StepReceipt> trainOn(TrainingSession &session, const Call &call) {
  const int64_t sequence = session.sequence();
  const Range own =
      rankRows(static_cast<int64_t>(call.tokens.size()) / sequence,
               session.dataParallelSize(), session.dataParallelRank());
  return session.trainBatch(call.tokens.data() + own.begin * sequence,
                            call.labels.data() + own.begin * sequence,
                            own.size());
}

/// The elements of a parameter that this rank holds.
template <typename T>
std::vector<double> heldValues(TrainingSession &session, size_t parameter) {
  std::vector<double> values;
  Status status = session.rank().forEachHeldRange(
      parameter, "", [&](const ElementRange &range) {
        for (int64_t i = 0; i < range.count; ++i)
          values.push_back(static_cast<const T *>(range.data)[i]);
        return Status::success();
      });
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

/// Bytes of a parameter and its optimizer state on this rank.
std::string heldBytes(TrainingSession &session, size_t parameter,
                      const std::vector<std::string> &slots) {
  std::string bytes;
  for (const std::string &slot : slots) {
    Status status = session.rank().forEachHeldRange(
        parameter, slot, [&](const ElementRange &range) {
          bytes.append(static_cast<const char *>(range.data),
                       static_cast<size_t>(range.count) * sizeof(float));
          return Status::success();
        });
    EXPECT_TRUE(status.ok()) << slot << ": " << status.message();
  }
  return bytes;
}

} // namespace

// B005: the last window has one call of four; its gradient is divided by one.
TEST(SessionCases, B005_AnIncompleteWindowIsDividedByItsOwnTokens) {
  for (const char *plan :
       {"gradient_accumulation_steps=4",
        "dp_replicate=2,gradient_accumulation_steps=4",
        "dp_shard=2,microbatches=2,gradient_accumulation_steps=4"}) {
    Status status =
        runCompiled("scalar.mlir", plan,
                    "--batch 4 --precision fp64 "
                    "--optimizer sgd,lr=0.1,momentum=0,weight_decay=0",
                    [&](TrainingSession &session) -> Status {
                      for (int32_t i = 0; i < 4; ++i) {
                        MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt,
                                               trainOn(session, {{i}, {0}}));
                        EXPECT_EQ(receipt.skipped, i < 3);
                      }
                      for (double w : heldValues<double>(session, 0))
                        EXPECT_DOUBLE_EQ(w, 0.25);
                      MIXLE_ASSIGN_OR_RETURN(StepReceipt pending,
                                             trainOn(session, {{4}, {0}}));
                      EXPECT_TRUE(pending.skipped);
                      MIXLE_ASSIGN_OR_RETURN(std::optional<StepReceipt> flushed,
                                             session.finishAccumulation());
                      if (!flushed)
                        return Status::error("nothing was flushed");
                      EXPECT_EQ(flushed->step, 2);
                      EXPECT_EQ(flushed->accumulationSteps, 1);
                      EXPECT_DOUBLE_EQ(flushed->loss, 0.5 * 9.75 * 9.75);
                      for (double w : heldValues<double>(session, 0))
                        EXPECT_DOUBLE_EQ(w, 1.225);
                      return session.close();
                    });
    EXPECT_TRUE(status.ok()) << plan << ": " << status.message();
  }
}

// B001 with unequal calls: the window's mean is over all of its tokens.
TEST(SessionCases, B001_UnequalCallsOfAWindow) {
  Status status =
      runCompiled("scalar.mlir", "dp_replicate=2,gradient_accumulation_steps=2",
                  "--batch 8 --precision fp64 "
                  "--optimizer sgd,lr=1,momentum=0,weight_decay=0",
                  [&](TrainingSession &session) -> Status {
                    MIXLE_RETURN_IF_ERROR(
                        trainOn(session, {{0, 1, 2}, {0, 0, 0}}).status());
                    MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt,
                                           trainOn(session, {{4}, {0}}));
                    EXPECT_EQ(receipt.globalTokens(), 4);
                    EXPECT_DOUBLE_EQ(receipt.loss, 0.5 * (1 + 4 + 9 + 100) / 4);
                    for (double w : heldValues<double>(session, 0))
                      EXPECT_DOUBLE_EQ(w, (1 + 2 + 3 + 10) / 4.0);
                    return session.close();
                  });
  EXPECT_TRUE(status.ok()) << status.message();
}

// B004: Adam at step 5, decay 0.1; then no label counts anywhere.
TEST(SessionCases, B004_AStepWithoutLabelsLeavesEveryByte) {
  const Call good = {{0, 1, 2, 3, 1, 2, 3, 0}, {0, 1, 2, -100, 1, 0, 2, 2}};
  Call masked = good;
  masked.labels.assign(masked.labels.size(), -100);
  for (const char *plan :
       {"dp_replicate=2,microbatches=2", "dp_shard=2", "dp_replicate=2,tp=3"}) {
    Status status = runCompiled(
        "classifier.mlir", plan,
        "--batch 4 --optimizer adam,lr=0.01,weight_decay=0.1,decay=all "
        "--lr-schedule linear,warmup=4,total=10",
        [&](TrainingSession &session) -> Status {
          const std::vector<std::string> slots = {"", "first", "second"};
          for (int i = 0; i < 5; ++i)
            MIXLE_RETURN_IF_ERROR(trainOn(session, good).status());
          const std::string before = heldBytes(session, 0, slots);
          MIXLE_ASSIGN_OR_RETURN(StateDigest digest, session.stateDigest());
          const Status refused = trainOn(session, masked).status();
          EXPECT_NE(refused.message().find("step 6 is not committed"),
                    std::string::npos)
              << refused.message();
          EXPECT_TRUE(session.lastErrorIsShared());
          EXPECT_EQ(heldBytes(session, 0, slots), before);
          MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
          EXPECT_EQ(after, digest);
          EXPECT_EQ(session.step(), 5);
          MIXLE_ASSIGN_OR_RETURN(StepReceipt next, trainOn(session, good));
          EXPECT_EQ(next.step, 6);
          EXPECT_EQ(next.extra["rate"], 0.01 * (5.0 / 7.0));
          EXPECT_NE(heldBytes(session, 0, slots), before);
          return session.close();
        });
    EXPECT_TRUE(status.ok()) << plan << ": " << status.message();
  }
}

// B015: Adam at step 3; then gradients inf and 1.
TEST(SessionCases, B015_AnInfiniteGradientChangesNothing) {
  for (const char *plan : {"dp_replicate=1", "dp_replicate=2", "dp_shard=2"}) {
    Status status = runCompiled(
        "root.mlir", plan,
        "--batch 2 --optimizer adam,lr=0.1 --max-grad-norm 1",
        [&](TrainingSession &session) -> Status {
          for (int i = 0; i < 3; ++i)
            MIXLE_RETURN_IF_ERROR(trainOn(session, {{0, 0}, {0, 0}}).status());
          MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
          const Status refused = trainOn(session, {{0, 1}, {0, 0}}).status();
          EXPECT_NE(refused.message().find("step 4 is not committed: the "
                                           "gradient of parameter 'p'"),
                    std::string::npos)
              << refused.message();
          EXPECT_TRUE(session.lastErrorIsShared());
          MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
          EXPECT_EQ(after, before);
          EXPECT_EQ(session.step(), 3);
          for (size_t parameter : {0, 1})
            for (double value : heldValues<float>(session, parameter))
              EXPECT_EQ(value, 1.0);
          return session.close();
        });
    EXPECT_TRUE(status.ok()) << plan << ": " << status.message();
  }
}
