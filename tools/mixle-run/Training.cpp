//===- Training.cpp - A training run --------------------------------------===//

#include "tools/mixle-run/Training.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/training/Agreement.h"
#include "runtime/training/Session.h"
#include "tools/mixle-run/Generate.h"
#include "tools/mixle-run/Interrupt.h"
#include "tools/mixle-run/Progress.h"
#include "tools/mixle-run/TrainingData.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

namespace mixle::tools {

using namespace runtime;

namespace {

/// Below this many parameters every receipt has a digest of the state.
constexpr int64_t digestAlwaysBelow = 1000000;

/// What the ranks of a process share.
struct Job {
  const RunOptions &options;
  std::shared_ptr<const LoadedProgram> program;
  std::optional<TrainingData> data;
  /// Rank 0's, where receipts are asked for.
  std::optional<ReceiptWriter> receipts;
  int64_t steps = 0;
  /// Where steps are made; until the last one is.
  std::optional<InterruptWatch> interrupts;
  /// The signal that ended the run.
  std::atomic<int> interrupted{0};
};

/// Every how many steps a receipt has a digest; 0: the last only.
int64_t digestInterval(const Job &job) {
  if (job.options.digestEvery)
    return *job.options.digestEvery;
  int64_t parameters = 0;
  for (const auto &parameter : job.program->program.parameters)
    parameters += logicalElements(*parameter);
  return parameters < digestAlwaysBelow ? 1 : 0;
}

/// One rank's run.
class TrainingRank {
public:
  TrainingRank(Job &job, Communicator &communicator)
      : job(job), communicator(communicator) {}

  RankOutcome run();

private:
  bool isFirst() const { return communicator.rank() == 0; }
  Status runAll();
  Status open();
  Status train();
  Expected<StepReceipt> trainStep(StepRows &order, int64_t step);
  /// This rank's share of `rows`, into `inputs` and `targets`.
  int64_t copyShare(const std::vector<int64_t> &rows, Range part);
  Status writeReceipt(const StepReceipt &receipt);
  Status evaluate();
  Status interrupt(int signal, int64_t stepsDone);
  Status finishReceipts();
  Status agreed(const char *what, const Status &own);
  Status fail(std::string_view entry, int64_t step) const;
  Status summarize();

  Job &job;
  Communicator &communicator;
  std::unique_ptr<TrainingSession> session;
  std::vector<int32_t> inputs, targets;
  std::optional<StepReceipt> last;
  std::optional<Evaluation> evaluation;
  double tokensPerSecond = 0;
  bool shared = false;
};

RankOutcome TrainingRank::run() {
  RankOutcome outcome;
  outcome.status = runAll();
  outcome.shared = shared || (session && !outcome.status.ok() &&
                              session->lastErrorIsShared());
  return outcome;
}

Status TrainingRank::runAll() {
  MIXLE_RETURN_IF_ERROR(open());
  const RunOptions &options = job.options;
  if (!options.weights.empty())
    MIXLE_RETURN_IF_ERROR(session->loadWeights(options.weights));
  if (options.trains())
    MIXLE_RETURN_IF_ERROR(train());
  if (options.evaluate)
    MIXLE_RETURN_IF_ERROR(evaluate());
  if (!options.save.empty())
    MIXLE_RETURN_IF_ERROR(session->saveWeights(options.save));
  MIXLE_RETURN_IF_ERROR(summarize());
  if (options.generate) {
    MIXLE_ASSIGN_OR_RETURN(std::string text, generateText(*session, options));
    if (isFirst())
      std::printf("text:\n%s\n", text.c_str());
  }
  return session->close();
}

Status TrainingRank::agreed(const char *what, const Status &own) {
  return agree(communicator, session->world(), {what, 0, ""}, own, &shared);
}

Status TrainingRank::open() {
  SessionOptions sessionOptions;
  sessionOptions.seed = job.options.seed;
  if (job.options.failure && job.options.failure->rank == communicator.rank())
    sessionOptions.beforeEntry = [this](std::string_view entry, int64_t step) {
      return fail(entry, step);
    };
  // What a machine or the program lacks stops all ranks at the same place.
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> world,
                         makeWorldGroup(communicator));
  Expected<std::unique_ptr<TrainingSession>> created =
      TrainingSession::create(job.program, communicator, sessionOptions);
  MIXLE_RETURN_IF_ERROR(
      agree(communicator, *world, {"setup", 0, ""}, created.status(), &shared));
  session = created.take();
  return Status::success();
}

/// --inject-failure, on the rank that it names.
Status TrainingRank::fail(std::string_view entry, int64_t step) const {
  const InjectedFailure &failure = *job.options.failure;
  if (entry != failure.entry || step != failure.step)
    return Status::success();
  switch (failure.kind) {
  case InjectedFailure::Kind::Error:
    return Status::error("injected failure before entry '" +
                         std::string(entry) + "' of step " +
                         std::to_string(step));
  case InjectedFailure::Kind::Kill:
    std::raise(SIGKILL);
    break;
  case InjectedFailure::Kind::Hang:
    while (true)
      std::this_thread::sleep_for(std::chrono::hours(1));
  }
  return Status::success();
}

int64_t TrainingRank::copyShare(const std::vector<int64_t> &rows, Range part) {
  Range own = rankRows(part.size(), session->dataParallelSize(),
                       session->dataParallelRank());
  const int64_t sequence = session->sequence();
  inputs.resize(static_cast<size_t>(own.size() * sequence));
  targets.resize(inputs.size());
  for (int64_t i = 0; i < own.size(); ++i)
    job.data->copyRow(rows[static_cast<size_t>(part.begin + own.begin + i)],
                      inputs.data() + i * sequence,
                      targets.data() + i * sequence);
  return own.size();
}

Expected<StepReceipt> TrainingRank::trainStep(StepRows &order, int64_t step) {
  std::vector<int64_t> rows = order.of(step);
  std::optional<StepReceipt> receipt;
  for (Range part : chunks(static_cast<int64_t>(rows.size()),
                           job.program->plan.gradientAccumulationSteps)) {
    int64_t own = copyShare(rows, part);
    MIXLE_ASSIGN_OR_RETURN(
        receipt, session->trainBatch(inputs.data(), targets.data(), own));
  }
  // Few rows may make fewer calls than the window has.
  if (session->pending() > 0) {
    MIXLE_ASSIGN_OR_RETURN(receipt, session->finishAccumulation());
  }
  return std::move(*receipt);
}

Status TrainingRank::writeReceipt(const StepReceipt &receipt) {
  if (job.options.receipts.empty())
    return Status::success();
  Status written;
  if (isFirst())
    written = job.receipts->write(receipt);
  return agreed("receipts", written);
}

Status TrainingRank::train() {
  StepRows order(*job.data, job.options.seed, job.program->program.batch);
  Progress progress(isFirst() && !job.options.quiet, job.steps);
  const int64_t interval = digestInterval(job);
  const bool wantsReceipts = !job.options.receipts.empty();
  for (int64_t step = 0; step < job.steps; ++step) {
    MIXLE_ASSIGN_OR_RETURN(
        int signal, job.interrupts->agree(communicator, session->world()));
    if (signal != 0)
      return interrupt(signal, step);
    const bool isLast = step + 1 == job.steps;
    session->setReceiptDigest(isLast || (wantsReceipts && interval > 0 &&
                                         (step + 1) % interval == 0));
    MIXLE_ASSIGN_OR_RETURN(last, trainStep(order, step));
    MIXLE_RETURN_IF_ERROR(writeReceipt(*last));
    progress.step(step + 1, last->loss, last->globalTokens());
  }
  tokensPerSecond = progress.tokensPerSecond();
  MIXLE_RETURN_IF_ERROR(finishReceipts());
  if (isFirst())
    job.interrupts->end();
  return Status::success();
}

/// Keeps the receipts of the steps that were made; parameters of a run that was
/// cut short are not what --save names.
Status TrainingRank::interrupt(int signal, int64_t stepsDone) {
  std::string message = describeInterrupt(signal) + " after " +
                        std::to_string(stepsDone) + " of " +
                        std::to_string(job.steps) + " steps";
  if (stepsDone > 0 && !job.options.receipts.empty()) {
    MIXLE_RETURN_IF_ERROR(finishReceipts());
    message += "; their receipts are in '" + job.options.receipts + "'";
  }
  if (!job.options.save.empty())
    message += "; '" + job.options.save + "' is not written";
  job.interrupted = signal;
  shared = true;
  return Status::error(message);
}

Status TrainingRank::finishReceipts() {
  if (job.options.receipts.empty())
    return Status::success();
  Status closed;
  if (isFirst())
    closed = job.receipts->close();
  return agreed("receipts", closed);
}

Status TrainingRank::evaluate() {
  const int64_t most = session->maxRows() * session->dataParallelSize();
  evaluation.emplace();
  for (int64_t first = 0; first < job.data->rows(); first += most) {
    std::vector<int64_t> rows;
    for (int64_t row = first; row < std::min(first + most, job.data->rows());
         ++row)
      rows.push_back(row);
    int64_t own = copyShare(rows, {0, static_cast<int64_t>(rows.size())});
    MIXLE_ASSIGN_OR_RETURN(
        Evaluation part, session->evaluate(inputs.data(), targets.data(), own));
    evaluation->merge(part);
  }
  Status counted;
  if (evaluation->tokens() == 0)
    counted = Status::error("--evaluate: no label of the data counts (all are "
                            "-100), so there is no loss");
  // Every rank has the same sums.
  shared = !counted.ok();
  return counted;
}

Status TrainingRank::summarize() {
  std::string digest;
  if (last && last->extra.contains("state_digest")) {
    digest = last->extra["state_digest"];
  } else {
    MIXLE_ASSIGN_OR_RETURN(StateDigest computed, session->stateDigest());
    digest = computed.hex();
  }
  if (!isFirst())
    return Status::success();
  if (last) {
    std::printf("steps: %lld\n", static_cast<long long>(job.steps));
    std::printf("loss: %.17g\n", last->loss);
    std::printf("tokens_per_second: %.0f\n", tokensPerSecond);
  }
  if (evaluation) {
    std::printf("evaluation_loss: %.17g\n", evaluation->loss());
    std::printf("evaluation_tokens: %lld\n",
                static_cast<long long>(evaluation->tokens()));
  }
  std::printf("state_digest: %s\n", digest.c_str());
  return Status::success();
}

/// Opens and checks every file that can be before training.
Status prepare(Job &job, Ranks &ranks) {
  const RunOptions &options = job.options;
  MIXLE_RETURN_IF_ERROR(ranks.checkWorldSize(*job.program));
  if (options.failure && options.failure->kind == InjectedFailure::Kind::Kill &&
      !ranks.isMpi())
    return Status::error("--inject-failure: kind=kill needs ranks that are "
                         "processes: run it under mpirun");
  if (options.generate)
    MIXLE_RETURN_IF_ERROR(checkGeneration(options, *job.program));
  if (options.hasTrainingData()) {
    MIXLE_ASSIGN_OR_RETURN(job.data, TrainingData::open(options, *job.program));
    job.steps = options.steps.value_or(job.data->batchSteps());
  }
  if (options.failure && options.failure->step > job.steps)
    return Status::error("--inject-failure: step " +
                         std::to_string(options.failure->step) +
                         " is none of the run's " + std::to_string(job.steps) +
                         " steps");
  if (!ranks.isFirst())
    return Status::success();
  if (!options.save.empty()) {
    // Tried now, made at the end.
    MIXLE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(options.save));
    file.discard();
  }
  if (!options.receipts.empty()) {
    MIXLE_ASSIGN_OR_RETURN(job.receipts, ReceiptWriter::open(options.receipts));
  }
  return Status::success();
}

} // namespace

int runTraining(const RunOptions &options,
                std::shared_ptr<const LoadedProgram> program, Ranks &ranks) {
  Job job{options, std::move(program), {}, {}, 0, {}, {}};
  if (options.trains())
    job.interrupts.emplace();
  if (Status status = ranks.agree(prepare(job, ranks)); !status.ok()) {
    if (ranks.isFirst())
      printError(status.message());
    return 1;
  }
  const int status =
      ranks.run(*job.program, [&job](Communicator &communicator) {
        return TrainingRank(job, communicator).run();
      });
  return job.interrupted != 0 ? 128 + job.interrupted : status;
}

} // namespace mixle::tools
