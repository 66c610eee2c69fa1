//===- SessionReceipts.cpp - What a session's calls say -------------------===//

#include "runtime/training/Session.h"
#include "runtime/base/KeyValues.h"

#include <cmath>
#include <cstring>

namespace mixle::runtime {

TrainingSession::Sums TrainingSession::runningSums() const {
  Sums sums = {};
  // Before a window's first call the accumulators are zero, after a reset.
  std::memcpy(sums.data(), runningLoss.data,
              ExactSum::limbCount * sizeof(int64_t));
  std::memcpy(&sums[ExactSum::limbCount], runningCount.data, sizeof(int64_t));
  for (size_t i = 0; i < used; ++i)
    sums[ExactSum::limbCount + 1] += calls[i].rows;
  return sums;
}

/// No number where the loss is none, which a receipt refuses.
static double meanOf(int64_t *limbs, int64_t tokens) {
  return tokens == 0 ? 0.0
                     : ExactSum(limbs).round() / static_cast<double>(tokens);
}

Status TrainingSession::reduceInto(Sums sums, const char *what,
                                   StepReceipt &receipt) {
  MIXLE_RETURN_IF_ERROR(executor->communicator().allReduce(
      *dataParallel, {what, 0, "receipt"}, sums.data(),
      static_cast<int64_t>(sums.size()), DataType::i64, ReduceOp::sum));
  receipt.globalTokensObserved = sums[ExactSum::limbCount];
  receipt.globalExamplesObserved = sums[ExactSum::limbCount + 1];
  receipt.loss = meanOf(sums.data(), *receipt.globalTokensObserved);
  return Status::success();
}

StepReceipt TrainingSession::newReceipt() const {
  StepReceipt receipt;
  receipt.step = step();
  receipt.microbatches = program().plan.microbatches;
  receipt.dataParallelSize = dataParallelSize();
  receipt.optimizer = program().config("optimizer");
  if (receipt.optimizer.empty())
    receipt.optimizer = "custom";
  receipt.precision =
      program().program.precision == fb::DataType::F64 ? "fp64" : "fp32";
  return receipt;
}

Status TrainingSession::finishReceipt(StepReceipt &receipt) {
  int64_t sent = executor->communicator().bytesSent();
  receipt.collectiveBytes = sent - bytesReported;
  bytesReported = sent;
  Status status = receipt.validate();
  // All ranks made it of the same numbers.
  sharedError = !status.ok();
  return status.withContext("the receipt of step " +
                            std::to_string(receipt.step));
}

Expected<StepReceipt> TrainingSession::pendingReceipt(const Sums &before) {
  StepReceipt receipt = newReceipt();
  const Call &call = calls[used - 1];
  receipt.localExamples = call.rows;
  receipt.localTokens = call.tokens;
  receipt.accumulationSteps = pending();
  receipt.skipped = true;
  receipt.extra["reason"] = "gradient_accumulation";
  Sums sums = runningSums();
  for (size_t i = 0; i < sums.size(); ++i)
    // Infinities and NaN are marks, not numbers: they stay for the window.
    if (i < ExactSum::valueLimbs || i >= ExactSum::limbCount)
      sums[i] -= before[i];
  MIXLE_RETURN_IF_ERROR(reduceInto(sums, "accumulate", receipt));
  if (!std::isfinite(receipt.loss)) {
    // No step could commit it, and no receipt can say it.
    EntryResult result;
    result.detail = "the loss of call " + std::to_string(used) +
                    " of its window is " + numberText(receipt.loss);
    used = 0;
    return notCommitted(result);
  }
  MIXLE_RETURN_IF_ERROR(finishReceipt(receipt));
  return receipt;
}

Expected<std::optional<StepReceipt>> TrainingSession::discardAccumulation() {
  MIXLE_RETURN_IF_ERROR(checkOpen());
  std::optional<StepReceipt> result;
  if (used == 0)
    return result;
  StepReceipt receipt = newReceipt();
  receipt.accumulationSteps = pending();
  receipt.skipped = true;
  receipt.extra["reason"] = "explicit_accumulation_discard";
  for (size_t i = 0; i < used; ++i) {
    receipt.localExamples += calls[i].rows;
    receipt.localTokens += calls[i].tokens;
  }
  Sums sums = runningSums();
  used = 0;
  MIXLE_RETURN_IF_ERROR(reduceInto(sums, "discard", receipt));
  MIXLE_RETURN_IF_ERROR(finishReceipt(receipt));
  result = std::move(receipt);
  return result;
}

Status TrainingSession::notCommitted(const EntryResult &result) {
  // Flags and what they stand on are reduced over all ranks.
  sharedError = true;
  const std::string where =
      "step " + std::to_string(step() + 1) + " is not committed: ";
  const std::string end = "; parameters and optimizer state are untouched";
  if (!result.detail.empty())
    return Status::error(where + result.detail + end);
  if (result.reason == "non_finite_norm") {
    double norm = 0;
    MIXLE_RETURN_IF_ERROR(executor->readOutput("step", "gradient_norm", &norm,
                                               1, fb::DataType::F64));
    return Status::error(where + "the gradient's norm is " +
                         numberText(norm) + end);
  }
  if (result.reason == "no_valid_token")
    return Status::error(where +
                         "no label of its window counts on any rank (all are "
                         "-100)" +
                         end);
  return Status::error(where + result.reason + end);
}

Expected<StepReceipt>
TrainingSession::committedReceipt(const EntryResult &result, int64_t examples,
                                  int64_t tokens, int64_t calls) {
  StepReceipt receipt = newReceipt();
  receipt.localExamples = examples;
  receipt.localTokens = tokens;
  receipt.accumulationSteps = calls;
  double total = 0, rate = 0, norm = 0;
  int64_t count = 0;
  MIXLE_RETURN_IF_ERROR(
      executor->readOutput("step", "loss_total", &total, 1, fb::DataType::F64));
  MIXLE_RETURN_IF_ERROR(
      executor->readOutput("step", "count", &count, 1, fb::DataType::I64));
  receipt.loss = count == 0 ? 0.0 : total / static_cast<double>(count);
  receipt.globalTokensObserved = count;
  MIXLE_RETURN_IF_ERROR(executor->communicator().allReduce(
      *dataParallel, {"step", 0, "receipt"}, &examples, 1, DataType::i64,
      ReduceOp::sum));
  receipt.globalExamplesObserved = examples;

  const int64_t whole = program().plan.gradientAccumulationSteps;
  receipt.extra["partial_accumulation"] = calls < whole;
  receipt.extra["parameter_layouts"] = executor->numParameters();
  receipt.extra["reruns"] = result.reran ? 1 : 0;
  auto extra = [&](const char *role, double &value) {
    if (executor->readOutput("step", role, &value, 1, fb::DataType::F64).ok())
      receipt.extra[role] = value;
  };
  extra("rate", rate);
  extra("gradient_norm", norm);
  if (receiptDigest) {
    MIXLE_ASSIGN_OR_RETURN(StateDigest digest,
                           executor->stateDigest({"state_digest", 0, ""}));
    receipt.extra["state_digest"] = digest.hex();
  }
  MIXLE_RETURN_IF_ERROR(finishReceipt(receipt));
  return receipt;
}

} // namespace mixle::runtime
