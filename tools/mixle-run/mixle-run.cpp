//===- mixle-run.cpp - Runs programs --------------------------------------===//
//
// Exit status: 0, 1 for bad input or a failed run, 2 for a bad command line, 128 + N
// for a run that signal N ended.
// Links no LLVM: all that a program needs was decided by mixle-compile.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/MpiLoader.h"
#include "runtime/program/Dump.h"
#include "tools/mixle-run/Estimation.h"
#include "tools/mixle-run/Options.h"
#include "tools/mixle-run/Ranks.h"
#include "tools/mixle-run/Training.h"

#include <cstdio>
#include <exception>

using namespace mixle::runtime;
using namespace mixle::tools;

/// Writes all of `text` to stdout; a full disk is an error.
static Status print(const std::string &text) {
  bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !whole)
    return Status::error("cannot write to the standard output");
  return Status::success();
}

/// --dump and --verify.
static Status describeProgram(const RunOptions &options,
                              const LoadedProgram &program) {
  if (options.dump == "json")
    return print(dumpJson(program).dump(2) + "\n");
  if (options.dump == "text")
    return print(dumpText(program));
  return print("'" + program.path + "' is a valid " + program.program.kind +
               " program for " + program.plan.asText() + "\n");
}

/// Leaves a command line that says nothing to run. The processes of a job all
/// come here; one of them speaks.
static int leave(const ParsedOptions &parsed) {
  Ranks ranks;
  bool speaks = true;
  if (runningUnderMpi() && ranks.open(RunOptions()).ok())
    speaks = ranks.isFirst();
  if (!speaks)
    return parsed.status;
  if (parsed.status != 0)
    printError(parsed.error);
  else if (!print(parsed.help).ok())
    return 1;
  return parsed.status;
}

static int runProgram(const RunOptions &options) {
  Ranks ranks;
  if (Status status = ranks.open(options); !status.ok()) {
    printError(status.message());
    return 1;
  }
  int exitStatus = 1;
  Expected<std::shared_ptr<const LoadedProgram>> program =
      loadProgram(options.program);
  Status status = program.status();
  const bool describes = options.verify || !options.dump.empty();
  if (status.ok() && !describes) {
    status = checkAgainstProgram(options, **program);
    exitStatus = status.ok() ? 0 : 2;
  }
  if (status.ok() && describes && ranks.isFirst())
    status = describeProgram(options, **program);
  status = ranks.agree(status);
  if (!status.ok()) {
    if (ranks.isFirst())
      printError(status.message());
    return exitStatus == 0 ? 1 : exitStatus;
  }
  if (describes)
    return 0;
  exitStatus = (*program)->isTraining()
                   ? runTraining(options, *program, ranks)
                   : runEstimation(options, *program, ranks);
  if (std::fflush(stdout) != 0 && exitStatus == 0 && ranks.isFirst()) {
    printError("cannot write to the standard output");
    exitStatus = 1;
  }
  return exitStatus;
}

int main(int argc, char **argv) {
  try {
    ParsedOptions parsed = parseOptions(argc, argv);
    return parsed.leave ? leave(parsed) : runProgram(parsed.options);
  } catch (const std::bad_alloc &) {
    printError("out of memory");
  } catch (const std::exception &exception) {
    printError(exception.what());
  }
  return 1;
}
