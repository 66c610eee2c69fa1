//===- SessionTest.cpp - Windows, receipts, refused steps -----------------===//

#include "test/runtime/training/SessionTesting.h"

#include <cmath>
#include <limits>
#include <mutex>

using namespace mixle::runtime;
using namespace mixle::runtime::test;
using mixle::test::Folder;

namespace {

const std::vector<std::string> &plans() {
  static const std::vector<std::string> all = {
      "dp_replicate=1",
      "dp_replicate=2",
      "dp_replicate=3,microbatches=2",
      "dp_shard=2",
      "dp_shard=3,gradient_accumulation_steps=3",
      "dp_replicate=2,dp_shard=2,gradient_accumulation_steps=2",
      "tp=2,microbatches=3",
      "tp=3,gradient_accumulation_steps=4",
      "dp_replicate=2,tp=2,microbatches=2",
      "dp_replicate=5,gradient_accumulation_steps=8",
      "dp_shard=2,tp=2",
  };
  return all;
}

/// What rank 0 saw, step after step.
struct Trace {
  std::vector<std::string> lines;
};

/// Losses and digests of steps over `rows`, from weights in `path`.
Expected<Trace> traceOf(const std::string &plan, const std::string &path,
                        const std::vector<Rows> &steps) {
  Trace trace;
  MIXLE_RETURN_IF_ERROR(runSessions(plan, [&](TrainingSession &session) {
    MIXLE_RETURN_IF_ERROR(session.loadWeights(path));
    session.setReceiptDigest(true);
    for (const Rows &rows : steps) {
      MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt, stepOn(session, rows));
      if (session.rank().communicator().rank() != 0)
        continue;
      Json line = {receipt.step,
                   receipt.loss,
                   receipt.extra["state_digest"],
                   receipt.extra["gradient_norm"],
                   receipt.extra["reruns"],
                   receipt.globalTokens(),
                   receipt.globalExamples()};
      trace.lines.push_back(line.dump());
    }
    return session.close();
  }));
  return trace;
}

} // namespace

TEST(Session, SameStepsUnderEveryPlan) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors");
  // 7 and 3 rows: windows that no plan divides; some make fewer calls.
  std::vector<Rows> steps = {someRows(8, 0), someRows(7, 1), someRows(3, 2)};
  Expected<Trace> expected = traceOf(plans()[0], weights, steps);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_EQ(expected->lines.size(), 3u);
  EXPECT_NE(expected->lines[0], expected->lines[1]);
  for (const std::string &plan : plans()) {
    Expected<Trace> trace = traceOf(plan, weights, steps);
    ASSERT_TRUE(trace.ok()) << plan << ": " << trace.status().message();
    EXPECT_EQ(trace->lines, expected->lines) << plan;
  }
}

TEST(Session, AnExplosionIsAccumulatedAgain) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors", 1e30f);
  // Row 6 of the table, 1e30, comes in at step 3 only.
  std::vector<Rows> steps = {someRows(8, 0), someRows(8, 1), someRows(8, 2),
                             someRows(8, 3)};
  steps[2].tokens[5][1] = 6;
  steps[2].labels[5][1] = 2;
  Expected<Trace> expected = traceOf(plans()[0], weights, steps);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  std::vector<int> reruns;
  for (const std::string &line : expected->lines)
    reruns.push_back(Json::parse(line)[4]);
  // The first step sets units, the explosion coarser ones, and the one after it
  // finer ones again.
  EXPECT_EQ(reruns, (std::vector<int>{1, 0, 1, 1}));
  for (const std::string &plan : plans()) {
    Expected<Trace> trace = traceOf(plan, weights, steps);
    ASSERT_TRUE(trace.ok()) << plan << ": " << trace.status().message();
    EXPECT_EQ(trace->lines, expected->lines) << plan;
  }
}

// B001, B003, B005: means are over the tokens of the whole window.
TEST(Session, UnequalCallsWeighByToken) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors");
  Rows rows = someRows(5, 4);
  rows.add({1, 1, 1, 1}, {-100, -100, -100, -100});
  rows.add({2, 2, 2, 2}, {-100, -100, -100, -100});
  const std::vector<Range> calls = {{0, 1}, {1, 5}, {5, 7}};
  Status status = runSessions(
      "dp_replicate=2,gradient_accumulation_steps=3",
      [&](TrainingSession &session) -> Status {
        MIXLE_RETURN_IF_ERROR(session.loadWeights(weights));
        for (size_t i = 0; i < calls.size(); ++i) {
          MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt,
                                 trainOn(session, rows, calls[i]));
          const bool last = i + 1 == calls.size();
          auto [sum, count] = lossOf(rows, last ? Range{0, 7} : calls[i]);
          EXPECT_EQ(receipt.loss, sum / static_cast<double>(count)) << i;
          EXPECT_EQ(receipt.globalTokens(), count);
          EXPECT_EQ(receipt.globalExamples(), last ? 7 : calls[i].size());
          EXPECT_EQ(receipt.skipped, !last);
          EXPECT_EQ(receipt.step, last ? 1 : 0);
          EXPECT_EQ(receipt.accumulationSteps, static_cast<int64_t>(i) + 1);
          EXPECT_EQ(session.pending(), last ? 0 : static_cast<int64_t>(i) + 1);
          if (last) {
            EXPECT_EQ(receipt.extra["partial_accumulation"], false);
            EXPECT_EQ(receipt.extra["parameter_layouts"], 2);
            EXPECT_EQ(receipt.extra["rate"], 0.05);
          } else {
            EXPECT_EQ(receipt.extra.dump(),
                      "{\"reason\":\"gradient_accumulation\"}");
          }
        }
        return session.close();
      },
      SessionSizes{7, 4, 24});
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Session, LocalCountsAreTheRanksOwn) {
  Rows rows = someRows(5, 4);
  std::vector<std::string> found(4);
  Status status =
      runSessions("dp_replicate=4", [&](TrainingSession &session) -> Status {
        MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt, trainOn(session, rows));
        // B049: 2, 2, 1 and 0 rows.
        Range own = rankRows(5, 4, session.dataParallelRank());
        EXPECT_EQ(receipt.localExamples, own.size());
        EXPECT_EQ(receipt.localTokens, lossOf(rows, own).second);
        EXPECT_EQ(receipt.globalExamples(), 5);
        EXPECT_EQ(receipt.globalTokens(), lossOf(rows).second);
        EXPECT_EQ(receipt.optimizer, "sgd");
        EXPECT_EQ(receipt.precision, "fp32");
        EXPECT_EQ(receipt.dataParallelSize, 4);
        EXPECT_GT(receipt.collectiveBytes, 0);
        // The next receipt counts from here.
        MIXLE_ASSIGN_OR_RETURN(StepReceipt next, trainOn(session, rows));
        EXPECT_LE(next.collectiveBytes, receipt.collectiveBytes);
        return session.close();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Session, FinishDiscardAndClose) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors");
  Rows first = someRows(2, 0), second = someRows(3, 1);
  Status status = runSessions(
      "dp_replicate=2,gradient_accumulation_steps=2",
      [&](TrainingSession &session) -> Status {
        MIXLE_RETURN_IF_ERROR(session.loadWeights(weights));
        MIXLE_ASSIGN_OR_RETURN(std::optional<StepReceipt> none,
                               session.finishAccumulation());
        EXPECT_FALSE(none.has_value());
        MIXLE_ASSIGN_OR_RETURN(none, session.discardAccumulation());
        EXPECT_FALSE(none.has_value());

        MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
        MIXLE_RETURN_IF_ERROR(trainOn(session, first).status());
        Status pending = session.close();
        EXPECT_NE(pending.message().find("1 of 2 calls of a window pending"),
                  std::string::npos)
            << pending.message();
        MIXLE_ASSIGN_OR_RETURN(std::optional<StepReceipt> dropped,
                               session.discardAccumulation());
        EXPECT_TRUE(dropped->skipped);
        EXPECT_EQ(dropped->extra["reason"], "explicit_accumulation_discard");
        auto [sum, count] = lossOf(first);
        EXPECT_EQ(dropped->loss, sum / static_cast<double>(count));
        EXPECT_EQ(dropped->globalTokens(), count);
        EXPECT_EQ(dropped->accumulationSteps, 1);
        MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
        EXPECT_EQ(before, after);

        // What was dropped is not in the next window.
        MIXLE_RETURN_IF_ERROR(trainOn(session, second).status());
        MIXLE_ASSIGN_OR_RETURN(std::optional<StepReceipt> committed,
                               session.finishAccumulation());
        auto [sum2, count2] = lossOf(second);
        EXPECT_EQ(committed->loss, sum2 / static_cast<double>(count2));
        EXPECT_EQ(committed->step, 1);
        EXPECT_EQ(committed->accumulationSteps, 1);
        EXPECT_EQ(committed->extra["partial_accumulation"], true);

        MIXLE_RETURN_IF_ERROR(session.close());
        EXPECT_EQ(trainOn(session, first).status().message(),
                  "the training session is closed");
        return Status::success();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

// B004: nothing counts anywhere.
TEST(Session, AStepWithoutTokensChangesNothing) {
  Rows rows = someRows(8, 0), masked = rows;
  for (auto &labels : masked.labels)
    for (int32_t &label : labels)
      label = -100;
  for (const char *plan : {"dp_replicate=2,microbatches=2", "dp_shard=2,tp=2",
                           "dp_replicate=2,gradient_accumulation_steps=2"}) {
    Status status = runSessions(plan, [&](TrainingSession &session) -> Status {
      for (int i = 0; i < 5; ++i)
        MIXLE_RETURN_IF_ERROR(stepOn(session, rows).status());
      MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
      Status refused = stepOn(session, masked).status();
      EXPECT_EQ(refused.message(),
                "step 6 is not committed: no label of its window counts on any "
                "rank (all are -100); parameters and optimizer state are "
                "untouched");
      EXPECT_TRUE(session.lastErrorIsShared());
      EXPECT_EQ(session.pending(), 0);
      MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
      EXPECT_EQ(before, after);
      EXPECT_EQ(session.step(), 5);
      MIXLE_ASSIGN_OR_RETURN(StepReceipt next, stepOn(session, rows));
      EXPECT_EQ(next.step, 6);
      return session.close();
    });
    EXPECT_TRUE(status.ok()) << plan << ": " << status.message();
  }
}

// B015: a gradient that is not finite.
TEST(Session, AGradientThatIsNotFiniteIsNamed) {
  Rows rows = someRows(8, 0), bad = rows;
  bad.tokens[3][2] = 6;
  bad.labels[3][2] = 1;
  for (float value : {std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()}) {
    Status status = runSessions(
        "dp_replicate=2,tp=2", [&](TrainingSession &session) -> Status {
          MIXLE_RETURN_IF_ERROR(stepOn(session, rows).status());
          MIXLE_RETURN_IF_ERROR(session.rank().forEachHeldRange(
              0, "", [&](const ElementRange &range) {
                for (int64_t i = 0; i < range.count; ++i)
                  if (range.globalStart + i == 6 * 7 + 3)
                    static_cast<float *>(range.data)[i] = value;
                return Status::success();
              }));
          MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
          Status refused = stepOn(session, bad).status();
          EXPECT_NE(refused.message().find(
                        "step 2 is not committed: the gradient of parameter "
                        "'transformer.wte.weight' is not finite"),
                    std::string::npos)
              << refused.message();
          EXPECT_TRUE(session.lastErrorIsShared());
          MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
          EXPECT_EQ(before, after);
          EXPECT_EQ(session.step(), 1);
          return session.close();
        });
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Session, ALossThatIsNotFiniteDropsTheWindow) {
  Rows rows = someRows(4, 0), bad = rows;
  bad.tokens[1][2] = 6;
  bad.labels[1][2] = 3;
  Status status = runSessions(
      "dp_replicate=2,gradient_accumulation_steps=2",
      [&](TrainingSession &session) -> Status {
        MIXLE_ASSIGN_OR_RETURN(BufferView table,
                               session.rank().parameterBuffer(0, ""));
        static_cast<float *>(table.data)[6 * 7 + 3] =
            std::numeric_limits<float>::infinity();
        MIXLE_ASSIGN_OR_RETURN(StateDigest before, session.stateDigest());
        EXPECT_EQ(trainOn(session, bad).status().message(),
                  "step 1 is not committed: the loss of call 1 of its window "
                  "is inf; parameters and optimizer state are untouched");
        EXPECT_TRUE(session.lastErrorIsShared());
        EXPECT_EQ(session.pending(), 0);
        MIXLE_ASSIGN_OR_RETURN(StateDigest after, session.stateDigest());
        EXPECT_EQ(before, after);
        MIXLE_ASSIGN_OR_RETURN(StepReceipt next, trainOn(session, rows));
        EXPECT_TRUE(std::isfinite(next.loss));
        MIXLE_RETURN_IF_ERROR(session.discardAccumulation().status());
        return session.close();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Session, EvaluationIsExactAndLeavesWindowsAlone) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors");
  Rows rows = someRows(8, 3);
  auto [sum, count] = lossOf(rows);
  Status status = runSessions(
      "dp_replicate=2,tp=2,microbatches=2,gradient_accumulation_steps=2",
      [&, sum = sum, count = count](TrainingSession &session) -> Status {
        MIXLE_RETURN_IF_ERROR(session.loadWeights(weights));
        MIXLE_RETURN_IF_ERROR(trainOn(session, rows, {0, 4}).status());
        Evaluation all;
        for (Range part : {Range{0, 3}, Range{3, 4}, Range{4, 8}}) {
          Range own = rankRows(part.size(), 2, session.dataParallelRank());
          own = {own.begin + part.begin, own.end + part.begin};
          std::vector<int32_t> tokens = Rows::flat(rows.tokens, own);
          std::vector<int32_t> labels = Rows::flat(rows.labels, own);
          MIXLE_ASSIGN_OR_RETURN(
              Evaluation evaluation,
              session.evaluate(tokens.data(), labels.data(), own.size()));
          auto [partSum, partCount] = lossOf(rows, part);
          EXPECT_EQ(evaluation.lossTotal(), partSum);
          EXPECT_EQ(evaluation.tokens(), partCount);
          all.merge(evaluation);
        }
        EXPECT_EQ(all.lossTotal(), sum);
        EXPECT_EQ(all.tokens(), count);
        EXPECT_EQ(session.step(), 0);
        MIXLE_ASSIGN_OR_RETURN(StepReceipt receipt,
                               trainOn(session, rows, {4, 8}));
        EXPECT_EQ(receipt.loss, sum / static_cast<double>(count));
        return session.close();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Session, LogitsComeFromAllRanks) {
  Folder folder;
  std::string weights = writeWeights(folder, "w.safetensors");
  for (const char *plan : {"dp_replicate=1", "tp=2", "tp=3",
                           "dp_replicate=2,tp=2", "dp_shard=2,tp=4"}) {
    Status status = runSessions(plan, [&](TrainingSession &session) -> Status {
      MIXLE_RETURN_IF_ERROR(session.loadWeights(weights));
      const std::vector<int32_t> tokens = {3, 0, 5, 1};
      MIXLE_RETURN_IF_ERROR(session.predict(tokens.data(), 1));
      for (int64_t i = 0; i < 4; ++i) {
        MIXLE_ASSIGN_OR_RETURN(std::vector<double> logits,
                               session.logits(0, i));
        std::vector<double> expected;
        for (int l = 0; l < 7; ++l)
          expected.push_back(1 + 7 * tokens[i] + l); // head is the identity
        EXPECT_EQ(logits, expected) << plan;
      }
      EXPECT_FALSE(session.logits(1, 0).ok());
      EXPECT_FALSE(session.logits(0, 4).ok());
      return session.close();
    });
    EXPECT_TRUE(status.ok()) << plan << ": " << status.message();
  }
}

TEST(Session, WrongArgumentsAreRefused) {
  Status status =
      runSessions("dp_replicate=1", [&](TrainingSession &session) -> Status {
        const std::vector<int32_t> good(4 * 9, 1);
        std::vector<int32_t> bad = good;
        bad[6] = 7;
        auto messageOf = [&](const int32_t *tokens, const int32_t *labels,
                             int64_t rows) {
          return session.trainBatch(tokens, labels, rows).status().message();
        };
        EXPECT_EQ(messageOf(bad.data(), good.data(), 2),
                  "token 7 in row 1, position 2 is outside the vocabulary [0, "
                  "7)");
        bad[6] = -1;
        EXPECT_EQ(messageOf(good.data(), bad.data(), 2),
                  "label -1 in row 1, position 2 is outside the vocabulary [0, "
                  "7) and not -100, which is ignored");
        EXPECT_EQ(messageOf(good.data(), good.data(), 9),
                  "9 rows in one call on one rank: expected 0 to 8, which the "
                  "program holds (see --batch of mixle-compile)");
        EXPECT_FALSE(messageOf(good.data(), nullptr, 1).empty());
        EXPECT_FALSE(messageOf(nullptr, good.data(), 1).empty());
        EXPECT_FALSE(messageOf(good.data(), good.data(), -1).empty());
        EXPECT_FALSE(session.lastErrorIsShared());
        EXPECT_EQ(session.pending(), 0);
        EXPECT_TRUE(session.trainBatch(good.data(), good.data(), 8).ok());
        return session.close();
      });
  EXPECT_TRUE(status.ok()) << status.message();
}

// A norm that is not finite is no missing label: it has a reason of its own.
// (Units bound gradients, so it takes a program that sums other squares.)
TEST(Session, ANormThatIsNotFiniteIsSaid) {
  fb::ProgramT program = sessionProgram(planOf("dp_replicate=2"), SessionSizes());
  auto &body = *program.classes[0];
  uint32_t wte = 0;
  while (body.buffers[wte]->parameter != 0 ||
         body.buffers[wte]->kind != fb::BufferKind::Parameter)
    ++wte;
  int changed = 0;
  for (auto &entry : body.entries)
    for (auto &command : entry->commands)
      if (command->name == "exact_sum_squares_f32") {
        command->buffers[1] = wte;
        ++changed;
      }
  ASSERT_EQ(changed, 1);
  Expected<std::shared_ptr<const LoadedProgram>> loaded = loadBytes(program);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  Status status = runOnThreads(2, [&](int, Communicator &communicator) -> Status {
    MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<TrainingSession> session,
                           TrainingSession::create(*loaded, communicator));
    // A word that no row has.
    MIXLE_RETURN_IF_ERROR(session->rank().forEachHeldRange(
        0, "", [&](const ElementRange &range) {
          for (int64_t i = 0; i < range.count; ++i)
            if (range.globalStart + i == 6 * 7 + 3)
              static_cast<float *>(range.data)[i] = HUGE_VALF;
          return Status::success();
        }));
    EXPECT_EQ(stepOn(*session, someRows(8, 0)).status().message(),
              "step 1 is not committed: the gradient's norm is inf; parameters "
              "and optimizer state are untouched");
    EXPECT_TRUE(session->lastErrorIsShared());
    EXPECT_EQ(session->step(), 0);
    return session->close();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

// Commands read rows as the program has them; what a session hands over must be
// as long.
TEST(Session, ProgramsThatReadOtherRowsAreRefused) {
  auto errorOf = [](const std::function<void(fb::ProgramT &)> &change) {
    fb::ProgramT program = sessionProgram(planOf("dp_replicate=1"), SessionSizes());
    change(program);
    Expected<std::shared_ptr<const LoadedProgram>> loaded = loadBytes(program);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return runOnThreads(1, [&](int, Communicator &communicator) {
             return TrainingSession::create(*loaded, communicator).status();
           })
        .message();
  };
  EXPECT_EQ(errorOf([](fb::ProgramT &) {}), "");
  // Sequences of 4 are in the commands, 3 in the header.
  EXPECT_NE(errorOf([](fb::ProgramT &program) { program.sequence = 3; })
                .find("takes 0 + 4 x rows i32 of 'tokens'; 3 x rows i32 are given"),
            std::string::npos);
  EXPECT_NE(errorOf([](fb::ProgramT &program) {
              for (auto &entry : program.classes[0]->entries)
                for (auto &input : entry->inputs)
                  if (input->role == "labels")
                    input->role = "targets";
            }).find("of 'targets'; nothing of the kind is given"),
            std::string::npos);
}

TEST(Session, AnErrorOfOneRankEndsAll) {
  Rows rows = someRows(8, 0);
  SessionOptions options;
  options.beforeEntry = [](std::string_view entry, int64_t step) {
    return Status::success();
  };
  std::mutex mutex;
  int calls = 0;
  options.beforeEntry = [&](std::string_view entry, int64_t step) {
    std::lock_guard<std::mutex> lock(mutex);
    // The last of two ranks to come to step 2 fails.
    if (entry == "step" && step == 2 && ++calls == 2)
      return Status::error("planted");
    return Status::success();
  };
  Status status = runSessions(
      "dp_replicate=2",
      [&](TrainingSession &session) -> Status {
        for (int i = 0; i < 3; ++i)
          MIXLE_RETURN_IF_ERROR(stepOn(session, rows).status());
        return session.close();
      },
      SessionSizes(), options);
  EXPECT_NE(status.message().find("planted"), std::string::npos);
  EXPECT_NE(status.message().find("entry 'step', command 0, update "
                                  "'units:amax'"),
            std::string::npos)
      << status.message();
}
