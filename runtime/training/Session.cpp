//===- Session.cpp - Training a program, call by call ---------------------===//

#include "runtime/training/Session.h"
#include "runtime/base/KeyValues.h"
#include "runtime/training/Agreement.h"
#include "runtime/training/Weights.h"
#include "runtime/training/data/Tokens.h"

#include <algorithm>
#include <cstring>

namespace mixle::runtime {

//===----------------------------------------------------------------------===//
// Setting up
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<TrainingSession>>
TrainingSession::create(std::shared_ptr<const LoadedProgram> program,
                        Communicator &communicator,
                        const SessionOptions &options) {
  std::unique_ptr<TrainingSession> session(new TrainingSession());
  MIXLE_RETURN_IF_ERROR(
      session->initialize(std::move(program), communicator, options));
  return session;
}

Status TrainingSession::initialize(std::shared_ptr<const LoadedProgram> program,
                                   Communicator &communicator,
                                   const SessionOptions &given) {
  options = given;
  if (!program->isTraining())
    return Status::error("program '" + program->path + "' is an estimator (" +
                         program->program.kind +
                         "); a training session runs training programs only");
  const GivenInput tokens = {"tokens", fb::DataType::I32,
                             program->program.sequence};
  const GivenInput labels = {"labels", fb::DataType::I32,
                             program->program.sequence};
  MIXLE_RETURN_IF_ERROR(program->expectInputs("accumulate", {tokens, labels}));
  MIXLE_RETURN_IF_ERROR(program->expectInputs("evaluate", {tokens, labels}));
  MIXLE_RETURN_IF_ERROR(program->expectInputs("predict", {tokens}));
  std::string size = program->config("vocabulary");
  if (!size.empty()) {
    MIXLE_ASSIGN_OR_RETURN(vocabularySize,
                           parseInteger(size, "the program's vocabulary"));
  }
  ExecutorOptions executorOptions;
  executorOptions.seed = options.seed;
  MIXLE_ASSIGN_OR_RETURN(
      executor,
      RankExecutor::create(std::move(program), communicator, executorOptions));
  MIXLE_RETURN_IF_ERROR(makeGroups(communicator));

  MIXLE_ASSIGN_OR_RETURN(runningLoss, executor->accumulatorBuffer("loss"));
  MIXLE_ASSIGN_OR_RETURN(runningCount, executor->accumulatorBuffer("count"));
  if (runningLoss.dtype != fb::DataType::I64 ||
      runningLoss.elements != ExactSum::limbCount ||
      runningCount.dtype != fb::DataType::I64 || runningCount.elements != 1)
    return Status::error("the program's accumulators 'loss' and 'count' are "
                         "not an exact sum and a number");
  MIXLE_ASSIGN_OR_RETURN(EntryResult ended,
                         executor->run("initialize", EntryInputs()));
  (void)ended; // nothing in it can refuse to commit
  bytesReported = communicator.bytesSent();
  return Status::success();
}

Status TrainingSession::makeGroups(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(everyone, makeWorldGroup(communicator));
  const ParallelPlan &plan = program().plan;
  const WorkerCoordinate &here = executor->coordinate();
  std::vector<int> sameModelPart, sameRows;
  for (int64_t rank = 0; rank < plan.worldSize(); ++rank) {
    MIXLE_ASSIGN_OR_RETURN(
        WorkerCoordinate worker,
        attestWorkerCoordinate(plan, plan.worldSize(), rank));
    bool data = true, model = true;
    for (size_t axis = 0; axis < numMeshAxes; ++axis) {
      bool equal = worker.coordinate[axis] == here.coordinate[axis];
      auto which = static_cast<ParallelAxis>(axis);
      bool isData =
          which == ParallelAxis::DpReplicate || which == ParallelAxis::DpShard;
      data = data && (equal || isData);
      model = model && (equal || which == ParallelAxis::Tp);
    }
    if (data)
      sameModelPart.push_back(static_cast<int>(rank));
    if (model)
      sameRows.push_back(static_cast<int>(rank));
  }
  MIXLE_ASSIGN_OR_RETURN(dataParallel,
                         communicator.createGroup(std::move(sameModelPart)));
  MIXLE_ASSIGN_OR_RETURN(tensorParallel,
                         communicator.createGroup(std::move(sameRows)));
  return Status::success();
}

int64_t TrainingSession::dataParallelRank() const {
  return mixle::runtime::dataParallelRank(program().plan,
                                          executor->coordinate());
}

int64_t TrainingSession::maxRows() const {
  return program().rankClass().max_rows * program().plan.microbatches;
}

int64_t TrainingSession::step() const {
  // Programs that pass the verifier and train have it; 0 until then.
  Expected<BufferView> counter = executor->stateBuffer("step");
  int64_t value = 0;
  if (counter.ok() && counter->dtype == fb::DataType::I64)
    std::memcpy(&value, counter->data, sizeof(value));
  return value;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Status TrainingSession::checkOpen() {
  sharedError = false;
  return closed ? Status::error("the training session is closed")
                : Status::success();
}

Status TrainingSession::checkIds(const int32_t *ids, int64_t rows,
                                 const char *what, bool labels) const {
  const int64_t total = rows * sequence();
  if (total > 0 && !ids)
    return Status::error(std::string(what) + "s are missing for " +
                         std::to_string(rows) + " rows");
  for (int64_t i = 0; i < total && vocabularySize > 0; ++i) {
    if (ids[i] >= 0 && ids[i] < vocabularySize)
      continue;
    if (labels && ids[i] == ignoredLabel)
      continue;
    return Status::error(std::string(what) + " " + std::to_string(ids[i]) +
                         " in row " + std::to_string(i / sequence()) +
                         ", position " + std::to_string(i % sequence()) +
                         " is outside the vocabulary [0, " +
                         std::to_string(vocabularySize) + ")" +
                         (labels ? " and not -100, which is ignored" : ""));
  }
  return Status::success();
}

Status TrainingSession::checkRows(const int32_t *inputs, const int32_t *targets,
                                  int64_t rows) const {
  if (rows < 0 || rows > maxRows())
    return Status::error(
        std::to_string(rows) + " rows in one call on one rank: expected 0 to " +
        std::to_string(maxRows()) +
        ", which the program holds (see --batch of mixle-compile)");
  MIXLE_RETURN_IF_ERROR(checkIds(inputs, rows, "token", false));
  return targets ? checkIds(targets, rows, "label", true) : Status::success();
}

EntryInputs TrainingSession::inputsOf(const Call &call) const {
  EntryInputs given;
  given.rows = call.rows;
  given.data["tokens"] = call.inputs.data();
  given.data["labels"] = call.targets.data();
  return given;
}

Status TrainingSession::keep(const int32_t *inputs, const int32_t *targets,
                             int64_t rows) {
  if (rows > 0 && !targets)
    return Status::error("labels are missing for " + std::to_string(rows) +
                         " rows");
  MIXLE_RETURN_IF_ERROR(checkRows(inputs, targets, rows));
  if (used == calls.size())
    calls.emplace_back();
  Call &call = calls[used];
  const int64_t elements = rows * sequence();
  call.inputs.assign(inputs, inputs + elements);
  call.targets.assign(targets, targets + elements);
  call.rows = rows;
  call.tokens = elements - std::count(call.targets.begin(), call.targets.end(),
                                      ignoredLabel);
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

Status TrainingSession::accumulate(const Call &call) {
  MIXLE_ASSIGN_OR_RETURN(EntryResult result,
                         executor->run("accumulate", inputsOf(call)));
  if (!result.committed)
    return Status::error("entry 'accumulate' ended early: " + result.reason);
  return Status::success();
}

Expected<StepReceipt> TrainingSession::trainBatch(const int32_t *inputs,
                                                  const int32_t *targets,
                                                  int64_t rows) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  MIXLE_RETURN_IF_ERROR(keep(inputs, targets, rows));
  if (options.beforeEntry)
    MIXLE_RETURN_IF_ERROR(options.beforeEntry("accumulate", step() + 1));
  if (used == 0) {
    MIXLE_ASSIGN_OR_RETURN(EntryResult reset,
                           executor->run("reset", EntryInputs()));
    (void)reset; // nothing in it can refuse to commit
  }
  Sums before = runningSums();
  ++used;
  MIXLE_RETURN_IF_ERROR(accumulate(calls[used - 1]));
  if (pending() < program().plan.gradientAccumulationSteps)
    return pendingReceipt(before);
  return commit();
}

Expected<std::optional<StepReceipt>> TrainingSession::finishAccumulation() {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  std::optional<StepReceipt> receipt;
  if (used > 0) {
    MIXLE_ASSIGN_OR_RETURN(receipt, commit());
  }
  return receipt;
}

Status TrainingSession::close() {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  if (used > 0)
    return Status::error(
        "the training session has " + std::to_string(used) + " of " +
        std::to_string(program().plan.gradientAccumulationSteps) +
        " calls of a window pending: commit them (finishAccumulation) or drop "
        "them (discardAccumulation) before it is closed");
  closed = true;
  return Status::success();
}

Expected<StepReceipt> TrainingSession::commit() {
  if (options.beforeEntry)
    MIXLE_RETURN_IF_ERROR(options.beforeEntry("step", step() + 1));
  const size_t window = used;
  MIXLE_ASSIGN_OR_RETURN(EntryResult result,
                         executor->run("step", EntryInputs(), [this, window] {
                           for (size_t i = 0; i < window; ++i)
                             MIXLE_RETURN_IF_ERROR(accumulate(calls[i]));
                           return Status::success();
                         }));
  int64_t examples = 0, tokens = 0;
  for (size_t i = 0; i < window; ++i) {
    examples += calls[i].rows;
    tokens += calls[i].tokens;
  }
  used = 0;
  if (!result.committed)
    return notCommitted(result);
  return committedReceipt(result, examples, tokens,
                          static_cast<int64_t>(window));
}

//===----------------------------------------------------------------------===//
// Evaluation and prediction
//===----------------------------------------------------------------------===//

double Evaluation::lossTotal() const {
  std::array<int64_t, ExactSum::limbCount> copy = limbs;
  return ExactSum(copy.data()).round();
}

void Evaluation::merge(const Evaluation &other) {
  ExactSum(limbs.data()).merge(other.limbs.data());
  ExactSum(limbs.data()).normalize();
  count += other.count;
}

Expected<Evaluation> TrainingSession::evaluate(const int32_t *inputs,
                                               const int32_t *targets,
                                               int64_t rows) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  if (rows > 0 && !targets)
    return Status::error("labels are missing for " + std::to_string(rows) +
                         " rows");
  MIXLE_RETURN_IF_ERROR(checkRows(inputs, targets, rows));
  EntryInputs given;
  given.rows = rows;
  given.data["tokens"] = inputs;
  given.data["labels"] = targets;
  MIXLE_ASSIGN_OR_RETURN(EntryResult result, executor->run("evaluate", given));
  (void)result; // nothing in it can refuse to commit
  // The entry leaves the sums over all ranks in its accumulators; its output
  // has been rounded.
  Evaluation evaluation;
  MIXLE_ASSIGN_OR_RETURN(BufferView loss,
                         executor->accumulatorBuffer("evaluate.loss"));
  if (loss.dtype != fb::DataType::I64 || loss.elements != ExactSum::limbCount)
    return Status::error("the program's accumulator 'evaluate.loss' is no "
                         "exact sum");
  std::memcpy(evaluation.limbs.data(), loss.data, sizeof(evaluation.limbs));
  MIXLE_RETURN_IF_ERROR(executor->readOutput(
      "evaluate", "count", &evaluation.count, 1, fb::DataType::I64));
  return evaluation;
}

Status TrainingSession::predict(const int32_t *tokens, int64_t rows) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  predictedRows = 0;
  const int64_t most = program().rankClass().max_rows;
  if (rows < 0 || rows > most)
    return Status::error(std::to_string(rows) +
                         " rows in one prediction: expected 0 to " +
                         std::to_string(most) + ", which the program holds");
  MIXLE_RETURN_IF_ERROR(checkIds(tokens, rows, "token", false));
  EntryInputs given;
  given.rows = rows;
  given.data["tokens"] = tokens;
  MIXLE_ASSIGN_OR_RETURN(EntryResult result, executor->run("predict", given));
  (void)result; // nothing in it can refuse to commit
  predictedRows = rows;
  return Status::success();
}

Expected<std::vector<double>> TrainingSession::logits(int64_t row,
                                                      int64_t position) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  if (row < 0 || row >= predictedRows || position < 0 || position >= sequence())
    return Status::error("no logits at row " + std::to_string(row) +
                         ", position " + std::to_string(position) +
                         ": the last prediction has " +
                         std::to_string(predictedRows) + " rows of " +
                         std::to_string(sequence()));
  MIXLE_ASSIGN_OR_RETURN(BufferView view,
                         executor->output("predict", "logits"));
  const int64_t positions = program().rankClass().max_rows * sequence();
  if ((view.dtype != fb::DataType::F32 && view.dtype != fb::DataType::F64) ||
      view.elements % positions != 0)
    return Status::error("output 'logits' of entry 'predict' has no real "
                         "number for each position and word");
  // This rank's words of the vocabulary, padded to equal parts over tp.
  const int64_t width = view.elements / positions;
  const int64_t first = (row * sequence() + position) * width;
  std::vector<double> own(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i)
    own[i] = view.dtype == fb::DataType::F64
                 ? static_cast<const double *>(view.data)[first + i]
                 : static_cast<const float *>(view.data)[first + i];
  if (vocabularySize == 0 || width >= vocabularySize) {
    own.resize(static_cast<size_t>(vocabularySize ? vocabularySize : width));
    return own;
  }
  std::vector<double> all(own.size() * tensorParallel->size());
  MIXLE_RETURN_IF_ERROR(executor->communicator().allGather(
      *tensorParallel, {"predict", 0, "logits"}, own.data(), all.data(),
      width * static_cast<int64_t>(sizeof(double))));
  if (static_cast<int64_t>(all.size()) < vocabularySize)
    return Status::error("entry 'predict' gives logits of " +
                         std::to_string(all.size()) + " words; expected " +
                         std::to_string(vocabularySize));
  all.resize(static_cast<size_t>(vocabularySize));
  return all;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

Status TrainingSession::loadWeights(const std::string &path) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  if (used > 0)
    return Status::error("weights cannot be loaded inside a window of calls");
  return mixle::runtime::loadWeights(*executor, *everyone, path, &sharedError);
}

Status TrainingSession::saveWeights(const std::string &path) {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  return mixle::runtime::saveWeights(*executor, *everyone, path, &sharedError);
}

Expected<StateDigest> TrainingSession::stateDigest() {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  return executor->stateDigest({"state_digest", 0, ""});
}

} // namespace mixle::runtime
