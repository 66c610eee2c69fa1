//===- ThreadWorld.h - Ranks as threads of one process ----------*- C++ -*-===//
//
// The communicator for ranks that share an address space: members read each
// other's buffers directly, and whoever waits sleeps on a futex or a condition
// variable.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_THREADWORLD_H
#define MIXLE_RUNTIME_COMM_THREADWORLD_H

#include "runtime/comm/Communicator.h"
#include <functional>

namespace mixle::runtime {

struct ThreadWorldOptions {
  /// Longest wait of one call in seconds; 0 waits for ever.
  double timeout = 0;
  /// How long run() waits for the other ranks to stop after one has failed.
  double stopGrace = 5;
};

class ThreadWorldState;

/// The ranks 0..size-1 of one program. Each rank's communicator is used from
/// one thread at a time. The first failure makes the whole world unusable.
class ThreadWorld {
public:
  /// `size` is at least 1 and at most 65535.
  static Expected<std::shared_ptr<ThreadWorld>>
  create(int size, ThreadWorldOptions options = {});
  ~ThreadWorld();

  int size() const;
  /// Valid as long as the world; `rank` is in range.
  Communicator &communicator(int rank);

  /// Rank `rank` cannot go on: every rank that waits, now or later, gets an
  /// error with this rank, the message, and the command it waited in. May be
  /// called from any thread.
  void abort(int rank, const std::string &message);

  /// Runs `body` once per rank, each in a thread of its own, and waits for
  /// them. An error or exception of a rank aborts the world. The error returned
  /// has one line per failed rank, "rank R: message", the one that failed first
  /// on top.
  ///
  /// A thread that hangs cannot be ended: after `stopGrace` such ranks are left
  /// behind, the error names them, and stragglers() lists them. They may still
  /// use whatever `body` refers to, so the process should then end by
  /// std::_Exit.
  Status run(const std::function<Status(Communicator &)> &body);
  const std::vector<int> &stragglers() const { return leftBehind; }

private:
  explicit ThreadWorld(std::shared_ptr<ThreadWorldState> state);
  std::shared_ptr<ThreadWorldState> state;
  std::vector<int> leftBehind;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_THREADWORLD_H
