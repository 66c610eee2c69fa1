//===- Ranks.cpp - Work on all ranks of a plan ----------------------------===//

#include "tools/mixle-run/Ranks.h"
#include "runtime/comm/MpiLoader.h"
#include "runtime/comm/ThreadWorld.h"
#include "runtime/training/Agreement.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace mixle::tools {

using namespace runtime;

void printError(const std::string &message) {
  std::string text;
  for (size_t begin = 0; begin <= message.size();) {
    size_t end = std::min(message.find('\n', begin), message.size());
    text += "mixle-run: error: " + message.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  // One write: processes of a job share the terminal.
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Status Ranks::open(const RunOptions &options) {
  timeout = options.collectiveTimeout;
  if (options.communicator == "threads" ||
      (options.communicator.empty() && !runningUnderMpi()))
    return Status::success();
  MpiOptions mpi;
  mpi.timeout = timeout;
  MIXLE_ASSIGN_OR_RETURN(communicator, openMpi(mpi));
  MIXLE_ASSIGN_OR_RETURN(world, makeWorldGroup(*communicator));
  return Status::success();
}

Status Ranks::agree(const Status &own) {
  if (!communicator)
    return own;
  return runtime::agree(*communicator, *world, {"setup", 0, ""}, own);
}

Status Ranks::checkWorldSize(const LoadedProgram &program) const {
  if (!communicator)
    return Status::success();
  Status status = program.plan.validateWorldSize(communicator->worldSize());
  if (status.ok())
    return status;
  return Status::error("program '" + program.path + "': " + status.message() +
                       " Start it with mpirun -n " +
                       std::to_string(program.plan.worldSize()) +
                       ", or compile it for another plan.");
}

int Ranks::run(const LoadedProgram &program,
               const std::function<RankOutcome(Communicator &)> &body) {
  return communicator ? runMpi(body)
                      : runThreads(program.plan.worldSize(), body);
}

int Ranks::runThreads(int64_t size,
                      const std::function<RankOutcome(Communicator &)> &body) {
  ThreadWorldOptions options;
  options.timeout = timeout;
  if (size > 65535) {
    printError("a plan of " + std::to_string(size) +
               " ranks is too large for threads of one process: at most 65535");
    return 1;
  }
  Expected<std::shared_ptr<ThreadWorld>> created =
      ThreadWorld::create(static_cast<int>(size), options);
  if (!created.ok()) {
    printError(created.status().message());
    return 1;
  }
  ThreadWorld &threads = **created;
  // A rank that is left behind may still write here: it outlives this call.
  auto outcomes =
      std::make_shared<std::vector<RankOutcome>>(static_cast<size_t>(size));
  Status status = threads.run([outcomes, &body](Communicator &rank) {
    RankOutcome outcome = body(rank);
    (*outcomes)[static_cast<size_t>(rank.rank())] = outcome;
    return outcome.shared ? Status::success() : outcome.status;
  });
  if (!status.ok()) {
    printError(status.message());
    if (!threads.stragglers().empty()) {
      std::fflush(nullptr);
      std::_Exit(1);
    }
    return 1;
  }
  const Status &shared = outcomes->front().status;
  if (!shared.ok())
    printError(shared.message());
  return shared.ok() ? 0 : 1;
}

int Ranks::runMpi(const std::function<RankOutcome(Communicator &)> &body) {
  RankOutcome outcome;
  try {
    outcome = body(*communicator);
  } catch (const std::exception &exception) {
    outcome.status =
        Status::error(std::string("exception: ") + exception.what());
  }
  if (outcome.status.ok())
    return 0;
  if (!outcome.shared) {
    std::fflush(nullptr);
    communicator->abort(outcome.status.message());
  }
  if (isFirst())
    printError(outcome.status.message());
  return 1;
}

} // namespace mixle::tools
