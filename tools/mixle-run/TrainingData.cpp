//===- TrainingData.cpp - The rows of every step --------------------------===//

#include "tools/mixle-run/TrainingData.h"
#include "runtime/base/KeyValues.h"

namespace mixle::tools {

using namespace runtime;

/// What a batches file has to fit: the program and --steps.
static Status checkBatches(const TokenBatches &batches,
                           const RunOptions &options,
                           const LoadedProgram &program) {
  const std::string file = "--batches '" + options.batches + "': ";
  if (batches.sequence() != program.program.sequence)
    return Status::error(
        file + "its rows have " + std::to_string(batches.sequence() + 1) +
        " tokens; the program has sequence " +
        std::to_string(program.program.sequence) + ", so expected " +
        std::to_string(program.program.sequence + 1));
  if (batches.batch() != program.program.batch)
    return Status::error(file + "its steps have " +
                         std::to_string(batches.batch()) +
                         " rows; the program was compiled for --batch " +
                         std::to_string(program.program.batch));
  if (options.steps && *options.steps > batches.steps())
    return Status::error(file + "it holds " + std::to_string(batches.steps()) +
                         " steps; --steps asks for " +
                         std::to_string(*options.steps));
  return Status::success();
}

Expected<TrainingData> TrainingData::open(const RunOptions &options,
                                          const LoadedProgram &program) {
  TrainingData data;
  MIXLE_ASSIGN_OR_RETURN(
      int64_t vocabulary,
      parseInteger(program.config("vocabulary"), "the program's vocabulary"));
  const int64_t sequence = program.program.sequence;
  if (!options.batches.empty()) {
    MIXLE_ASSIGN_OR_RETURN(
        TokenBatches batches,
        TokenBatches::open(options.batches, options.labels, vocabulary));
    MIXLE_RETURN_IF_ERROR(checkBatches(batches, options, program));
    data.batches.emplace(std::move(batches));
  } else if (!options.text.empty()) {
    MIXLE_ASSIGN_OR_RETURN(
        TokenRows rows,
        TokenRows::openText(options.text, sequence, vocabulary));
    data.stream.emplace(std::move(rows));
  } else {
    MIXLE_ASSIGN_OR_RETURN(
        TokenRows rows,
        TokenRows::openTokens(options.tokens, sequence, vocabulary));
    data.stream.emplace(std::move(rows));
  }
  return data;
}

int64_t TrainingData::rows() const {
  return batches ? batches->steps() * batches->batch() : stream->rows();
}

void TrainingData::copyRow(int64_t row, int32_t *inputs,
                           int32_t *targets) const {
  if (batches)
    batches->copyRow(row / batches->batch(), row % batches->batch(), inputs,
                     targets);
  else
    stream->copyRow(row, inputs, targets);
}

std::vector<int64_t> StepRows::of(int64_t step) {
  if (!data.isBatches())
    return order.rowsOfStep(step, batch);
  std::vector<int64_t> rows(static_cast<size_t>(data.rowsOfBatch()));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = step * data.rowsOfBatch() + static_cast<int64_t>(i);
  return rows;
}

} // namespace mixle::tools
