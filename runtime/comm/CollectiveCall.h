//===- CollectiveCall.h - One collective, as data ---------------*- C++ -*-===//
//
// Between the interface and its implementations: the arguments of one
// collective on one rank, how members compare theirs, and the texts of the
// errors, which are the same for every implementation.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_COLLECTIVECALL_H
#define MIXLE_RUNTIME_COMM_COLLECTIVECALL_H

#include "runtime/comm/Communicator.h"

namespace mixle::runtime {

enum class CollectiveOp : uint8_t {
  allReduce,
  reduceScatter,
  allGather,
  allGatherV,
  allToAllV,
  broadcast,
  barrier,
};

struct CollectiveCall {
  CollectiveOp kind = CollectiveOp::barrier;
  DataType type = DataType::bytes;
  ReduceOp op = ReduceOp::sum;
  /// allReduce: elements. reduceScatter: elements per rank. allGather: bytes
  /// per rank. broadcast: bytes. allGatherV: this rank's bytes.
  int64_t count = 0;
  int root = 0;
  const void *in = nullptr; ///< allReduce, broadcast: the same as out
  void *out = nullptr;
  const std::vector<int64_t> *sendCounts = nullptr;
  const std::vector<int64_t> *sendOffsets = nullptr;
  const std::vector<int64_t> *recvCounts = nullptr;
  const std::vector<int64_t> *recvOffsets = nullptr;

  /// A digest of everything in which all members' calls have to agree.
  uint64_t agreement() const;

  /// For allToAllV: a number whose sum over all members, modulo 2^64, is zero
  /// when each count sent is the count expected (and otherwise is not, up to
  /// chance 2^-64). Zero for other kinds.
  uint64_t pairing(int index) const;

  /// "all_reduce(sum of 8 i64)".
  std::string describe() const;
};

/// "rank 3" or "ranks 1, 2".
std::string listRanks(const std::vector<int> &ranks);

/// "all_reduce(sum of 8 i64) over ranks 0, 1 in entry 'step', command 17".
std::string describeWait(const CollectiveCall &call, const Group &group,
                         const CommandContext &context);

/// The error for calls that do not match: `calls[i]` says what member i called
/// and where; equal texts are merged.
std::string describeMismatch(const std::vector<int> &ranks,
                             const std::vector<std::string> &calls);

/// "2.5 s".
std::string describeSeconds(double seconds);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_COLLECTIVECALL_H
