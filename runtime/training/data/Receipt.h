//===- Receipt.h - What a step says about itself ----------------*- C++ -*-===//
//
// One record for each training step, with the fields, checks and JSON keys of
// mixle's StepReceipt, and the file of records that a run writes.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_RECEIPT_H
#define MIXLE_RUNTIME_TRAINING_DATA_RECEIPT_H

#include "mixle/Status.h"
#include "runtime/base/Json.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mixle::runtime {

struct StepReceipt {
  /// Committed steps so far; a skipped receipt repeats the last one's.
  int64_t step = 0;
  /// Mean over the tokens that the receipt counts, nats.
  double loss = 0;
  /// Rows and valid tokens of this data-parallel rank.
  int64_t localExamples = 0;
  int64_t localTokens = 0;
  /// As the plan asks for, not as rows allowed.
  int64_t microbatches = 1;
  /// Batches that went into the step; those pending, in a skipped receipt.
  int64_t accumulationSteps = 1;
  int64_t dataParallelSize = 1;
  std::string optimizer;
  std::string precision;
  /// Bytes that the rank sent.
  int64_t collectiveBytes = 0;
  bool skipped = false;
  /// Whatever else there is to say: a JSON object.
  Json extra = Json::object();
  /// Sums over the data-parallel ranks, where they are known.
  std::optional<int64_t> globalExamplesObserved;
  std::optional<int64_t> globalTokensObserved;

  /// The observed number, or local * data-parallel size.
  int64_t globalExamples() const {
    return globalExamplesObserved.value_or(localExamples * dataParallelSize);
  }
  int64_t globalTokens() const {
    return globalTokensObserved.value_or(localTokens * dataParallelSize);
  }

  /// Counts (step, local_examples, local_tokens, collective_bytes, observed
  /// ones) at least 0; then microbatches, accumulation_steps and
  /// data_parallel_size at least 1; the loss finite and not negative; optimizer
  /// and precision not blank; extra an object.
  Status validate() const;

  /// The keys in mixle's order, observed sums as global_examples and
  /// global_tokens. Expects a receipt that passed validate().
  Json asJson() const;
};

/// Writes JSON objects, one a line. Lines go to "<path>.partial" and reach the
/// operating system one by one, so that a run that dies leaves there what it
/// did so far, whole lines only; close() gives the file its name. A device or
/// pipe is written directly.
class ReceiptWriter {
public:
  static Expected<ReceiptWriter> open(const std::string &path);

  ReceiptWriter(ReceiptWriter &&other) noexcept { swap(other); }
  ReceiptWriter &operator=(ReceiptWriter &&other) noexcept {
    swap(other);
    return *this;
  }
  /// Leaves the partial file if it holds a line, else removes it.
  ~ReceiptWriter() { abandon(); }

  /// Checks and writes a receipt.
  Status write(const StepReceipt &receipt);
  /// Writes any object. A NaN or infinity in it is written as null. After an
  /// error (a full disk) the partial file ends with its last whole line, and
  /// every later call returns that error.
  Status write(const Json &object);
  /// Gives the file its name.
  Status close();

  const std::string &path() const { return name; }
  int64_t lines() const { return count; }

private:
  ReceiptWriter() = default;
  void swap(ReceiptWriter &other);
  void abandon();
  Status fail(int code);

  int descriptor = -1;
  std::string name;
  std::string partial; // empty: `name` is written directly
  int64_t count = 0;
  int64_t length = 0; // bytes of whole lines
  Status failure;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_RECEIPT_H
