//===- ThreadInternal.h - State shared by ranks as threads ------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_COMM_THREADINTERNAL_H
#define MIXLE_RUNTIME_COMM_THREADINTERNAL_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/FutexBarrier.h"
#include "runtime/comm/ThreadWorld.h"
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

namespace mixle::runtime {

/// Calls whose input is at most this many bytes leave a copy of it in their
/// slot, so that one barrier is enough: nobody reads the caller's buffer
/// afterwards.
constexpr int64_t slotBytes = 2048;

/// What one member says about one collective.
struct ThreadSlot {
  CollectiveCall call;
  uint64_t agreement = 0;
  CommandContext context;
  alignas(64) std::array<char, slotBytes> payload;
};

/// What the members of a group share. Slots are used alternately: a member
/// writes the slot of call k+2 only after all members have arrived at call k+1
/// and so are done with that of call k.
struct ThreadGroupState {
  explicit ThreadGroupState(size_t members)
      : slots{std::vector<ThreadSlot>(members),
              std::vector<ThreadSlot>(members)},
        arrivals(members) {}

  std::array<std::vector<ThreadSlot>, 2> slots;
  /// Number of the last collective at which each member has arrived.
  std::vector<std::atomic<uint64_t>> arrivals;
  /// All have arrived. Failures interrupt it, for all members or for none.
  alignas(64) FutexBarrier arrival;
  /// All are done with each other's buffers. Never interrupted: every member is
  /// between the two barriers and depends on nobody else.
  alignas(64) FutexBarrier departure;
};

/// Messages to one rank.
struct ThreadMailbox {
  struct Message {
    int source;
    int tag;
    std::vector<char> data;
  };
  /// A receiver that waits: the sender copies straight into its buffer.
  struct Waiting {
    int source;
    int tag;
    void *data;
    int64_t bytes;
    bool delivered = false;
    int64_t deliveredBytes = 0;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Message> messages;
  Waiting *waiting = nullptr;
};

class ThreadCommunicator;

class ThreadWorldState {
public:
  ThreadWorldState(int size, ThreadWorldOptions options);
  ~ThreadWorldState();

  /// Records the first failure and wakes everyone. `message` is without the
  /// rank.
  void fail(int rank, const std::string &message);
  bool failed() const { return hasFailed.load(std::memory_order_acquire); }
  /// "rank 1 failed: message"; only after failed().
  Status failure();
  /// The rank that failed first, or -1.
  int failedRank();

  /// The state of the group that `rank` makes of `ranks`; members that make the
  /// same list for the n-th time get the same state.
  Expected<std::shared_ptr<ThreadGroupState>>
  joinGroup(int rank, const std::vector<int> &ranks);

  const ThreadWorldOptions options;
  std::vector<std::unique_ptr<ThreadCommunicator>> communicators;
  std::deque<ThreadMailbox> mailboxes;

private:
  struct GroupKey {
    std::vector<std::shared_ptr<ThreadGroupState>> instances;
    std::map<int, size_t> made; ///< how often each rank has made it
  };

  std::mutex mutex;
  std::atomic<bool> hasFailed{false};
  int firstRank = -1;
  std::string firstMessage;
  std::map<std::vector<int>, GroupKey> groups;
};

class ThreadGroup : public Group {
public:
  ThreadGroup(const Communicator *owner, std::vector<int> ranks, int index,
              std::shared_ptr<ThreadGroupState> state)
      : Group(owner, std::move(ranks), index), state(std::move(state)) {}

  const std::shared_ptr<ThreadGroupState> state;
  uint64_t sequence = 0; ///< collectives that this member has begun
};

class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(ThreadWorldState &world, int rank, int size)
      : Communicator(rank, size), world(world) {}

  void abort(const std::string &message) override;

protected:
  Expected<std::unique_ptr<Group>> makeGroup(std::vector<int> worldRanks,
                                             int index) override;
  Status runCollective(Group &group, const CollectiveCall &call,
                       const CommandContext &context) override;
  Status sendBytes(const CommandContext &context, const void *data,
                   int64_t bytes, int peer, int tag) override;
  Status recvBytes(const CommandContext &context, void *data, int64_t bytes,
                   int peer, int tag) override;
  Status health() const override;

private:
  Status arrive(ThreadGroup &group, const CollectiveCall &call,
                const CommandContext &context);
  Status checkCalls(ThreadGroup &group, const CollectiveCall &call,
                    const CommandContext &context);
  void exchange(ThreadGroup &group, const CollectiveCall &call);
  void allReduceSlices(ThreadGroup &group, const CollectiveCall &call);

  ThreadWorldState &world;
  /// All members' inputs of the current call; kept to save its allocation.
  std::vector<const void *> inputs;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_THREADINTERNAL_H
