//===- Options.h - The command line of mixle-compile ------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_COMPILE_OPTIONS_H
#define MIXLE_TOOLS_COMPILE_OPTIONS_H

#include "mixle/ParallelPlan.h"
#include "mixle/Status.h"
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mixle::tools {

struct CompileOptions {
  std::string model;     ///< a Hugging Face or mixle configuration
  std::string estimator; ///< an estimator spec
  std::string input;     ///< a .mlir file
  std::string plan = "dp_replicate=1";
  std::optional<int64_t> batch;
  std::optional<int64_t> sequence;
  std::string optimizer = "adamw";
  std::optional<double> maxGradNorm;
  std::string schedule = "constant";
  std::string numerics = "reproducible";
  std::string granules;
  std::string pipelineSchedule = "1f1b";
  std::string pipelineSplit; ///< scopes at which stages begin
  std::optional<int64_t> pipelineChunks;
  std::string precision = "fp32";
  std::string output;
  std::string stopAfter;
  std::string dumpTo;
  std::string target = "native";

  /// Names of the options that were given, as users write them.
  std::vector<std::string> given;
  bool has(const std::string &option) const {
    return std::find(given.begin(), given.end(), option) != given.end();
  }

  runtime::ParallelPlan parsedPlan;
  /// What goes into the program's config: texts and numbers.
  std::map<std::string, std::string> configTexts;
  std::map<std::string, double> configNumbers;
  /// Granules by factor name.
  std::map<std::string, int64_t> parsedGranules;
};

/// What of a loaded program options may stand for.
struct InputFacts {
  bool training = true;
  bool fp64 = false;
  /// Names of dimensions that have granules: "heads", "ffn", "tokens", ...
  std::vector<std::string> factors;
};

/// Sizes in a program file have 31 bits.
inline constexpr int64_t mostSize = (int64_t(1) << 31) - 1;

/// Checks what the command line says by itself: the optimizer, the schedule, the
/// granules, which options go together. Fills the parsed fields.
runtime::Status checkOptions(CompileOptions &options);

/// Reads the plan, a text or a file, and checks it against the backend.
runtime::Status loadPlan(CompileOptions &options);

/// Refuses, by name, options that do nothing for the input: options of training
/// for an estimator, granules of a dimension that the program does not have, a
/// precision that its types contradict.
runtime::Status checkAgainstInput(const CompileOptions &options,
                                  const InputFacts &facts);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_COMPILE_OPTIONS_H
