//===- Estimation.h - Fitting an estimator, call by call --------*- C++ -*-===//
//
// One rank's side of the EM algorithm over a compiled estimator. Every rank of the
// program's plan has a session and calls the same functions in the same order, with
// the same arguments: the data source knows all rows, and a session works on those
// of its data-parallel rank, a run of whole blocks of the global row index. So
// nothing depends on the number of ranks, on tiles or on how the data is read.
//
// setData() is the first pass over the rows: it finds an anchor (the first row of
// positive weight) and the largest distances from it, from which follow the frame
// of the features and the unit of the statistics (docs/numerics.md). Rows of weight
// 0 are as if they were not there.
//
// Errors after which lastErrorIsShared() is true have reached all ranks alike, and
// the session can be used on; after any other one a rank has to call
// Communicator::abort (ThreadWorld::run does).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_ESTIMATION_H
#define MIXLE_RUNTIME_TRAINING_ESTIMATION_H

#include "runtime/executor/Executor.h"
#include "runtime/training/data/MixtureSpec.h"
#include "runtime/training/data/RowSource.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mixle::runtime {

struct EstimationSessionOptions {
  /// Of the rows that a start is made of.
  uint64_t seed = 0;
  /// Most rows that are read at once; 0 for a tile's.
  int64_t chunkRows = 0;
};

/// What an iteration says about itself.
struct EstimationReceipt {
  int64_t iteration = 0; ///< from 1
  int64_t rows = 0;      ///< of all ranks
  /// Total, weighted, under the parameters that entered the iteration.
  double logLikelihood = 0;
  /// Of the state after the iteration.
  StateDigest digest;

  /// {"iteration", "rows", "log_likelihood", "state_digest"}; an infinite
  /// log-likelihood is null.
  Json asJson() const;
};

/// A mixture's parameters, whole: row-major as in files.
struct MixtureValues {
  std::vector<double> weights, means, covariances;
};

class EstimationSession {
public:
  /// Prepares the program on this rank. The communicator must outlive the session.
  /// Errors: what RankExecutor::create says; a program of another kind; tiles
  /// shorter than a block.
  static Expected<std::unique_ptr<EstimationSession>>
  create(std::shared_ptr<const LoadedProgram> program,
         Communicator &communicator,
         const EstimationSessionOptions &options = {});

  /// The first pass. `weights` (null: all 1) has one number per row. Errors, shared:
  /// no rows, another width than the estimator's, a number that is not finite,
  /// weights that checkRowWeights() refuses, rows so far apart or weights so large
  /// that their squares or sums overflow.
  Status setData(std::shared_ptr<const RowSource> source,
                 std::shared_ptr<const std::vector<double>> weights = nullptr);

  /// A start that depends on data and seed alone: means are distinct rows, drawn by
  /// Philox, with different values where possible; every covariance is the
  /// data's variances plus an absolute regularization; equal weights. Errors,
  /// shared: no data; fewer rows of positive weight than components.
  Status initialize();

  /// Sets all parameters. Errors, shared: wrong sizes, numbers that are not finite,
  /// weights that are no probabilities, covariances that are not positive definite.
  Status setParameters(const MixtureValues &values);
  /// Gathers all parameters on every rank.
  Expected<MixtureValues> parameters();
  /// Sufficient statistics [K, F] of the last iteration, in the frame.
  Expected<std::vector<double>> statistics();

  /// Reads or writes `weights`, `means` and `covariances` as a safetensors file.
  /// Errors, shared: a file that SafetensorsFile refuses; a tensor that is missing,
  /// extra, misshapen or of integers; what setParameters() refuses; what writing
  /// says.
  Status loadWeights(const std::string &path);
  Status saveWeights(const std::string &path);

  /// One E-step and one M-step. Errors, shared, with the parameters as they were:
  /// no data, no start; a covariance that is not positive definite, with its
  /// component.
  Expected<EstimationReceipt> iterate();

  /// Log-densities of any rows [count, D]; tp ranks of one data-parallel rank pass
  /// the same rows. Needs parameters, but no data.
  Expected<std::vector<double>> logDensity(const double *rows, int64_t count);

  /// The sum of row weights, rounded once.
  double totalWeight() const { return weightSum; }
  const std::vector<double> &anchor() const { return frameAnchor; }
  const std::vector<double> &scale() const { return frameScale; }
  const MixtureSpec &spec() const { return specification; }
  int64_t iterations() const { return iteration; }
  /// This rank's rows: [firstRow(), firstRow() + ownRows()).
  int64_t firstRow() const { return ownFirst; }
  int64_t ownRows() const { return ownCount; }
  bool lastErrorIsShared() const { return sharedError; }
  RankExecutor &rank() { return *executor; }
  Group &world() { return *everyone; }

private:
  struct Scan;

  EstimationSession() = default;
  Status prepare(std::shared_ptr<const LoadedProgram> program,
                 Communicator &communicator,
                 const EstimationSessionOptions &options);
  Expected<size_t> parameterIndex(const std::string &name) const;
  Communicator &communicator() const { return executor->communicator(); }
  /// All ranks take the first error of any.
  Status agreed(const char *what, const Status &own);
  Status shared(Status error);
  bool speaksForRows() const;
  double weightOf(int64_t row) const { return weights ? (*weights)[row] : 1.0; }

  Status checkData() const;
  void assignRows();
  Status findAnchor();
  Status scan(Scan &result) const;
  Status setFrame(const Scan &scan);
  void forEachChunk(
      const std::function<void(int64_t first, int64_t count,
                               const double *values)> &visit) const;
  Expected<std::vector<int64_t>> drawRows() const;
  Expected<std::vector<double>> variances();

  Status writeParameter(const std::string &name,
                        const std::vector<double> &values);
  Expected<std::vector<double>> gather(const std::string &name);
  Status checkValues(const MixtureValues &values) const;
  Expected<MixtureValues> readWeights(const std::string &path) const;
  /// Fills a tile's buffers with rows from `first`.
  void fillTile(int64_t first, int64_t count);

  std::unique_ptr<Group> everyone;
  std::unique_ptr<RankExecutor> executor;
  EstimationSessionOptions options;
  MixtureSpec specification;
  int64_t block = 1, tileRows = 1;

  std::shared_ptr<const RowSource> source;
  std::shared_ptr<const std::vector<double>> weights;
  int64_t ownFirst = 0, ownCount = 0, positiveRows = 0;
  double weightSum = 0;
  std::vector<double> frameAnchor, frameScale;
  std::vector<double> tile, tileWeights;
  int64_t iteration = 0;
  bool hasData = false, hasStart = false, sharedError = false;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_ESTIMATION_H
