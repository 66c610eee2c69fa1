//===- ThreadCollectives.cpp - Collectives inside one process -------------===//
//
// Every collective: publish the arguments, arrive, look at all members'
// arguments, then read their buffers. Large reductions are cut into one slice
// per member; each reads its slice of all inputs and writes it into its own
// buffer only, and copies the other slices from their owners afterwards: no
// staging.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Reduce.h"
#include "runtime/comm/ThreadInternal.h"
#include <algorithm>
#include <cstring>
#include <thread>

namespace mixle::runtime {

namespace {

/// Looks at a barrier that often before sleeping, a few microseconds, and not
/// at all when ranks outnumber cores: then another rank can use the core.
int spinsFor(int worldSize) {
  static const int cores =
      static_cast<int>(std::thread::hardware_concurrency());
  return worldSize <= cores ? 200 : 0;
}

void copyBytes(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from)
    std::memcpy(to, from, bytes);
}

/// Bytes of this rank's input that others read; all members agree on it.
int64_t inputBytes(const CollectiveCall &call, int members) {
  switch (call.kind) {
  case CollectiveOp::allReduce:
    return call.count * sizeOf(call.type);
  case CollectiveOp::reduceScatter:
    return call.count * sizeOf(call.type) * members;
  case CollectiveOp::allGather:
  case CollectiveOp::broadcast:
    return call.count;
  case CollectiveOp::barrier:
    return 0;
  case CollectiveOp::allGatherV:
  case CollectiveOp::allToAllV:
    break; // differs between members: never through the slots
  }
  return slotBytes + 1;
}

} // namespace

Status ThreadCommunicator::health() const {
  return world.failed() ? world.failure() : Status::success();
}

void ThreadCommunicator::abort(const std::string &message) {
  world.fail(rank(), message);
}

Expected<std::unique_ptr<Group>>
ThreadCommunicator::makeGroup(std::vector<int> worldRanks, int index) {
  MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<ThreadGroupState> state,
                         world.joinGroup(rank(), worldRanks));
  return std::unique_ptr<Group>(
      new ThreadGroup(this, std::move(worldRanks), index, std::move(state)));
}

Status ThreadCommunicator::runCollective(Group &base,
                                         const CollectiveCall &call,
                                         const CommandContext &context) {
  auto &group = static_cast<ThreadGroup &>(base);
  ThreadGroupState &state = *group.state;
  uint64_t sequence = ++group.sequence;
  ThreadSlot &slot = state.slots[sequence % 2][group.index()];
  slot.call = call;
  slot.agreement = call.agreement();
  slot.context = context;
  bool throughSlots = inputBytes(call, group.size()) <= slotBytes;
  bool gives =
      call.kind != CollectiveOp::broadcast || call.root == group.index();
  if (throughSlots && gives)
    copyBytes(slot.payload.data(), call.in, inputBytes(call, group.size()));
  state.arrivals[group.index()].store(sequence, std::memory_order_release);
  MIXLE_RETURN_IF_ERROR(arrive(group, call, context));
  MIXLE_RETURN_IF_ERROR(checkCalls(group, call, context));

  const std::vector<ThreadSlot> &slots = state.slots[sequence % 2];
  inputs.clear();
  for (const ThreadSlot &member : slots)
    inputs.push_back(throughSlots ? member.payload.data() : member.call.in);
  if (throughSlots && call.kind == CollectiveOp::allReduce) {
    reduce(call.out, inputs.data(), group.size(), call.count, call.type,
           call.op);
    return Status::success();
  }
  exchange(group, call);
  if (!throughSlots)
    state.departure.arriveAndWait(group.size(), 0, spinsFor(worldSize()));
  return Status::success();
}

/// Waits until all members have published their call.
Status ThreadCommunicator::arrive(ThreadGroup &group,
                                  const CollectiveCall &call,
                                  const CommandContext &context) {
  double timeout = world.options.timeout;
  FutexBarrier::Result result = group.state->arrival.arriveAndWait(
      group.size(), timeout, spinsFor(worldSize()));
  if (result == FutexBarrier::Result::complete)
    return Status::success();
  std::string what = describeWait(call, group, context);
  if (result == FutexBarrier::Result::timedOut) {
    std::vector<int> missing;
    for (int i = 0; i < group.size(); ++i)
      if (group.state->arrivals[i].load(std::memory_order_acquire) <
          group.sequence)
        missing.push_back(group.ranks()[i]);
    std::string problem = what + ": timed out after " +
                          describeSeconds(timeout) + "; " + listRanks(missing) +
                          (missing.size() == 1 ? " has" : " have") +
                          " not arrived";
    world.fail(rank(), problem);
    return Status::error(problem);
  }
  // A member that times out fails the barrier first and the world right after,
  // so the world's failure may still be on its way.
  while (!world.failed())
    std::this_thread::yield();
  return world.failure().withContext(what);
}

/// All members look at all calls and so come to the same verdict.
Status ThreadCommunicator::checkCalls(ThreadGroup &group,
                                      const CollectiveCall &call,
                                      const CommandContext &context) {
  const std::vector<ThreadSlot> &slots = group.state->slots[group.sequence % 2];
  bool match = true;
  uint64_t pairing = 0;
  for (const ThreadSlot &slot : slots)
    match &= slot.agreement == slots.front().agreement;
  if (match && call.kind == CollectiveOp::allToAllV) {
    for (size_t i = 0; i < slots.size(); ++i)
      pairing += slots[i].call.pairing(static_cast<int>(i));
    match = pairing == 0;
  }
  if (match)
    return Status::success();
  std::vector<std::string> calls;
  for (const ThreadSlot &slot : slots)
    calls.push_back(slot.call.describe() + " in " + describe(slot.context));
  // The texts point into the callers' arguments: nobody leaves before all are
  // done.
  group.state->departure.arriveAndWait(group.size(), 0, spinsFor(worldSize()));
  std::string problem = describeWait(call, group, context) + ": " +
                        describeMismatch(group.ranks(), calls);
  world.fail(rank(), problem);
  return Status::error(problem);
}

/// Moves the data; `inputs` holds what each member gives.
void ThreadCommunicator::exchange(ThreadGroup &group,
                                  const CollectiveCall &call) {
  const std::vector<ThreadSlot> &slots = group.state->slots[group.sequence % 2];
  int self = group.index();
  char *out = static_cast<char *>(call.out);
  auto input = [&](int member) {
    return static_cast<const char *>(inputs[member]);
  };
  switch (call.kind) {
  case CollectiveOp::allReduce:
    return allReduceSlices(group, call);
  case CollectiveOp::reduceScatter: {
    int64_t offset = self * call.count * sizeOf(call.type);
    for (int member = 0; member < group.size(); ++member)
      inputs[member] = input(member) + offset;
    return reduce(out, inputs.data(), group.size(), call.count, call.type,
                  call.op);
  }
  case CollectiveOp::allGather:
    for (int member = 0; member < group.size(); ++member)
      copyBytes(out + member * call.count, input(member), call.count);
    return;
  case CollectiveOp::allGatherV:
    for (int member = 0; member < group.size(); ++member)
      copyBytes(out + (*call.recvOffsets)[member], input(member),
                (*call.recvCounts)[member]);
    return;
  case CollectiveOp::allToAllV:
    for (int member = 0; member < group.size(); ++member)
      copyBytes(out + (*call.recvOffsets)[member],
                input(member) + (*slots[member].call.sendOffsets)[self],
                (*call.recvCounts)[member]);
    return;
  case CollectiveOp::broadcast:
    if (self != call.root)
      copyBytes(out, input(call.root), call.count);
    return;
  case CollectiveOp::barrier:
    return;
  }
}

void ThreadCommunicator::allReduceSlices(ThreadGroup &group,
                                         const CollectiveCall &call) {
  int members = group.size();
  int64_t width = sizeOf(call.type);
  char *out = static_cast<char *>(call.out);
  Slice own = sliceOf(call.count, members, group.index());
  std::vector<const void *> slices(members);
  for (int member = 0; member < members; ++member)
    slices[member] =
        static_cast<const char *>(inputs[member]) + own.begin * width;
  reduce(out + own.begin * width, slices.data(), members, own.size(), call.type,
         call.op);
  // Slices are complete; the caller waits once more until all have been read.
  group.state->departure.arriveAndWait(members, 0, spinsFor(worldSize()));
  for (int member = 0; member < members; ++member) {
    Slice slice = sliceOf(call.count, members, member);
    copyBytes(out + slice.begin * width,
              static_cast<const char *>(inputs[member]) + slice.begin * width,
              slice.size() * width);
  }
}

} // namespace mixle::runtime
