//===- Options.h - The command line of mixle-run ----------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_OPTIONS_H
#define MIXLE_TOOLS_RUN_OPTIONS_H

#include "mixle/Status.h"
#include "runtime/program/ProgramFile.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mixle::tools {

/// Makes one rank fail, for tests of what the others do.
struct InjectedFailure {
  enum class Kind { Error, Kill, Hang };
  int64_t rank = 0;
  int64_t step = 1; ///< optimizer step, from 1
  std::string entry = "accumulate";
  Kind kind = Kind::Error;
};

struct RunOptions {
  std::string program;

  // Training.
  std::string text, tokens, batches, labels;
  std::optional<int64_t> steps;
  uint64_t seed = 0;
  std::string weights, save, receipts;
  bool evaluate = false;
  std::optional<int64_t> digestEvery;
  std::optional<int64_t> generate;
  std::string prompt;
  double temperature = 1;
  std::string inject;
  std::optional<InjectedFailure> failure;

  // Estimation (besides seed, weights, save, receipts).
  std::string data, rowWeights;
  std::optional<int64_t> chunkRows;
  std::optional<int64_t> iterations;
  std::optional<double> tolerance;

  // Ranks.
  std::string communicator;
  double collectiveTimeout = 1800;

  // Instead of running.
  std::string dump; ///< "", "text" or "json"
  bool verify = false;

  bool quiet = false;

  /// Names of the options that were given, as users write them.
  std::vector<std::string> given;

  bool has(const std::string &option) const;
  bool hasTrainingData() const {
    return !text.empty() || !tokens.empty() || !batches.empty();
  }
  /// Whether optimizer steps are made.
  bool trains() const {
    return steps.has_value() || (!batches.empty() && !evaluate);
  }
};

/// How parsing ended: go on, or leave with `status` after printing what is in
/// `help` (to stdout) or `error`.
struct ParsedOptions {
  RunOptions options;
  bool leave = false;
  int status = 0;
  std::string help;
  std::string error;
};

/// Parses the command line and checks what it says by itself: numbers in
/// range, options that need or exclude each other.
ParsedOptions parseOptions(int argc, char **argv);

/// Refuses, by name, options that do not fit the program's kind, and an
/// injected failure of a rank that does not exist.
runtime::Status checkAgainstProgram(const RunOptions &options,
                                    const runtime::LoadedProgram &program);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_OPTIONS_H
