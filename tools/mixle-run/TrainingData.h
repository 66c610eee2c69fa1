//===- TrainingData.h - The rows of every step ------------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_TRAININGDATA_H
#define MIXLE_TOOLS_RUN_TRAININGDATA_H

#include "runtime/training/data/RowOrder.h"
#include "runtime/training/data/Tokens.h"
#include "tools/mixle-run/Options.h"

namespace mixle::tools {

/// What --text, --tokens or --batches name, open and checked. Ranks that share
/// a process share it.
class TrainingData {
public:
  /// Errors: those of the file; rows or batches that do not fit the program;
  /// more --steps than batches.
  static runtime::Expected<TrainingData>
  open(const RunOptions &options, const runtime::LoadedProgram &program);

  /// Rows of the file; of all batches together.
  int64_t rows() const;
  /// Steps that a run without --steps makes: the number of batches.
  int64_t batchSteps() const { return batches ? batches->steps() : 0; }
  bool isBatches() const { return batches.has_value(); }
  int64_t rowsOfBatch() const { return batches->batch(); }

  /// Copies row `row` of rows(), `sequence` inputs and targets each.
  void copyRow(int64_t row, int32_t *inputs, int32_t *targets) const;

private:
  std::optional<runtime::TokenRows> stream;
  std::optional<runtime::TokenBatches> batches;
};

/// The rows of each step for one rank: of a stream in the order of its epochs,
/// of batches as they stand.
class StepRows {
public:
  StepRows(const TrainingData &data, uint64_t seed, int64_t batch)
      : data(data), batch(batch), order(seed, data.rows()) {}

  /// The rows of all ranks in step `step` (from 0).
  std::vector<int64_t> of(int64_t step);

private:
  const TrainingData &data;
  int64_t batch;
  runtime::EpochOrder order;
};

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_TRAININGDATA_H
