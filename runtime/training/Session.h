//===- Session.h - Training a program, call by call -------------*- C++ -*-===//
//
// One rank's side of a training run. Every rank of the program's plan has a
// session and calls the same functions in the same order, each with its own
// rows: those of one data-parallel rank are the same on all of its
// model-parallel ranks.
//
//   window    the calls of trainBatch() that make one optimizer step together:
//             the plan's gradient_accumulation_steps of them, or fewer that
//             finishAccumulation() commits. A batch need not divide by
//             anything; a rank may have no rows.
//   loss      the mean over the tokens that count (labels other than -100) of a
//             whole window, over all ranks, in nats, whatever the calls' and
//             ranks' shares of them.
//
// The inputs of a window are kept (copied) until its step, because a step may
// have to accumulate them again with new units (docs/numerics.md).
//
// Errors. Some are reached by all ranks alike: weights that are refused, a
// step that is not committed. lastErrorIsShared() is true after those and the
// session can be used on. After any other error a rank has to call
// Communicator::abort (ThreadWorld::run does it for a body that returns an
// error), because the others may wait for it.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_SESSION_H
#define MIXLE_RUNTIME_TRAINING_SESSION_H

#include "runtime/executor/Executor.h"
#include "runtime/kernels/ExactSum.h"
#include "runtime/training/data/Receipt.h"

#include <array>
#include <optional>

namespace mixle::runtime {

struct SessionOptions {
  /// Of the initial parameters.
  uint64_t seed = 0;
  /// Called before an `accumulate` or `step` entry runs for optimizer step
  /// `step` (from 1); an error is the rank's. Where tests make a rank fail.
  std::function<Status(std::string_view entry, int64_t step)> beforeEntry;
};

/// A loss over any number of calls; exact, so that calls can be cut and added
/// in any way.
class Evaluation {
public:
  int64_t tokens() const { return count; }
  /// Sum over the tokens, rounded once.
  double lossTotal() const;
  /// Their mean; NaN without tokens.
  double loss() const { return lossTotal() / static_cast<double>(count); }
  void merge(const Evaluation &other);

private:
  friend class TrainingSession;
  std::array<int64_t, ExactSum::limbCount> limbs = {};
  int64_t count = 0;
};

class TrainingSession {
public:
  /// Prepares the program on this rank and makes its initial parameters. The
  /// communicator must outlive the session. Errors: what
  /// RankExecutor::create says, an estimation program, a program without the
  /// running sums "loss" and "count".
  static Expected<std::unique_ptr<TrainingSession>>
  create(std::shared_ptr<const LoadedProgram> program,
         Communicator &communicator, const SessionOptions &options = {});

  /// Accumulates `rows` rows of this rank. `inputs` and `targets` are
  /// [rows, sequence], row-major; targets are token ids or -100; both may be
  /// null when rows is 0. Tensors are copied.
  ///
  /// The call that completes the window commits it and returns its receipt; an
  /// earlier one returns a skipped receipt with this call's loss and
  /// counts and extra.reason "gradient_accumulation".
  ///
  /// Errors: a closed session; more rows than the program holds; a token or
  /// label outside the vocabulary (this rank's alone); and shared by all ranks,
  /// with the state untouched and the window dropped: no label of the window
  /// counts anywhere, or a gradient (the parameter is named) or the loss of an
  /// earlier call is not finite.
  Expected<StepReceipt> trainBatch(const int32_t *inputs,
                                   const int32_t *targets, int64_t rows);

  /// Commits a window that is not complete; nothing without one.
  Expected<std::optional<StepReceipt>> finishAccumulation();

  /// Drops a window that is not complete: a skipped receipt with its loss and
  /// extra.reason "explicit_accumulation_discard"; nothing without one.
  Expected<std::optional<StepReceipt>> discardAccumulation();

  /// Ends the session. Errors: a window is not complete.
  Status close();

  /// The loss over the rows of all ranks; nothing of the state or the window
  /// changes. Arguments as for trainBatch().
  Expected<Evaluation> evaluate(const int32_t *inputs, const int32_t *targets,
                                int64_t rows);

  /// Computes the logits of `rows` rows [rows, sequence] of tokens, which
  /// logits() then reads.
  Status predict(const int32_t *tokens, int64_t rows);
  /// The logits of a position of the last predict(), over the whole vocabulary.
  /// All tp ranks call it together.
  Expected<std::vector<double>> logits(int64_t row, int64_t position);

  /// Weights.h. Errors: also a window that is not complete.
  Status loadWeights(const std::string &path);
  Status saveWeights(const std::string &path);

  /// The digest of parameters, optimizer state, step and units over all ranks.
  Expected<StateDigest> stateDigest();
  /// Whether receipts of steps carry it, as extra.state_digest.
  void setReceiptDigest(bool wanted) { receiptDigest = wanted; }

  /// Whether the last call's error is the same on every rank.
  bool lastErrorIsShared() const { return sharedError; }

  /// Committed optimizer steps.
  int64_t step() const;
  /// Calls in the window so far.
  int64_t pending() const { return static_cast<int64_t>(used); }
  int64_t sequence() const { return program().program.sequence; }
  /// 0 where the program does not say.
  int64_t vocabulary() const { return vocabularySize; }
  int64_t dataParallelRank() const;
  int64_t dataParallelSize() const { return program().plan.dataParallelSize(); }
  /// Most rows of one call on one rank.
  int64_t maxRows() const;
  const LoadedProgram &program() const { return executor->program(); }
  RankExecutor &rank() { return *executor; }
  /// The group of all ranks.
  Group &world() { return *everyone; }

private:
  /// A call's copied arguments.
  struct Call {
    std::vector<int32_t> inputs;
    std::vector<int32_t> targets;
    int64_t rows = 0;
    int64_t tokens = 0; ///< labels that count
  };
  /// Running sums: limbs of the loss, tokens, rows.
  using Sums = std::array<int64_t, ExactSum::limbCount + 2>;

  TrainingSession() = default;
  Status initialize(std::shared_ptr<const LoadedProgram> program,
                    Communicator &communicator, const SessionOptions &options);
  Status makeGroups(Communicator &communicator);

  Status checkOpen();
  Status checkIds(const int32_t *ids, int64_t rows, const char *what,
                  bool labels) const;
  Status checkRows(const int32_t *inputs, const int32_t *targets,
                   int64_t rows) const;
  EntryInputs inputsOf(const Call &call) const;
  Status keep(const int32_t *inputs, const int32_t *targets, int64_t rows);
  Status accumulate(const Call &call);
  Sums runningSums() const;
  /// Adds sums over the data-parallel ranks; the loss is their mean.
  Status reduceInto(Sums sums, const char *what, StepReceipt &receipt);
  StepReceipt newReceipt() const;
  Status finishReceipt(StepReceipt &receipt);
  Expected<StepReceipt> pendingReceipt(const Sums &before);
  Expected<StepReceipt> commit();
  Status notCommitted(const EntryResult &result);
  Expected<StepReceipt> committedReceipt(const EntryResult &result,
                                         int64_t examples, int64_t tokens,
                                         int64_t calls);

  std::unique_ptr<Group> everyone;
  std::unique_ptr<Group> dataParallel;
  std::unique_ptr<Group> tensorParallel;
  std::unique_ptr<RankExecutor> executor;
  SessionOptions options;
  BufferView runningLoss, runningCount;
  int64_t vocabularySize = 0;
  /// The window's calls are the first `used`; the others' memory is reused.
  std::vector<Call> calls;
  size_t used = 0;
  int64_t predictedRows = 0;
  int64_t bytesReported = 0;
  bool receiptDigest = false;
  bool closed = false;
  bool sharedError = false;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_SESSION_H
