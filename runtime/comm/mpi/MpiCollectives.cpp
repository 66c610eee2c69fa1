//===- MpiCollectives.cpp - Collectives through MPI -----------------------===//

#include "runtime/comm/mpi/MpiCommunicator.h"
#include "runtime/comm/mpi/WaitNotice.h"
#include <algorithm>
#include <cstring>

namespace mixle::runtime {

namespace {

const char *nameOf(CollectiveOp kind) {
  constexpr const char *names[] = {"all_reduce", "reduce_scatter", "all_gather",
                                   "all_gather", "all_to_all",     "broadcast",
                                   "barrier"};
  return names[static_cast<int>(kind)];
}

/// Signed sums go through unsigned types: the same bits, and defined when they
/// wrap.
MPI_Datatype datatype(DataType type, ReduceOp op) {
  bool sum = op == ReduceOp::sum;
  switch (type) {
  case DataType::i32:
    return sum ? MPI_UINT32_T : MPI_INT32_T;
  case DataType::i64:
    return sum ? MPI_UINT64_T : MPI_INT64_T;
  case DataType::u32:
    return MPI_UINT32_T;
  case DataType::u64:
    return MPI_UINT64_T;
  case DataType::f32:
    return MPI_FLOAT;
  case DataType::f64:
    return MPI_DOUBLE;
  case DataType::bytes:
    break;
  }
  return MPI_BYTE;
}

uint64_t digestOf(const std::vector<int> &ranks) {
  uint64_t state = 1;
  for (int rank : ranks)
    state = (state ^ static_cast<uint64_t>(rank)) * 0x100000001b3ull + 1;
  return state | 1; // never 0, which stands for messages
}

std::vector<int> narrow(const std::vector<int64_t> &values) {
  return std::vector<int>(values.begin(), values.end());
}

/// Whether members' arguments may legally differ in what decides the way taken.
bool isUneven(const CollectiveCall &call) {
  return call.kind == CollectiveOp::allGatherV ||
         call.kind == CollectiveOp::allToAllV;
}

/// The largest byte offset that a call of the kinds that only move bytes uses.
int64_t extentOf(const CollectiveCall &call, int members) {
  if (!isUneven(call))
    return call.kind == CollectiveOp::allGather ? call.count * members : 0;
  int64_t extent = 0;
  for (size_t i = 0; i < call.recvCounts->size(); ++i)
    extent = std::max(extent, (*call.recvOffsets)[i] + (*call.recvCounts)[i]);
  for (size_t i = 0; call.sendCounts && i < call.sendCounts->size(); ++i)
    extent = std::max(extent, (*call.sendOffsets)[i] + (*call.sendCounts)[i]);
  return extent;
}

} // namespace

MPI_Op MpiCommunicator::operation(DataType type, ReduceOp op) const {
  bool floating = type == DataType::f32 || type == DataType::f64;
  switch (op) {
  case ReduceOp::sum:
    return MPI_SUM;
  case ReduceOp::max:
    return floating ? floatMax : MPI_MAX;
  case ReduceOp::min:
    return floating ? floatMin : MPI_MIN;
  case ReduceOp::bitOr:
    break;
  }
  return MPI_BOR;
}

Status MpiCommunicator::runCollective(Group &base, const CollectiveCall &call,
                                      const CommandContext &context) {
  auto &group = static_cast<MpiGroup &>(base);
  Wait wait;
  wait.describe = [&] { return describeWait(call, group, context); };
  wait.peers = group.ranks();
  wait.missing = "has not arrived";
  wait.group = digestOf(group.ranks());
  wait.sequence = ++group.sequence;
  beginWaitNotice(nameOf(call.kind), context);
  int64_t extent = extentOf(call, group.size());
  Status status;
  if (options.checkCalls || isUneven(call)) {
    status = compareCalls(group, call, context, wait, extent);
    wait.moving = true;
  }
  if (status.ok())
    status = move(group, call, wait, extent);
  endWaitNotice();
  return status;
}

/// All members come to the same verdict, before any data moves. `extent`
/// becomes the largest of all members', so that all take the same way.
Status MpiCommunicator::compareCalls(MpiGroup &group,
                                     const CollectiveCall &call,
                                     const CommandContext &context,
                                     const Wait &wait, int64_t &extent) {
  uint64_t agreement = call.agreement();
  uint64_t digest[4] = {agreement, ~agreement, call.pairing(group.index()),
                        static_cast<uint64_t>(extent)};
  MPI_Request request;
  int code = MPI_Iallreduce(MPI_IN_PLACE, digest, 1, digestType, digestOp,
                            group.comm, &request);
  MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
  extent = static_cast<int64_t>(digest[3]);
  if (digest[0] == ~digest[1] && digest[2] == 0)
    return Status::success();

  constexpr int width = 512;
  std::string own = call.describe() + " in " + describe(context);
  own.resize(width, '\0');
  std::vector<char> texts(static_cast<size_t>(width) * group.size());
  code = MPI_Iallgather(own.data(), width, MPI_CHAR, texts.data(), width,
                        MPI_CHAR, group.comm, &request);
  MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
  std::vector<std::string> calls;
  for (int i = 0; i < group.size(); ++i) {
    const char *text = texts.data() + static_cast<size_t>(i) * width;
    calls.emplace_back(text, strnlen(text, width));
  }
  return fail(wait.describe() + ": " + describeMismatch(group.ranks(), calls));
}

Status MpiCommunicator::move(MpiGroup &group, const CollectiveCall &call,
                             const Wait &wait, int64_t extent) {
  MPI_Request request;
  switch (call.kind) {
  case CollectiveOp::allReduce: {
    char *data = static_cast<char *>(call.out);
    for (int64_t done = 0; done < call.count;) {
      int64_t piece = std::min(call.count - done, options.maxElementsPerCall);
      int code =
          MPI_Iallreduce(MPI_IN_PLACE, data + done * sizeOf(call.type),
                         static_cast<int>(piece), datatype(call.type, call.op),
                         operation(call.type, call.op), group.comm, &request);
      MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
      done += piece;
    }
    return Status::success();
  }
  case CollectiveOp::broadcast: {
    char *data = static_cast<char *>(call.out);
    for (int64_t done = 0; done < call.count;) {
      int64_t piece = std::min(call.count - done, options.maxElementsPerCall);
      int code = MPI_Ibcast(data + done, static_cast<int>(piece), MPI_BYTE,
                            call.root, group.comm, &request);
      MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
      done += piece;
    }
    return Status::success();
  }
  case CollectiveOp::barrier: {
    if (options.checkCalls)
      return Status::success(); // the comparison already was one
    int code = MPI_Ibarrier(group.comm, &request);
    return finish(code, request, wait);
  }
  case CollectiveOp::reduceScatter:
    return reduceScatter(group, call, wait);
  case CollectiveOp::allGather:
  case CollectiveOp::allGatherV:
  case CollectiveOp::allToAllV:
    break;
  }
  if (extent == 0)
    return Status::success();
  return extent > options.maxElementsPerCall ? exchangePieces(group, call, wait)
                                             : exchange(group, call, wait);
}

/// Straight through MPI when it fits; otherwise piece by piece through a
/// staging buffer. So too in place, because MPI's in-place form puts the result
/// elsewhere.
Status MpiCommunicator::reduceScatter(MpiGroup &group,
                                      const CollectiveCall &call,
                                      const Wait &wait) {
  int64_t width = sizeOf(call.type), members = group.size();
  const char *in = static_cast<const char *>(call.in);
  char *out = static_cast<char *>(call.out);
  MPI_Datatype type = datatype(call.type, call.op);
  MPI_Op op = operation(call.type, call.op);
  MPI_Request request;
  if (call.count == 0)
    return Status::success();
  bool inPlace = out == in + group.index() * call.count * width;
  if (!inPlace && call.count * members <= options.maxElementsPerCall) {
    int code = MPI_Ireduce_scatter_block(in, out, static_cast<int>(call.count),
                                         type, op, group.comm, &request);
    return finish(code, request, wait);
  }
  int64_t limit = std::min(options.maxElementsPerCall, int64_t(1) << 20);
  int64_t largest = std::max<int64_t>(1, limit / members);
  for (int64_t done = 0; done < call.count;) {
    int64_t piece = std::min(call.count - done, largest);
    staging.resize(std::max<size_t>(staging.size(), piece * members * width));
    for (int64_t member = 0; member < members; ++member)
      std::memcpy(staging.data() + member * piece * width,
                  in + (member * call.count + done) * width, piece * width);
    int code = MPI_Ireduce_scatter_block(staging.data(), out + done * width,
                                         static_cast<int>(piece), type, op,
                                         group.comm, &request);
    MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
    done += piece;
  }
  return Status::success();
}

/// The collectives that only move bytes.
Status MpiCommunicator::exchange(MpiGroup &group, const CollectiveCall &call,
                                 const Wait &wait) {
  int self = group.index();
  char *out = static_cast<char *>(call.out);
  MPI_Request request;
  int code = MPI_SUCCESS;
  // The arguments' arrays have to live until the exchange is done.
  std::vector<int> sendCounts, sendOffsets, recvCounts, recvOffsets;
  if (call.kind != CollectiveOp::allGather) {
    recvCounts = narrow(*call.recvCounts);
    recvOffsets = narrow(*call.recvOffsets);
  }
  if (call.kind == CollectiveOp::allGather) {
    bool inPlace = call.in == out + self * call.count;
    code = MPI_Iallgather(inPlace ? MPI_IN_PLACE : call.in,
                          static_cast<int>(call.count), MPI_BYTE, out,
                          static_cast<int>(call.count), MPI_BYTE, group.comm,
                          &request);
  } else if (call.kind == CollectiveOp::allGatherV) {
    bool inPlace = call.in == out + recvOffsets[self];
    code = MPI_Iallgatherv(inPlace ? MPI_IN_PLACE : call.in,
                           static_cast<int>(call.count), MPI_BYTE, out,
                           recvCounts.data(), recvOffsets.data(), MPI_BYTE,
                           group.comm, &request);
  } else {
    sendCounts = narrow(*call.sendCounts);
    sendOffsets = narrow(*call.sendOffsets);
    code = MPI_Ialltoallv(call.in, sendCounts.data(), sendOffsets.data(),
                          MPI_BYTE, out, recvCounts.data(), recvOffsets.data(),
                          MPI_BYTE, group.comm, &request);
  }
  return finish(code, request, wait);
}

/// Counts that do not fit in MPI's: messages between all pairs, in pieces.
Status MpiCommunicator::exchangePieces(MpiGroup &group,
                                       const CollectiveCall &call,
                                       const Wait &wait) {
  int self = group.index();
  const char *in = static_cast<const char *>(call.in);
  char *out = static_cast<char *>(call.out);
  std::vector<MPI_Request> requests;
  int code = MPI_SUCCESS;
  auto inPieces = [&](int64_t bytes, auto &&start) {
    for (int64_t done = 0; done < bytes && code == MPI_SUCCESS;) {
      int64_t piece = std::min(bytes - done, options.maxElementsPerCall);
      MPI_Request request;
      code = start(done, static_cast<int>(piece), &request);
      if (code == MPI_SUCCESS)
        requests.push_back(request);
      done += piece;
    }
  };
  for (int member = 0; member < group.size(); ++member) {
    int64_t sendOffset = 0, sendCount = call.count;
    int64_t recvOffset = member * call.count, recvCount = call.count;
    if (call.kind != CollectiveOp::allGather) {
      recvOffset = (*call.recvOffsets)[member];
      recvCount = (*call.recvCounts)[member];
    }
    if (call.kind == CollectiveOp::allToAllV) {
      sendOffset = (*call.sendOffsets)[member];
      sendCount = (*call.sendCounts)[member];
    }
    if (member == self) {
      if (recvCount > 0 && out + recvOffset != in + sendOffset)
        std::memcpy(out + recvOffset, in + sendOffset, recvCount);
      continue;
    }
    inPieces(recvCount, [&](int64_t at, int bytes, MPI_Request *request) {
      return MPI_Irecv(out + recvOffset + at, bytes, MPI_BYTE, member, 0,
                       group.comm, request);
    });
    inPieces(sendCount, [&](int64_t at, int bytes, MPI_Request *request) {
      return MPI_Isend(in + sendOffset + at, bytes, MPI_BYTE, member, 0,
                       group.comm, request);
    });
  }
  if (code != MPI_SUCCESS)
    return fail(code, wait);
  for (MPI_Request &request : requests)
    MIXLE_RETURN_IF_ERROR(finish(MPI_SUCCESS, request, wait));
  return Status::success();
}

} // namespace mixle::runtime
