//===- RunPrograms.h - Running programs in tests ----------------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_EXECUTOR_RUNPROGRAMS_H
#define MIXLE_TEST_RUNTIME_EXECUTOR_RUNPROGRAMS_H

#include "runtime/executor/Executor.h"
#include "runtime/executor/ThreadRanks.h"
#include "test/runtime/program/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <functional>

namespace mixle::runtime::test {

/// Loads the program and runs `body` with an executor on each rank. The error
/// of loading, or of the ranks.
inline Status runEverywhere(const fb::ProgramT &program,
                            const std::function<Status(RankExecutor &)> &body,
                            const ExecutorOptions &options = {}) {
  MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<const LoadedProgram> loaded,
                         loadBytes(program));
  ThreadWorldOptions world;
  world.timeout = 60;
  return runOnThreads(
      static_cast<int>(loaded->plan.worldSize()),
      [&](int, Communicator &communicator) -> Status {
        MIXLE_ASSIGN_OR_RETURN(
            std::unique_ptr<RankExecutor> executor,
            RankExecutor::create(loaded, communicator, options));
        return body(*executor);
      },
      world);
}

/// The elements of a persistent state, which is of type T.
template <typename T>
T *stateOf(RankExecutor &executor, const std::string &name) {
  Expected<BufferView> view = executor.stateBuffer(name);
  EXPECT_TRUE(view.ok()) << view.status().message();
  return view.ok() ? static_cast<T *>(view->data) : nullptr;
}

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_EXECUTOR_RUNPROGRAMS_H
