//===- Communicator.cpp - Arguments checked once for all ------------------===//

#include "runtime/comm/Communicator.h"
#include "runtime/comm/CollectiveCall.h"
#include <algorithm>
#include <cstring>
#include <limits>

namespace mixle::runtime {

std::string describe(const CommandContext &context) {
  std::string text = "entry '" + context.entry + "', command " +
                     std::to_string(context.command);
  if (!context.update.empty())
    text += ", update '" + context.update + "'";
  return text;
}

int64_t sizeOf(DataType type) {
  switch (type) {
  case DataType::i32:
  case DataType::u32:
  case DataType::f32:
    return 4;
  case DataType::i64:
  case DataType::u64:
  case DataType::f64:
    return 8;
  case DataType::bytes:
    return 1;
  }
  return 1;
}

const char *toString(DataType type) {
  constexpr const char *names[] = {"i32", "i64", "u32",  "u64",
                                   "f32", "f64", "bytes"};
  return names[static_cast<int>(type)];
}

const char *toString(ReduceOp op) {
  constexpr const char *names[] = {"sum", "max", "min", "bit_or"};
  return names[static_cast<int>(op)];
}

bool isReducible(DataType type, ReduceOp op) {
  bool floating = type == DataType::f32 || type == DataType::f64;
  return op == ReduceOp::bitOr ? !floating : type != DataType::bytes;
}

Slice sliceOf(int64_t count, int parts, int index) {
  int64_t length = count / parts, longer = count % parts;
  int64_t begin = index * length + std::min<int64_t>(index, longer);
  return {begin, begin + length + (index < longer ? 1 : 0)};
}

namespace {

using Counts = std::vector<int64_t>;

Status refuse(const char *operation, const CommandContext &context,
              const std::string &problem) {
  return Status::error(std::string(operation) + " in " + describe(context) +
                       ": " + problem);
}

/// What is wrong with `count` elements of `elementBytes` at `data`, or "".
std::string checkBuffer(const char *name, const void *data, int64_t count,
                        int64_t elementBytes, int64_t copies) {
  if (count < 0)
    return "the count is " + std::to_string(count) + ", expected 0 or more";
  if (count > std::numeric_limits<int64_t>::max() / elementBytes / copies)
    return "the count " + std::to_string(count) +
           " is too large: its bytes do not fit in 63 bits";
  if (count > 0 && !data)
    return std::string(name) + " is null but " + std::to_string(count) +
           " elements are asked for";
  return "";
}

/// What is wrong with the counts and offsets of one side, or "". `extent`
/// becomes the end of the last byte used, `total` the sum of the counts.
std::string checkCounts(const char *side, const void *data, int members,
                        const Counts &counts, const Counts &offsets,
                        int64_t &extent) {
  extent = 0;
  if (static_cast<int>(counts.size()) != members ||
      static_cast<int>(offsets.size()) != members)
    return std::string(side) + " has " + std::to_string(counts.size()) +
           " counts and " + std::to_string(offsets.size()) +
           " offsets, expected one each for " + std::to_string(members) +
           " members";
  for (int i = 0; i < members; ++i) {
    if (counts[i] < 0 || offsets[i] < 0 ||
        offsets[i] > std::numeric_limits<int64_t>::max() - counts[i])
      return std::string(side) + " count " + std::to_string(counts[i]) +
             " at offset " + std::to_string(offsets[i]) + " of member " +
             std::to_string(i) + " is out of range";
    if (counts[i] > 0)
      extent = std::max(extent, offsets[i] + counts[i]);
  }
  if (extent > 0 && !data)
    return std::string(side) + " buffer is null but " + std::to_string(extent) +
           " bytes are asked for";
  return "";
}

bool overlaps(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  auto aBegin = reinterpret_cast<uintptr_t>(a);
  auto bBegin = reinterpret_cast<uintptr_t>(b);
  return aBytes > 0 && bBytes > 0 && aBegin < bBegin + bBytes &&
         bBegin < aBegin + aBytes;
}

void copyBytes(void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from)
    std::memcpy(to, from, bytes);
}

constexpr const char *overlapProblem =
    "the buffers overlap in another way than the in-place form "
    "(runtime/comm/Communicator.h) allows";

} // namespace

Expected<std::unique_ptr<Group>>
Communicator::createGroup(std::vector<int> worldRanks) {
  MIXLE_RETURN_IF_ERROR(health());
  if (worldRanks.empty())
    return Status::error("a group needs at least one rank");
  std::vector<int> sorted = worldRanks;
  std::sort(sorted.begin(), sorted.end());
  std::string what = "group of " + listRanks(worldRanks);
  if (sorted.front() < 0 || sorted.back() >= size)
    return Status::error(what + ": expected ranks from 0 to " +
                         std::to_string(size - 1));
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return Status::error(what + ": rank " + std::to_string(*twice) +
                         " occurs more than once");
  auto self = std::find(worldRanks.begin(), worldRanks.end(), ownRank);
  if (self == worldRanks.end())
    return Status::error(what + " does not contain rank " +
                         std::to_string(ownRank) +
                         ", which creates it: only members may");
  int index = static_cast<int>(self - worldRanks.begin());
  return makeGroup(std::move(worldRanks), index);
}

Status Communicator::collective(Group &group, const CollectiveCall &call,
                                const CommandContext &context, int64_t bytes) {
  if (group.owner() != this)
    return Status::error(call.describe() + " in " + describe(context) +
                         ": the group of " + listRanks(group.ranks()) +
                         " was made by another communicator");
  Status healthy = health();
  if (!healthy.ok())
    return healthy.withContext(describeWait(call, group, context));
  if (group.size() > 1)
    MIXLE_RETURN_IF_ERROR(runCollective(group, call, context));
  sent += bytes;
  return Status::success();
}

Status Communicator::allReduce(Group &group, const CommandContext &context,
                               void *buffer, int64_t count, DataType type,
                               ReduceOp op) {
  if (!isReducible(type, op))
    return refuse("all_reduce", context,
                  std::string("there is no ") + toString(op) + " of " +
                      toString(type));
  std::string problem =
      checkBuffer("the buffer", buffer, count, sizeOf(type), 2);
  if (!problem.empty())
    return refuse("all_reduce", context, problem);
  CollectiveCall call;
  call.kind = CollectiveOp::allReduce;
  call.type = type;
  call.op = op;
  call.count = count;
  call.in = call.out = buffer;
  int64_t own = sliceOf(count, group.size(), group.index()).size();
  return collective(group, call, context,
                    (count - own + (group.size() - 1) * own) * sizeOf(type));
}

Status Communicator::reduceScatter(Group &group, const CommandContext &context,
                                   const void *in, void *out,
                                   int64_t countPerRank, DataType type,
                                   ReduceOp op) {
  if (!isReducible(type, op))
    return refuse("reduce_scatter", context,
                  std::string("there is no ") + toString(op) + " of " +
                      toString(type));
  std::string problem =
      checkBuffer("in", in, countPerRank, sizeOf(type), group.size());
  if (problem.empty())
    problem = checkBuffer("out", out, countPerRank, sizeOf(type), group.size());
  if (!problem.empty())
    return refuse("reduce_scatter", context, problem);
  int64_t block = countPerRank * sizeOf(type);
  const char *own = static_cast<const char *>(in) + group.index() * block;
  if (out != own && overlaps(in, block * group.size(), out, block))
    return refuse("reduce_scatter", context, overlapProblem);
  CollectiveCall call;
  call.kind = CollectiveOp::reduceScatter;
  call.type = type;
  call.op = op;
  call.count = countPerRank;
  call.in = in;
  call.out = out;
  MIXLE_RETURN_IF_ERROR(
      collective(group, call, context, (group.size() - 1) * block));
  if (group.size() == 1)
    copyBytes(out, in, block);
  return Status::success();
}

Status Communicator::allGather(Group &group, const CommandContext &context,
                               const void *in, void *out,
                               int64_t bytesPerRank) {
  std::string problem = checkBuffer("in", in, bytesPerRank, 1, group.size());
  if (problem.empty())
    problem = checkBuffer("out", out, bytesPerRank, 1, group.size());
  if (!problem.empty())
    return refuse("all_gather", context, problem);
  char *own = static_cast<char *>(out) + group.index() * bytesPerRank;
  if (in != own && overlaps(in, bytesPerRank, out, bytesPerRank * group.size()))
    return refuse("all_gather", context, overlapProblem);
  CollectiveCall call;
  call.kind = CollectiveOp::allGather;
  call.count = bytesPerRank;
  call.in = in;
  call.out = out;
  MIXLE_RETURN_IF_ERROR(
      collective(group, call, context, (group.size() - 1) * bytesPerRank));
  if (group.size() == 1)
    copyBytes(out, in, bytesPerRank);
  return Status::success();
}

Status Communicator::allGatherV(Group &group, const CommandContext &context,
                                const void *in, int64_t bytes, void *out,
                                const Counts &recvCounts,
                                const Counts &recvOffsets) {
  int64_t extent;
  std::string problem = checkBuffer("in", in, bytes, 1, group.size());
  if (problem.empty())
    problem = checkCounts("receive", out, group.size(), recvCounts, recvOffsets,
                          extent);
  if (problem.empty() && recvCounts[group.index()] != bytes)
    problem = "this rank gives " + std::to_string(bytes) +
              " bytes but its receive count is " +
              std::to_string(recvCounts[group.index()]);
  if (problem.empty()) {
    char *own = static_cast<char *>(out) + recvOffsets[group.index()];
    if (in != own && overlaps(in, bytes, out, extent))
      problem = overlapProblem;
  }
  if (!problem.empty())
    return refuse("all_gather", context, problem);
  CollectiveCall call;
  call.kind = CollectiveOp::allGatherV;
  call.count = bytes;
  call.in = in;
  call.out = out;
  call.recvCounts = &recvCounts;
  call.recvOffsets = &recvOffsets;
  MIXLE_RETURN_IF_ERROR(
      collective(group, call, context, (group.size() - 1) * bytes));
  if (group.size() == 1)
    copyBytes(static_cast<char *>(out) + recvOffsets[0], in, bytes);
  return Status::success();
}

Status Communicator::allToAllV(Group &group, const CommandContext &context,
                               const void *in, const Counts &sendCounts,
                               const Counts &sendOffsets, void *out,
                               const Counts &recvCounts,
                               const Counts &recvOffsets) {
  int64_t inExtent = 0, outExtent = 0, others = 0;
  int self = group.index();
  std::string problem =
      checkCounts("send", in, group.size(), sendCounts, sendOffsets, inExtent);
  if (problem.empty())
    problem = checkCounts("receive", out, group.size(), recvCounts, recvOffsets,
                          outExtent);
  if (problem.empty() && sendCounts[self] != recvCounts[self])
    problem = "this rank gives itself " + std::to_string(sendCounts[self]) +
              " bytes but expects " + std::to_string(recvCounts[self]);
  if (problem.empty() && overlaps(in, inExtent, out, outExtent))
    problem = overlapProblem;
  if (!problem.empty())
    return refuse("all_to_all", context, problem);
  for (int peer = 0; peer < group.size(); ++peer)
    others += peer == self ? 0 : sendCounts[peer];
  CollectiveCall call;
  call.kind = CollectiveOp::allToAllV;
  call.in = in;
  call.out = out;
  call.sendCounts = &sendCounts;
  call.sendOffsets = &sendOffsets;
  call.recvCounts = &recvCounts;
  call.recvOffsets = &recvOffsets;
  MIXLE_RETURN_IF_ERROR(collective(group, call, context, others));
  if (group.size() == 1)
    copyBytes(static_cast<char *>(out) + recvOffsets[0],
              static_cast<const char *>(in) + sendOffsets[0], sendCounts[0]);
  return Status::success();
}

Status Communicator::broadcast(Group &group, const CommandContext &context,
                               void *buffer, int64_t bytes, int root) {
  std::string problem =
      checkBuffer("the buffer", buffer, bytes, 1, group.size());
  if (problem.empty() && (root < 0 || root >= group.size()))
    problem = "the root is member " + std::to_string(root) +
              ", expected 0 to " + std::to_string(group.size() - 1);
  if (!problem.empty())
    return refuse("broadcast", context, problem);
  CollectiveCall call;
  call.kind = CollectiveOp::broadcast;
  call.count = bytes;
  call.root = root;
  call.in = call.out = buffer;
  bool isRoot = root == group.index();
  return collective(group, call, context,
                    isRoot ? (group.size() - 1) * bytes : 0);
}

Status Communicator::barrier(Group &group, const CommandContext &context) {
  return collective(group, CollectiveCall(), context, 0);
}

namespace {

std::string checkMessage(const void *data, int64_t bytes, int rank, int size,
                         int peer, int tag) {
  std::string problem = checkBuffer("the buffer", data, bytes, 1, 1);
  if (problem.empty() && (peer < 0 || peer >= size || peer == rank))
    problem = "the peer is rank " + std::to_string(peer) +
              ", expected another rank from 0 to " + std::to_string(size - 1);
  if (problem.empty() && tag < 0)
    problem = "the tag is " + std::to_string(tag) + ", expected 0 or more";
  return problem;
}

} // namespace

Status Communicator::send(const CommandContext &context, const void *data,
                          int64_t bytes, int peer, int tag) {
  std::string problem = checkMessage(data, bytes, ownRank, size, peer, tag);
  if (!problem.empty())
    return refuse("send", context, problem);
  Status healthy = health();
  if (!healthy.ok())
    return healthy.withContext("send in " + describe(context));
  MIXLE_RETURN_IF_ERROR(sendBytes(context, data, bytes, peer, tag));
  sent += bytes;
  return Status::success();
}

Status Communicator::recv(const CommandContext &context, void *data,
                          int64_t bytes, int peer, int tag) {
  std::string problem = checkMessage(data, bytes, ownRank, size, peer, tag);
  if (!problem.empty())
    return refuse("recv", context, problem);
  Status healthy = health();
  if (!healthy.ok())
    return healthy.withContext("recv in " + describe(context));
  return recvBytes(context, data, bytes, peer, tag);
}

} // namespace mixle::runtime
