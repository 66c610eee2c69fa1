//===- Schedule.cpp - Learning rates over the steps
//-------------------------===//

#include "runtime/training/Schedule.h"

#include "runtime/base/KeyValues.h"
#include "runtime/kernels/Math.h"

#include <charconv>

namespace mixle::runtime {

static constexpr const char *option = "--lr-schedule";

/// A quotient of integers, correctly rounded for those below 2^53.
static double ratio(int64_t numerator, int64_t denominator) {
  return static_cast<double>(numerator) / static_cast<double>(denominator);
}

double Schedule::factor(int64_t step) const {
  if (kind == Kind::Constant)
    return 1.0;
  if (step <= warmup)
    return ratio(step, warmup);
  if (kind == Kind::Linear)
    return step > total ? 0.0 : ratio(total + 1 - step, total + 1 - warmup);
  double progress = step >= total ? 1.0 : ratio(step - warmup, total - warmup);
  constexpr double pi = 3.14159265358979323846;
  double wave = 0.5 * (1.0 + math::cos(pi * progress));
  return minRatio + (1.0 - minRatio) * wave;
}

std::string Schedule::asText() const {
  if (kind == Kind::Constant)
    return "constant";
  std::string text = kind == Kind::Linear ? "linear" : "cosine";
  text +=
      ",warmup=" + std::to_string(warmup) + ",total=" + std::to_string(total);
  if (kind == Kind::Cosine && minRatio != 0) {
    char digits[32];
    char *end = std::to_chars(digits, digits + sizeof(digits), minRatio).ptr;
    text += ",min_ratio=" + std::string(digits, end);
  }
  return text;
}

/// The value of a key that must be there.
static Expected<int64_t> steps(const KeyValues &parsed, const char *key,
                               int64_t lowest) {
  std::string what = std::string(option) + ": " + key;
  const std::string *text = parsed.find(key);
  if (!text)
    return Status::error(std::string(option) + ": " + parsed.head + " needs " +
                         key + "=STEPS");
  MIXLE_ASSIGN_OR_RETURN(int64_t value, parseInteger(*text, what));
  // Beyond 2^52 steps the quotients of doubles would no longer be exact.
  if (value < lowest || value > int64_t(1) << 52)
    return Status::error(what + "=" + *text + ", expected at least " +
                         std::to_string(lowest) + " and at most 2^52");
  return value;
}

Expected<Schedule> Schedule::parse(std::string_view text) {
  MIXLE_ASSIGN_OR_RETURN(KeyValues parsed, parseKeyValues(text, option));
  Schedule schedule;
  if (parsed.head == "constant") {
    MIXLE_RETURN_IF_ERROR(parsed.requireKnown("--lr-schedule constant", {}));
    return schedule;
  }
  if (parsed.head == "linear") {
    schedule.kind = Kind::Linear;
    MIXLE_RETURN_IF_ERROR(
        parsed.requireKnown("--lr-schedule linear", {"warmup", "total"}));
  } else if (parsed.head == "cosine") {
    schedule.kind = Kind::Cosine;
    MIXLE_RETURN_IF_ERROR(parsed.requireKnown(
        "--lr-schedule cosine", {"warmup", "total", "min_ratio"}));
  } else {
    return Status::error(std::string(option) + ": " +
                         (parsed.head.empty()
                              ? "no schedule is named"
                              : "unknown schedule '" + parsed.head + "'") +
                         "; expected constant, linear,warmup=W,total=T or "
                         "cosine,warmup=W,total=T[,min_ratio=R]");
  }
  MIXLE_ASSIGN_OR_RETURN(schedule.warmup, steps(parsed, "warmup", 0));
  MIXLE_ASSIGN_OR_RETURN(schedule.total, steps(parsed, "total", 1));
  if (schedule.warmup > schedule.total)
    return Status::error(
        std::string(option) + ": warmup=" + std::to_string(schedule.warmup) +
        " is longer than total=" + std::to_string(schedule.total));
  if (const std::string *minRatio = parsed.find("min_ratio")) {
    MIXLE_ASSIGN_OR_RETURN(
        schedule.minRatio,
        parseReal(*minRatio, std::string(option) + ": min_ratio"));
    if (schedule.minRatio < 0 || schedule.minRatio > 1)
      return Status::error(std::string(option) + ": min_ratio=" + *minRatio +
                           ", expected a number of 0 to 1");
  }
  return schedule;
}

} // namespace mixle::runtime
