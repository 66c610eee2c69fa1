//===- ThreadRanks.h - All ranks of a program in one process ----*- C++ -*-===//

#ifndef MIXLE_RUNTIME_EXECUTOR_THREADRANKS_H
#define MIXLE_RUNTIME_EXECUTOR_THREADRANKS_H

#include "runtime/comm/ThreadWorld.h"

#include <functional>

namespace mixle::runtime {

/// Runs `body(rank, communicator)` on `worldSize` ranks, each a thread of its
/// own, and waits for them. An error or exception of a rank aborts the world:
/// the others stop at their next exchange. Returns the first error, one line
/// per failed rank, each naming its rank.
Status runOnThreads(int worldSize,
                    const std::function<Status(int, Communicator &)> &body,
                    const ThreadWorldOptions &options = {});

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_THREADRANKS_H
