//===- Schedule.h - Learning rates over the steps ---------------*- C++ -*-===//
//
// What a base learning rate is multiplied by at every step. Steps are
// optimizer steps and count from 1, whatever the number of microbatches and
// accumulated batches: a warm-up begins with 1 / W, not with 0.
//
//   constant               1
//   linear, cosine         s / W                       while s <= W (warm-up)
//   linear                 (T + 1 - s) / (T + 1 - W)   after it; 0 beyond T
//   cosine                 m + (1 - m) (1 + cos(pi p)) / 2 after it,
//                          p = (s - W) / (T - W), at most 1
//
// W is `warmup`, T `total`, m `min_ratio`. The cosine at step s is that of
// the transformers library's get_cosine_schedule_with_warmup after s
// scheduler steps: that library's first update uses the factor of step 0,
// which is 0.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_SCHEDULE_H
#define MIXLE_RUNTIME_TRAINING_SCHEDULE_H

#include "mixle/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mixle::runtime {

struct Schedule {
  enum class Kind { Constant, Linear, Cosine };

  Kind kind = Kind::Constant;
  int64_t warmup = 0;  // steps, at most total
  int64_t total = 0;   // steps; at least 1 unless the kind is Constant
  double minRatio = 0; // of [0, 1]; cosine only

  /// The factor at `step`, at least 1. The same bits on every machine.
  double factor(int64_t step) const;

  /// What parse() reads back.
  std::string asText() const;

  /// Parses "constant", "linear,warmup=W,total=T" or
  /// "cosine,warmup=W,total=T[,min_ratio=R]". Errors: another head; unknown,
  /// repeated, missing or malformed keys; numbers out of range; a warm-up
  /// longer than the total.
  static Expected<Schedule> parse(std::string_view text);
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_SCHEDULE_H
