//===- Options.cpp - The command line of mixle-compile --------------------===//

#include "tools/mixle-compile/Options.h"
#include "runtime/base/KeyValues.h"
#include "runtime/training/Schedule.h"

#include <algorithm>
#include <cmath>

using namespace mixle;
using namespace mixle::runtime;
using tools::CompileOptions;

/// What the CPU backend executes: the same table as the plan-check pass.
static BackendCapabilities cpuCapabilities() {
  BackendCapabilities backend;
  backend.name = "cpu";
  backend.axes = {ParallelAxis::DpReplicate, ParallelAxis::DpShard,
                  ParallelAxis::Tp};
  backend.precisions = {"fp32", "fp64"};
  return backend;
}

/// Ranks of MPI and sizes in a program file have 31 bits.
static constexpr int64_t mostRanks = (int64_t(1) << 31) - 1;

/// The plan against the backend; an axis that it does not execute comes with
/// the nearest plan that it does.
static Status checkPlan(const ParallelPlan &plan, const std::string &precision) {
  const BackendCapabilities backend = cpuCapabilities();
  if (Status status = backend.validate(plan, precision); !status.ok()) {
    ParallelPlan nearest = plan;
    nearest.pp = nearest.cp = nearest.ep = nearest.etp = 1;
    if (nearest.fields() == plan.fields())
      return status;
    return Status::error(status.message() +
                         "; it executes dp_replicate, dp_shard and tp: use "
                         "--plan " + nearest.asText());
  }
  int64_t largest = plan.worldSize();
  for (int64_t field : plan.fields())
    largest = std::max(largest, field);
  if (largest > mostRanks)
    return Status::error("plan " + plan.asText() + ": its world size, " +
                         std::to_string(plan.worldSize()) +
                         ", and each of its fields must be at most " +
                         std::to_string(mostRanks));
  return Status::success();
}

static Status parseOptimizer(CompileOptions &options) {
  MIXLE_ASSIGN_OR_RETURN(KeyValues given,
                         parseKeyValues(options.optimizer, "--optimizer"));
  std::string name = given.head;
  if (name != "sgd" && name != "adam" && name != "adamw")
    return Status::error("--optimizer: unknown optimizer '" + name +
                         "'; known are sgd, adam and adamw, e.g. adamw,lr=1e-3");
  std::vector<std::string_view> known = {"lr", "weight_decay", "decay"};
  if (name == "sgd")
    known.push_back("momentum");
  else
    known.insert(known.end(), {"beta1", "beta2", "eps"});
  for (const auto &[key, value] : given.pairs) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string list;
      for (std::string_view k : known)
        list += (list.empty() ? "" : ", ") + std::string(k);
      return Status::error("--optimizer: " + name + " has no option '" + key +
                           "'; it takes " + list);
    }
    if (key == "decay") {
      if (value != "all" && value != "default")
        return Status::error("--optimizer: decay='" + value +
                             "' is neither 'default' nor 'all'");
      options.configTexts["decay"] = value;
      continue;
    }
    MIXLE_ASSIGN_OR_RETURN(double number, parseReal(value, "--optimizer: " + key));
    bool rate = key == "lr" || key == "eps";
    bool fraction = key == "beta1" || key == "beta2" || key == "momentum";
    // An eps of 0 would divide 0 by 0 where a gradient has always been 0.
    if (!std::isfinite(number) || number < 0 || (rate && number == 0) ||
        (fraction && number >= 1))
      return Status::error("--optimizer: " + key + "=" + value + " must be " +
                           (fraction ? "in [0, 1)"
                            : rate   ? "a positive number"
                                     : "a number >= 0"));
    options.configNumbers[key] = number;
  }
  options.configTexts["optimizer"] = name;
  return Status::success();
}

static Status parseGranules(CompileOptions &options) {
  if (options.granules.empty())
    return Status::success();
  MIXLE_ASSIGN_OR_RETURN(KeyValues given,
                         parseKeyValues(options.granules, "--granules"));
  if (!given.head.empty())
    return Status::error("--granules: '" + given.head +
                         "' has no value; write e.g. tokens=64,tensor=8");
  for (const auto &[key, value] : given.pairs) {
    MIXLE_ASSIGN_OR_RETURN(int64_t number, parseInteger(value, "--granules: " + key));
    if (number < 1)
      return Status::error("--granules: " + key + "=" + value +
                           " must be a positive integer");
    if (key == "tensor") {
      options.parsedGranules["heads"] = number;
      options.parsedGranules["kv_heads"] = number;
      options.parsedGranules["ffn"] = number;
    } else if (key == "tokens" || key == "vocabulary" || key == "sequence" ||
               key == "components") {
      options.parsedGranules[key] = number;
    } else {
      return Status::error("--granules: unknown factor '" + key +
                           "'; known are tokens, tensor, vocabulary, sequence "
                           "and components");
    }
  }
  return Status::success();
}

Status tools::checkOptions(CompileOptions &options) {
  int inputs = !options.model.empty() + !options.estimator.empty() +
               !options.input.empty();
  if (inputs != 1)
    return Status::error("give one of --model config.json, --estimator "
                         "spec.json or a .mlir file");
  MIXLE_ASSIGN_OR_RETURN(options.parsedPlan, ParallelPlan::load(options.plan));
  if (options.precision != "fp32" && options.precision != "fp64")
    return Status::error("--precision: '" + options.precision +
                         "' is not executed by the cpu backend; use fp32 or fp64");
  MIXLE_RETURN_IF_ERROR(checkPlan(options.parsedPlan, options.precision));
  if (options.numerics != "reproducible" && options.numerics != "fast")
    return Status::error("--numerics: '" + options.numerics +
                         "' is neither 'reproducible' nor 'fast'");
  if (options.batch && *options.batch < 1)
    return Status::error("--batch: " + std::to_string(*options.batch) +
                         " must be a positive number of sequences");
  if (options.sequence && *options.sequence < 1)
    return Status::error("--sequence: " + std::to_string(*options.sequence) +
                         " must be a positive number of tokens");
  MIXLE_RETURN_IF_ERROR(parseOptimizer(options));
  MIXLE_ASSIGN_OR_RETURN(Schedule schedule, Schedule::parse(options.schedule));
  options.configTexts["lr_schedule"] = schedule.asText();
  if (options.maxGradNorm) {
    if (!std::isfinite(*options.maxGradNorm) || *options.maxGradNorm <= 0)
      return Status::error("--max-grad-norm must be a positive number");
    options.configNumbers["max_grad_norm"] = *options.maxGradNorm;
  }
  MIXLE_RETURN_IF_ERROR(parseGranules(options));
  // Fast mode makes no promise across plans, so its granules follow the plan.
  if (options.numerics == "fast")
    for (const char *factor : {"heads", "kv_heads", "ffn", "vocabulary", "components"})
      options.parsedGranules.try_emplace(factor, options.parsedPlan.tp);
  if (!options.estimator.empty() &&
      (options.maxGradNorm || options.schedule != "constant" || options.sequence))
    return Status::error("--max-grad-norm, --lr-schedule and --sequence are "
                         "options of training; an estimator takes none of them");
  if (options.output.empty() && options.stopAfter.empty())
    return Status::error("give -o program.fbs for the result");
  return Status::success();
}
