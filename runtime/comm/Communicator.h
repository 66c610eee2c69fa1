//===- Communicator.h - What ranks say to each other ------------*- C++ -*-===//
//
// One interface for every way in which ranks exchange bytes. Implementations:
// `threads` (ThreadWorld.h: all ranks in one process) and `mpi` (MpiLoader.h).
// test/runtime/comm holds the conformance suite that each of them passes.
//
// Contract, for all implementations
//  * Calls block, and whoever waits sleeps. One thread per rank calls.
//  * Members of a group issue the same collectives on it in the same order.
//  When
//    they do not, every member gets an error that names both sides.
//  * Zero counts and groups of one rank are legal. A zero count still waits for
//    the members; a group of one is a copy, or nothing.
//  * Every call takes the CommandContext it serves, and its errors name it.
//  * After a failure a communicator is of no use: every later call fails with
//    the first error. Whoever stops early has to call abort(), or the peers
//    wait.
//
// Sums. Integers wrap modulo 2^32 and 2^64, so any order gives the same bits.
// A floating-point sum depends on the number of ranks and on the
// implementation: it is for programs with `numerics = fast` only; the
// reproducible ones use integers or treeAllReduce (TreeAllReduce.h).
// Floating-point max and min are the same in any order: -0 is below +0, and a
// NaN anywhere gives the quiet NaN with an empty payload (a group of one copies
// its NaN as it is).
//
// In place. allReduce and broadcast always are. reduceScatter may have
// out = in + index·countPerRank elements; allGather in = out + index·bytes;
// allGatherV in = out + recvOffsets[index]. Any other overlap is refused.
//
// Bytes. bytesSent() counts the payload that this rank hands to others, as an
// exchange through slices (sliceOf) would, whatever the implementation does.
// With d members, n bytes, own slice s:
//   allReduce n − s + (d−1)·s, which is 2(d−1)/d·n when d divides the count;
//   reduceScatter of d blocks of b bytes, allGather of b bytes a rank: (d−1)·b;
//   allGatherV (d−1)·(own bytes); allToAllV what goes to others;
//   broadcast (d−1)·n at the root, else 0; send n; barrier 0.
// Calls that fail are not counted.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_COMMUNICATOR_H
#define MIXLE_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/include/mixle/Status.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mixle::runtime {

/// What a rank is executing; errors name it.
struct CommandContext {
  std::string entry;   ///< entry point, "step"
  int64_t command = 0; ///< index of the command in the entry's list
  std::string update;  ///< node_id of the dist.update, empty if there is none
};

/// "entry 'step', command 17, update 'loss:tp'".
std::string describe(const CommandContext &context);

enum class DataType : uint8_t { i32, i64, u32, u64, f32, f64, bytes };
enum class ReduceOp : uint8_t { sum, max, min, bitOr };

/// Bytes of one element.
int64_t sizeOf(DataType type);
const char *toString(DataType type);
const char *toString(ReduceOp op);

/// Whether elements of `type` can be reduced with `op`: sum, max and min of
/// every type but bytes; bitOr of integers and bytes.
bool isReducible(DataType type, ReduceOp op);

/// Elements [begin, end) of something that is cut into parts.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` of `count` elements: contiguous, and the first
/// count mod parts of them are one longer. The partition used everywhere here.
Slice sliceOf(int64_t count, int parts, int index);

class Communicator;

/// An ordered list of world ranks of which this rank is one. Belongs to the
/// communicator that made it and must be destroyed before it.
class Group {
public:
  virtual ~Group() = default;
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  const std::vector<int> &ranks() const { return members; }
  int size() const { return static_cast<int>(members.size()); }
  /// Position of this rank in ranks().
  int index() const { return position; }
  const Communicator *owner() const { return creator; }

protected:
  Group(const Communicator *creator, std::vector<int> members, int position)
      : creator(creator), members(std::move(members)), position(position) {}

private:
  const Communicator *creator;
  std::vector<int> members;
  int position;
};

struct CollectiveCall;

class Communicator {
public:
  virtual ~Communicator() = default;
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int rank() const { return ownRank; }
  int worldSize() const { return size; }
  int64_t bytesSent() const { return sent; }

  /// Makes a group of the distinct `worldRanks`, this rank among them. Every
  /// member calls it with the same list; two groups that share members are made
  /// in the same order by those. Making a list twice gives two independent
  /// groups.
  Expected<std::unique_ptr<Group>> createGroup(std::vector<int> worldRanks);

  /// buffer[count] becomes the reduction over all members' buffers.
  Status allReduce(Group &group, const CommandContext &context, void *buffer,
                   int64_t count, DataType type, ReduceOp op);

  /// in[size][countPerRank]; out[countPerRank] becomes the reduction over all
  /// members' in[index].
  Status reduceScatter(Group &group, const CommandContext &context,
                       const void *in, void *out, int64_t countPerRank,
                       DataType type, ReduceOp op);

  /// out[size][bytesPerRank] becomes all members' in[bytesPerRank], in order.
  Status allGather(Group &group, const CommandContext &context, const void *in,
                   void *out, int64_t bytesPerRank);

  /// Member j's `bytes` (= recvCounts[j]) bytes come to out + recvOffsets[j].
  /// Counts and offsets are bytes, one per member; all members pass equal
  /// counts.
  Status allGatherV(Group &group, const CommandContext &context, const void *in,
                    int64_t bytes, void *out,
                    const std::vector<int64_t> &recvCounts,
                    const std::vector<int64_t> &recvOffsets);

  /// sendCounts[j] bytes from in + sendOffsets[j] go to member j, which expects
  /// as many from this one. Counts and offsets are bytes, one per member.
  Status allToAllV(Group &group, const CommandContext &context, const void *in,
                   const std::vector<int64_t> &sendCounts,
                   const std::vector<int64_t> &sendOffsets, void *out,
                   const std::vector<int64_t> &recvCounts,
                   const std::vector<int64_t> &recvOffsets);

  /// buffer[bytes] becomes that of member `root` (an index in the group).
  Status broadcast(Group &group, const CommandContext &context, void *buffer,
                   int64_t bytes, int root);

  Status barrier(Group &group, const CommandContext &context);

  /// Sends to a world rank. Buffered: returns when `data` may be reused and
  /// never waits for the receiver, so that crossing sends cannot lock each
  /// other up.
  Status send(const CommandContext &context, const void *data, int64_t bytes,
              int peer, int tag);

  /// Receives what `peer` sent with `tag`, in the order of sending; another
  /// size than `bytes` is an error.
  Status recv(const CommandContext &context, void *data, int64_t bytes,
              int peer, int tag);

  /// Ends the work of all ranks because this one cannot go on: "rank R:
  /// message". Threads: wakes every rank that waits, with an error. mpi: ends
  /// the job and does not return.
  virtual void abort(const std::string &message) = 0;

protected:
  Communicator(int rank, int worldSize) : ownRank(rank), size(worldSize) {}

  // What an implementation provides. Arguments are checked, groups have at
  // least two members.
  virtual Expected<std::unique_ptr<Group>>
  makeGroup(std::vector<int> worldRanks, int index) = 0;
  virtual Status runCollective(Group &group, const CollectiveCall &call,
                               const CommandContext &context) = 0;
  virtual Status sendBytes(const CommandContext &context, const void *data,
                           int64_t bytes, int peer, int tag) = 0;
  virtual Status recvBytes(const CommandContext &context, void *data,
                           int64_t bytes, int peer, int tag) = 0;
  /// The error that made this communicator unusable, or success.
  virtual Status health() const = 0;

private:
  Status collective(Group &group, const CollectiveCall &call,
                    const CommandContext &context, int64_t bytes);

  int ownRank;
  int size;
  int64_t sent = 0;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_COMMUNICATOR_H
