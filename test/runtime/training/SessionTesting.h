//===- SessionTesting.h - Sessions on all ranks of a plan -------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_TRAINING_SESSIONTESTING_H
#define MIXLE_TEST_RUNTIME_TRAINING_SESSIONTESTING_H

#include "runtime/base/Safetensors.h"
#include "runtime/executor/ThreadRanks.h"
#include "runtime/training/Session.h"
#include "runtime/training/data/RowOrder.h"
#include "test/runtime/base/TestFiles.h"
#include "test/runtime/program/ProgramBuilder.h"
#include "test/runtime/training/SessionProgram.h"

#include <gtest/gtest.h>

#include <functional>

namespace mixle::runtime::test {

inline ParallelPlan planOf(const std::string &text) {
  Expected<ParallelPlan> plan = ParallelPlan::parseText(text);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

/// Runs `body` with a session on each rank of sessionProgram(plan); the ranks'
/// errors.
inline Status runSessions(const std::string &plan,
                          const std::function<Status(TrainingSession &)> &body,
                          const SessionSizes &sizes = SessionSizes(),
                          const SessionOptions &options = SessionOptions()) {
  MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedProgram> program,
                         loadBytes(sessionProgram(planOf(plan), sizes)));
  ThreadWorldOptions world;
  world.timeout = 60;
  return runOnThreads(
      static_cast<int>(program->plan.worldSize()),
      [&](int, Communicator &communicator) -> Status {
        MIXLE_ASSIGN_OR_RETURN(
            std::unique_ptr<TrainingSession> session,
            TrainingSession::create(program, communicator, options));
        return body(*session);
      },
      world);
}

/// Rows of tokens and labels.
struct Rows {
  std::vector<std::vector<int32_t>> tokens, labels;
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }

  void add(std::vector<int32_t> rowTokens, std::vector<int32_t> rowLabels) {
    tokens.push_back(std::move(rowTokens));
    labels.push_back(std::move(rowLabels));
  }
  /// Rows [begin, end) one after another.
  static std::vector<int32_t>
  flat(const std::vector<std::vector<int32_t>> &rows, Range range) {
    std::vector<int32_t> out;
    for (int64_t i = range.begin; i < range.end; ++i)
      out.insert(out.end(), rows[i].begin(), rows[i].end());
    return out;
  }
};

/// `n` rows of tokens and labels below 6, with some labels ignored.
inline Rows someRows(int64_t n, int64_t salt) {
  Rows rows;
  for (int64_t r = 0; r < n; ++r) {
    std::vector<int32_t> tokens, labels;
    for (int64_t i = 0; i < 4; ++i) {
      int64_t mixed = (r + 3) * (i + 5) + salt * 11;
      tokens.push_back(static_cast<int32_t>(mixed % 6));
      labels.push_back(mixed % 5 == 2 ? -100
                                      : static_cast<int32_t>(mixed / 3 % 6));
    }
    rows.add(tokens, labels);
  }
  return rows;
}

/// trainBatch with this rank's share of `rows`.
inline Expected<StepReceipt> trainOn(TrainingSession &session, const Rows &rows,
                                     Range part) {
  Range own = rankRows(part.size(), session.dataParallelSize(),
                       session.dataParallelRank());
  own = {own.begin + part.begin, own.end + part.begin};
  std::vector<int32_t> tokens = Rows::flat(rows.tokens, own);
  std::vector<int32_t> labels = Rows::flat(rows.labels, own);
  return session.trainBatch(tokens.data(), labels.data(), own.size());
}
inline Expected<StepReceipt> trainOn(TrainingSession &session,
                                     const Rows &rows) {
  return trainOn(session, rows, {0, rows.size()});
}

/// A whole optimizer step of `rows`, in the plan's number of calls or fewer.
inline Expected<StepReceipt> stepOn(TrainingSession &session,
                                    const Rows &rows) {
  std::optional<StepReceipt> receipt;
  for (Range part :
       chunks(rows.size(), session.program().plan.gradientAccumulationSteps)) {
    MIXLE_ASSIGN_OR_RETURN(receipt, trainOn(session, rows, part));
  }
  if (session.pending() > 0) {
    MIXLE_ASSIGN_OR_RETURN(receipt, session.finishAccumulation());
  }
  return *receipt;
}

/// wte[t, l] = 1 + 7 t + l, but row 6 is `last`; head is the identity.
inline std::string writeWeights(const mixle::test::Folder &folder,
                                const std::string &name, float last = 1) {
  std::vector<float> wte(49), head(49, 0.0f);
  for (int i = 0; i < 49; ++i)
    wte[i] = i < 42 ? 1.0f + static_cast<float>(i) : last;
  for (int i = 0; i < 7; ++i)
    head[i * 8] = 1;
  auto view = [](const char *id, const std::vector<float> &values) {
    return TensorView{id,
                      TensorType::F32,
                      {7, 7},
                      reinterpret_cast<const uint8_t *>(values.data()),
                      values.size() * 4};
  };
  std::string path = folder / name;
  Status status = writeSafetensors(
      path, {view("transformer.wte.weight", wte), view("head", head)});
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

/// The loss under those weights: its sum and the labels that count.
inline std::pair<double, int64_t> lossOf(const Rows &rows, Range part) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t r = part.begin; r < part.end; ++r)
    for (size_t i = 0; i < rows.tokens[r].size(); ++i)
      if (rows.labels[r][i] != -100) {
        sum += 1 + 7 * rows.tokens[r][i] + rows.labels[r][i];
        ++count;
      }
  return {sum, count};
}
inline std::pair<double, int64_t> lossOf(const Rows &rows) {
  return lossOf(rows, {0, rows.size()});
}

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_TRAINING_SESSIONTESTING_H
