//===- Options.cpp - The command line of mixle-compile --------------------===//

#include "tools/mixle-compile/Options.h"
#include "runtime/base/Files.h"
#include "runtime/base/KeyValues.h"
#include "runtime/training/Schedule.h"
#include "tools/CommandLine.h"

#include <algorithm>
#include <cmath>

using namespace mixle;
using namespace mixle::runtime;
using tools::CompileOptions;

/// As phaseNames() of compiler/Pipeline.h has them; here is no MLIR.
static const std::vector<std::string> phases = {"graph", "plan", "dist", "exec"};

/// Ranks of MPI have 31 bits too.
static constexpr int64_t mostRanks = tools::mostSize;

/// The plan against the backend; an axis that it does not execute comes with
/// the nearest plan that it does.
static Status checkPlan(const ParallelPlan &plan, const std::string &precision) {
  if (Status status = cpuBackend().validate(plan, precision); !status.ok()) {
    ParallelPlan nearest = plan;
    nearest.cp = nearest.ep = nearest.etp = 1;
    if (nearest.fields() == plan.fields())
      return status;
    return Status::error(status.message() +
                         "; it executes dp_replicate, dp_shard, tp and pp: use "
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
    if (number > tools::mostSize)
      return Status::error("--granules: " + key + "=" + value +
                           " must be at most " + std::to_string(tools::mostSize));
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

static Status checkPipeline(CompileOptions &options) {
  const std::string &schedule = options.pipelineSchedule;
  if (schedule != "gpipe" && schedule != "1f1b" && schedule != "interleaved" &&
      schedule != "zb-h1")
    return Status::error("--pipeline-schedule: unknown schedule '" + schedule +
                         "'; known are gpipe, 1f1b, interleaved and zb-h1");
  int64_t chunks = options.pipelineChunks.value_or(schedule == "interleaved" ? 2 : 1);
  if (chunks < 1 || chunks > 64)
    return Status::error("--pipeline-chunks " + std::to_string(chunks) +
                         " must be from 1 to 64");
  if (schedule == "interleaved" && chunks == 1)
    return Status::error("--pipeline-schedule interleaved works on several chunks "
                         "a rank: give --pipeline-chunks 2 or more, or use 1f1b");
  if (options.parsedPlan.pp == 1) {
    for (const char *option :
         {"--pipeline-schedule", "--pipeline-chunks", "--pipeline-split"})
      if (options.has(option))
        return Status::error(std::string(option) + " has no effect where the plan "
                             "has pp = 1: leave it out, or give pp=2 or more");
    return Status::success();
  }
  options.configTexts["pipeline_schedule"] = schedule;
  options.configNumbers["pipeline_chunks"] = static_cast<double>(chunks);
  if (!options.pipelineSplit.empty())
    options.configTexts["pipeline_split"] = options.pipelineSplit;
  return Status::success();
}

/// What is written replaces nothing that is read.
static Status checkOutputs(const CompileOptions &options) {
  std::vector<tools::NamedFile> outputs = {{"-o", options.output}};
  if (!options.dumpTo.empty())
    for (const std::string &phase : phases)
      outputs.push_back({"--dump-to", options.dumpTo + "/" + phase + ".mlir"});
  // A plan that is a text names no file that is there.
  const bool isFile = options.has("--plan") && isRegularFile(options.plan);
  return tools::refuseOverwriting(outputs,
                                  {{"--model", options.model},
                                   {"--estimator", options.estimator},
                                   {"the input", options.input},
                                   {"--plan", isFile ? options.plan : ""}});
}

Status tools::checkOptions(CompileOptions &options) {
  int inputs = !options.model.empty() + !options.estimator.empty() +
               !options.input.empty();
  if (inputs != 1)
    return Status::error("give one of --model config.json, --estimator "
                         "spec.json or a .mlir file");
  if (options.precision != "fp32" && options.precision != "fp64")
    return Status::error("--precision: '" + options.precision +
                         "' is not executed by the cpu backend; use fp32 or fp64");
  if (options.numerics != "reproducible" && options.numerics != "fast")
    return Status::error("--numerics: '" + options.numerics +
                         "' is neither 'reproducible' nor 'fast'");
  MIXLE_RETURN_IF_ERROR(parseOptimizer(options));
  MIXLE_ASSIGN_OR_RETURN(Schedule schedule, Schedule::parse(options.schedule));
  options.configTexts["lr_schedule"] = schedule.asText();
  if (options.maxGradNorm) {
    if (!std::isfinite(*options.maxGradNorm) || *options.maxGradNorm <= 0)
      return Status::error("--max-grad-norm must be a positive number");
    options.configNumbers["max_grad_norm"] = *options.maxGradNorm;
  }
  MIXLE_RETURN_IF_ERROR(parseGranules(options));
  if (options.output.empty() && options.stopAfter.empty())
    return Status::error("give -o program.fbs for the result");
  // A phase that there is not is reported by its name.
  const bool stops = std::find(phases.begin(), phases.end(), options.stopAfter) !=
                     phases.end();
  for (const char *option : {"-o", "--target"})
    if (stops && options.has(option))
      return Status::error(std::string(option) +
                           " has no effect with --stop-after, which prints the IR "
                           "and makes no program: leave one of them out");
  return checkOutputs(options);
}

Status tools::loadPlan(CompileOptions &options) {
  MIXLE_ASSIGN_OR_RETURN(options.parsedPlan, ParallelPlan::load(options.plan));
  MIXLE_RETURN_IF_ERROR(checkPlan(options.parsedPlan, options.precision));
  return checkPipeline(options);
}

/// Factors whose granules `--granules tensor=N` gives.
static bool isTensorFactor(const std::string &factor) {
  return factor == "heads" || factor == "kv_heads" || factor == "ffn";
}

/// What the input is, for a message.
static std::string describeInput(const CompileOptions &o, bool training) {
  const std::string name = training ? "a model" : "an estimator";
  if (!o.model.empty())
    return name + " (--model " + o.model + ")";
  if (!o.estimator.empty())
    return name + " (--estimator " + o.estimator + ")";
  return (training ? "a training program (" : "an estimation program (") +
         o.input + ")";
}

Status tools::checkAgainstInput(const CompileOptions &o, const InputFacts &facts) {
  const std::string input = describeInput(o, facts.training);
  auto refuse = [&](const std::string &option, const std::string &wayOut) {
    return Status::error(option + " has no effect on " + input + ": " + wayOut);
  };
  if (!facts.training)
    for (const char *option : {"--optimizer", "--max-grad-norm", "--lr-schedule"})
      if (o.has(option))
        return refuse(option, "it is an option of training; leave it out");
  if (o.has("--sequence") && !o.estimator.empty())
    return refuse("--sequence", "its rows are no sequences; leave it out");
  if (o.has("--sequence") && !o.input.empty())
    return refuse("--sequence",
                  "the length of a sequence stands in the file; leave it out");
  const char *precision = facts.fp64 ? "fp64" : "fp32";
  if (o.has("--precision") && o.precision != precision)
    return refuse("--precision " + o.precision,
                  std::string("it computes in ") + precision +
                      "; leave the option out");
  for (const auto &[factor, number] : o.parsedGranules) {
    auto has = [&](const std::string &name) {
      return std::find(facts.factors.begin(), facts.factors.end(), name) !=
             facts.factors.end();
    };
    const bool tensor = isTensorFactor(factor);
    if (has(factor) ||
        (tensor && std::any_of(facts.factors.begin(), facts.factors.end(),
                               isTensorFactor)))
      continue;
    std::vector<std::string> names;
    for (const std::string &name : facts.factors) {
      std::string option = isTensorFactor(name) ? "tensor" : name;
      if (std::find(names.begin(), names.end(), option) == names.end())
        names.push_back(option);
    }
    std::string list;
    for (size_t i = 0; i < names.size(); ++i)
      list += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return refuse("--granules " + (tensor ? "tensor" : factor) + "=" +
                      std::to_string(number),
                  list.empty() ? "it has no granules; leave the option out"
                               : "it has granules of " + list + " only");
  }
  return Status::success();
}
