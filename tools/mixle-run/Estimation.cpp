//===- Estimation.cpp - A fit of an estimator -----------------------------===//

#include "tools/mixle-run/Estimation.h"
#include "runtime/base/Files.h"
#include "runtime/base/KeyValues.h"
#include "runtime/training/Agreement.h"
#include "runtime/training/Estimation.h"
#include "runtime/training/data/Receipt.h"
#include "tools/mixle-run/Interrupt.h"

#include <atomic>
#include <cmath>
#include <cstdio>

namespace mixle::tools {

using namespace runtime;

namespace {

/// Rows that a file is read by where --chunk-rows says nothing.
constexpr int64_t defaultChunkRows = 1 << 14;

/// What the ranks of a process share.
struct Job {
  const RunOptions &options;
  std::shared_ptr<const LoadedProgram> program;
  std::shared_ptr<const RowSource> rows;
  std::shared_ptr<const std::vector<double>> weights;
  /// Rank 0's, where receipts are asked for.
  std::optional<ReceiptWriter> receipts;
  /// Until the last iteration is made.
  std::optional<InterruptWatch> interrupts;
  /// The signal that ended the fit.
  std::atomic<int> interrupted{0};

  int64_t iterations() const {
    return options.iterations.value_or(defaultIterations);
  }
};

/// One rank's fit.
class EstimationRank {
public:
  EstimationRank(Job &job, Communicator &communicator)
      : job(job), communicator(communicator) {}

  RankOutcome run() {
    RankOutcome outcome;
    outcome.status = runAll();
    outcome.shared = shared || (session && !outcome.status.ok() &&
                                session->lastErrorIsShared());
    return outcome;
  }

private:
  bool isFirst() const { return communicator.rank() == 0; }
  Status agreed(const char *what, const Status &own) {
    return agree(communicator, session->world(), {what, 0, ""}, own, &shared);
  }

  Status runAll() {
    EstimationSessionOptions given;
    given.seed = job.options.seed;
    given.chunkRows = job.options.chunkRows.value_or(0);
    MIXLE_ASSIGN_OR_RETURN(
        session, EstimationSession::create(job.program, communicator, given));
    MIXLE_RETURN_IF_ERROR(session->setData(job.rows, job.weights));
    if (job.options.weights.empty())
      MIXLE_RETURN_IF_ERROR(session->initialize());
    else
      MIXLE_RETURN_IF_ERROR(session->loadWeights(job.options.weights));
    MIXLE_RETURN_IF_ERROR(fit());
    MIXLE_RETURN_IF_ERROR(finishReceipts());
    if (isFirst())
      job.interrupts->end();
    if (!job.options.save.empty())
      MIXLE_RETURN_IF_ERROR(session->saveWeights(job.options.save));
    if (isFirst())
      summarize();
    return Status::success();
  }

  Status finishReceipts() {
    if (job.options.receipts.empty())
      return Status::success();
    return agreed("receipts",
                  isFirst() ? job.receipts->close() : Status::success());
  }

  /// Keeps the receipts of the iterations that were made; parameters of a fit
  /// that was cut short are not what --save names.
  Status interrupt(int signal, int64_t done) {
    std::string message = describeInterrupt(signal) + " after " +
                          std::to_string(done) + " of at most " +
                          std::to_string(job.iterations()) + " iterations";
    if (done > 0 && !job.options.receipts.empty()) {
      MIXLE_RETURN_IF_ERROR(finishReceipts());
      message += "; their receipts are in '" + job.options.receipts + "'";
    }
    if (!job.options.save.empty())
      message += "; '" + job.options.save + "' is not written";
    job.interrupted = signal;
    shared = true;
    return Status::error(message);
  }

  Status fit() {
    double previous = 0;
    std::string digest;
    for (int64_t i = 1; i <= job.iterations() && !converged; ++i) {
      MIXLE_ASSIGN_OR_RETURN(
          int signal, job.interrupts->agree(communicator, session->world()));
      if (signal != 0)
        return interrupt(signal, i - 1);
      MIXLE_ASSIGN_OR_RETURN(last, session->iterate());
      if (!job.options.receipts.empty())
        MIXLE_RETURN_IF_ERROR(
            agreed("receipts", isFirst() ? job.receipts->write(last.asJson())
                                         : Status::success()));
      const double mean = last.logLikelihood / session->totalWeight();
      // Every rank has the same numbers, so all of them stop together.
      converged = i > 1 && job.options.tolerance &&
                  std::fabs(mean - previous) <= *job.options.tolerance;
      // Rows out of reach may come within it, unless nothing moves any more.
      const bool stuck = std::isinf(mean) && last.digest.hex() == digest;
      digest = last.digest.hex();
      previous = mean;
      show(mean);
      if (stuck)
        break;
    }
    return checkReach();
  }

  /// Parameters that give a row no density at all are no fit of the rows.
  Status checkReach() {
    if (std::isfinite(last.logLikelihood))
      return Status::success();
    // Every rank has the same number.
    shared = true;
    return Status::error(
        "iteration " + std::to_string(last.iteration) +
        ": the log-likelihood is " + numberText(last.logLikelihood) +
        ", as no component gives some row a density above zero: it is too far "
        "from every mean for the variances; " +
        (job.options.weights.empty()
             ? "set a larger regularization, drop such rows, or start "
               "from others with --seed"
             : "give --weights with means nearer to the rows or with larger "
               "variances, or none, to start from the rows themselves"));
  }

  /// A line every tenth of the way, the last one too.
  void show(double mean) const {
    const int64_t interval = std::max<int64_t>(1, job.iterations() / 10);
    if (!isFirst() || job.options.quiet ||
        (last.iteration % interval != 0 && last.iteration != job.iterations() &&
         !converged))
      return;
    std::fprintf(stderr,
                 "iteration %lld/%lld  log-likelihood %.6f  mean %.9f%s\n",
                 static_cast<long long>(last.iteration),
                 static_cast<long long>(job.iterations()), last.logLikelihood,
                 mean, converged ? "  converged" : "");
  }

  void summarize() const {
    std::printf("iterations: %lld\n", static_cast<long long>(last.iteration));
    std::printf("converged: %s\n", converged ? "yes" : "no");
    std::printf("rows: %lld\n", static_cast<long long>(last.rows));
    std::printf("log_likelihood: %.17g\n", last.logLikelihood);
    std::printf("state_digest: %s\n", last.digest.hex().c_str());
  }

  Job &job;
  Communicator &communicator;
  std::unique_ptr<EstimationSession> session;
  EstimationReceipt last;
  bool converged = false;
  bool shared = false;
};

/// Opens and checks every file that can be before the fit.
Status prepare(Job &job, Ranks &ranks) {
  const RunOptions &options = job.options;
  MIXLE_RETURN_IF_ERROR(ranks.checkWorldSize(*job.program));
  if (options.data.empty())
    return Status::error("program '" + options.program +
                         "' is an estimator; give --data rows.npy or rows.csv "
                         "to fit it to");
  MIXLE_ASSIGN_OR_RETURN(MixtureSpec spec,
                         MixtureSpec::parseText(job.program->config("estimator"),
                                                "program '" + options.program +
                                                    "'"));
  MIXLE_ASSIGN_OR_RETURN(
      job.rows, openRows(options.data, spec.shape.dim,
                         options.chunkRows.value_or(defaultChunkRows)));
  if (!options.rowWeights.empty()) {
    MIXLE_ASSIGN_OR_RETURN(std::vector<double> weights,
                           readRowWeights(options.rowWeights, job.rows->rows()));
    job.weights = std::make_shared<const std::vector<double>>(std::move(weights));
  }
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

int runEstimation(const RunOptions &options,
                  std::shared_ptr<const LoadedProgram> program, Ranks &ranks) {
  Job job{options, std::move(program), {}, {}, {}, {}, {}};
  job.interrupts.emplace();
  if (Status status = ranks.agree(prepare(job, ranks)); !status.ok()) {
    if (ranks.isFirst())
      printError(status.message());
    return 1;
  }
  const int status = ranks.run(*job.program, [&job](Communicator &communicator) {
    return EstimationRank(job, communicator).run();
  });
  return job.interrupted != 0 ? 128 + job.interrupted : status;
}

} // namespace mixle::tools
