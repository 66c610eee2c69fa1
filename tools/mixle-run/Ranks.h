//===- Ranks.h - Work on all ranks of a plan --------------------*- C++ -*-===//
//
// The ranks of a program are threads of this process, or the processes that
// mpirun started, of which this is one.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TOOLS_RUN_RANKS_H
#define MIXLE_TOOLS_RUN_RANKS_H

#include "runtime/comm/Communicator.h"
#include "tools/mixle-run/Options.h"

#include <functional>
#include <memory>

namespace mixle::tools {

/// How a rank's work ended.
struct RankOutcome {
  runtime::Status status;
  /// All ranks ended with this very status: nobody waits for this one.
  bool shared = false;
};

class Ranks {
public:
  /// Joins the processes of an MPI job if that is what `options` ask for, or if
  /// this process is one of them and they ask for nothing.
  runtime::Status open(const RunOptions &options);

  /// Whether this process speaks for all: the one process, or MPI's rank 0.
  bool isFirst() const { return !communicator || communicator->rank() == 0; }
  bool isMpi() const { return communicator != nullptr; }

  /// The outcome of what every process did by itself: the first error of any
  /// of them, on all.
  runtime::Status agree(const runtime::Status &own);

  /// Refuses an MPI job of another size than the plan's.
  runtime::Status checkWorldSize(const runtime::LoadedProgram &program) const;

  /// Runs `body` on every rank that lives in this process, and prints what went
  /// wrong: a shared error once, by the first process; others with their ranks.
  /// Returns the exit status; does not return when a rank hangs or an MPI job
  /// is to be ended.
  int run(const runtime::LoadedProgram &program,
          const std::function<RankOutcome(runtime::Communicator &)> &body);

private:
  int runThreads(
      int64_t size,
      const std::function<RankOutcome(runtime::Communicator &)> &body);
  int runMpi(const std::function<RankOutcome(runtime::Communicator &)> &body);

  double timeout = 0;
  std::unique_ptr<runtime::Communicator> communicator;
  std::unique_ptr<runtime::Group> world;
};

/// Prints "mixle-run: error: ..." for every line of `message` to stderr.
void printError(const std::string &message);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_RANKS_H
