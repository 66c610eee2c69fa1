//===- ConformanceMove.cpp - Gathers, exchanges, messages, arguments ------===//

#include "test/runtime/comm/Conformance.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace mixle::runtime::conformance {

namespace {

/// Byte i of what `from` gives to `to`.
unsigned char byteOf(int from, int to, int64_t i) {
  return static_cast<unsigned char>(from * 89 + to * 31 + i * 7 + i / 256);
}

std::vector<char> bytesOf(int from, int to, int64_t count) {
  std::vector<char> bytes(count);
  for (int64_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>(byteOf(from, to, i));
  return bytes;
}

Status allGather(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int size = group->size(), self = group->index();
  for (int64_t count : {0, 1, 12, 700, 50001})
    for (bool inPlace : {false, true}) {
      std::vector<char> out(count * size), in = bytesOf(self, 0, count);
      char *own = out.data() + self * count;
      if (inPlace)
        std::copy(in.begin(), in.end(), own);
      int64_t before = communicator.bytesSent();
      MIXLE_RETURN_IF_ERROR(communicator.allGather(*group, commandContext(),
                                                   inPlace ? own : in.data(),
                                                   out.data(), count));
      for (int member = 0; member < size; ++member)
        MIXLE_CHECK(std::equal(out.begin() + member * count,
                               out.begin() + (member + 1) * count,
                               bytesOf(member, 0, count).begin()),
                    std::to_string(count) + " bytes of member " +
                        std::to_string(member));
      MIXLE_CHECK(communicator.bytesSent() - before == (size - 1) * count,
                  std::to_string(count));
    }
  return Status::success();
}

/// NaNs with payloads are bytes like others.
Status nanPayload(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  uint32_t own = 0x7f800001u + static_cast<uint32_t>(group->index());
  float value;
  std::memcpy(&value, &own, 4);
  std::vector<float> all(group->size());
  MIXLE_RETURN_IF_ERROR(communicator.allGather(*group, commandContext(), &value,
                                               all.data(), sizeof value));
  for (int member = 0; member < group->size(); ++member) {
    uint32_t bits;
    std::memcpy(&bits, &all[member], 4);
    MIXLE_CHECK(bits == 0x7f800001u + static_cast<uint32_t>(member),
                std::to_string(bits));
  }
  return Status::success();
}

/// Uneven, empty for some, with gaps, in descending order of offsets.
Status allGatherV(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int size = group->size(), self = group->index();
  for (int64_t scale : {0, 1, 5000})
    for (bool inPlace : {false, true}) {
      std::vector<int64_t> counts(size), offsets(size);
      int64_t end = 0;
      for (int member = size - 1; member >= 0; --member) {
        counts[member] = member % 3 == 1 ? 0 : scale * (member + 1);
        offsets[member] = end + 2;
        end = offsets[member] + counts[member];
      }
      std::vector<char> out(end + 2, 'x');
      std::vector<char> in = bytesOf(self, 1, counts[self]);
      char *own = out.data() + offsets[self];
      if (inPlace)
        std::copy(in.begin(), in.end(), own);
      int64_t before = communicator.bytesSent();
      MIXLE_RETURN_IF_ERROR(communicator.allGatherV(
          *group, commandContext(), inPlace ? own : in.data(), counts[self],
          out.data(), counts, offsets));
      std::vector<char> expected(out.size(), 'x');
      for (int member = 0; member < size; ++member) {
        std::vector<char> theirs = bytesOf(member, 1, counts[member]);
        std::copy(theirs.begin(), theirs.end(),
                  expected.begin() + offsets[member]);
      }
      MIXLE_CHECK(out == expected, "scale " + std::to_string(scale));
      MIXLE_CHECK(communicator.bytesSent() - before ==
                      (size - 1) * counts[self],
                  "scale " + std::to_string(scale));
    }
  return Status::success();
}

Status allToAllV(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int size = group->size(), self = group->index();
  auto countOf = [&](int from, int to, int64_t scale) -> int64_t {
    return (from + 2 * to) % 4 == 1 ? 0 : scale * (from + 1) + to;
  };
  for (int64_t scale : {0, 3, 4000}) {
    std::vector<int64_t> sendCounts(size), sendOffsets(size), recvCounts(size),
        recvOffsets(size);
    int64_t sendEnd = 0, recvEnd = 0, others = 0;
    for (int member = size - 1; member >= 0; --member) {
      sendCounts[member] = countOf(self, member, scale);
      sendOffsets[member] = sendEnd;
      sendEnd += sendCounts[member] + 1;
      recvCounts[member] = countOf(member, self, scale);
      recvOffsets[member] = recvEnd + 1;
      recvEnd += recvCounts[member] + 1;
      others += member == self ? 0 : sendCounts[member];
    }
    std::vector<char> in(sendEnd), out(recvEnd + 1, 'x');
    std::vector<char> expected(out.size(), 'x');
    for (int member = 0; member < size; ++member) {
      std::vector<char> mine = bytesOf(self, member, sendCounts[member]);
      std::copy(mine.begin(), mine.end(), in.begin() + sendOffsets[member]);
      std::vector<char> theirs = bytesOf(member, self, recvCounts[member]);
      std::copy(theirs.begin(), theirs.end(),
                expected.begin() + recvOffsets[member]);
    }
    int64_t before = communicator.bytesSent();
    MIXLE_RETURN_IF_ERROR(communicator.allToAllV(
        *group, commandContext(), in.data(), sendCounts, sendOffsets,
        out.data(), recvCounts, recvOffsets));
    MIXLE_CHECK(out == expected, "scale " + std::to_string(scale));
    MIXLE_CHECK(communicator.bytesSent() - before == others,
                "scale " + std::to_string(scale));
  }
  return Status::success();
}

Status broadcast(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int size = group->size(), self = group->index();
  for (int64_t count : {0, 1, 100, 70001})
    for (int root = 0; root < size; ++root) {
      std::vector<char> buffer = bytesOf(self, root, count);
      int64_t before = communicator.bytesSent();
      MIXLE_RETURN_IF_ERROR(communicator.broadcast(*group, commandContext(),
                                                   buffer.data(), count, root));
      MIXLE_CHECK(buffer == bytesOf(root, root, count),
                  std::to_string(count) + " from " + std::to_string(root));
      MIXLE_CHECK(communicator.bytesSent() - before ==
                      (self == root ? (size - 1) * count : 0),
                  std::to_string(count));
    }
  return Status::success();
}

/// Nobody leaves a barrier before the last has come. All ranks are on one
/// machine, whose steady clock they share, so this holds or does not, however
/// slow they are.
Status barrier(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  for (int round = 0; round < 10; ++round) {
    if (round % communicator.worldSize() == communicator.rank())
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    auto now = [] {
      return std::chrono::steady_clock::now().time_since_epoch().count();
    };
    int64_t came = now();
    MIXLE_RETURN_IF_ERROR(communicator.barrier(*group, commandContext()));
    int64_t left = now();
    MIXLE_RETURN_IF_ERROR(communicator.allReduce(
        *group, commandContext(), &came, 1, DataType::i64, ReduceOp::max));
    MIXLE_RETURN_IF_ERROR(communicator.allReduce(
        *group, commandContext(), &left, 1, DataType::i64, ReduceOp::min));
    MIXLE_CHECK(came <= left, "round " + std::to_string(round));
  }
  return Status::success();
}

/// Crossing sends between all pairs before any receive, of small and large
/// messages; tags keep their own order.
Status messages(Communicator &communicator) {
  int size = communicator.worldSize(), self = communicator.rank();
  const std::vector<int64_t> counts = {0, 1, 64, 100, 300000};
  int64_t before = communicator.bytesSent(), sent = 0;
  for (int peer = 0; peer < size; ++peer)
    for (size_t k = 0; k < counts.size() && peer != self; ++k)
      for (int tag : {3, 4}) {
        std::vector<char> data = bytesOf(self + tag, peer, counts[k]);
        MIXLE_RETURN_IF_ERROR(communicator.send(commandContext(), data.data(),
                                                counts[k], peer, tag));
        sent += counts[k];
      }
  MIXLE_CHECK(communicator.bytesSent() - before == sent, std::to_string(sent));
  for (int peer = size - 1; peer >= 0; --peer)
    for (int tag : {4, 3})
      for (size_t k = 0; k < counts.size() && peer != self; ++k) {
        std::vector<char> data(counts[k]);
        MIXLE_RETURN_IF_ERROR(communicator.recv(commandContext(), data.data(),
                                                counts[k], peer, tag));
        MIXLE_CHECK(data == bytesOf(peer + tag, self, counts[k]),
                    std::to_string(counts[k]) + " bytes from rank " +
                        std::to_string(peer));
      }
  return Status::success();
}

/// A ring in which receivers mostly wait before the sender sends.
Status ring(Communicator &communicator) {
  int size = communicator.worldSize(), self = communicator.rank();
  if (size == 1)
    return Status::success();
  int64_t token = 0;
  for (int round = 0; round < 20; ++round) {
    if (self > 0 || round > 0)
      MIXLE_RETURN_IF_ERROR(communicator.recv(commandContext(), &token, 8,
                                              (self + size - 1) % size, 9));
    MIXLE_CHECK(token == round * size + self, std::to_string(token));
    ++token;
    if (self < size - 1 || round < 19)
      MIXLE_RETURN_IF_ERROR(
          communicator.send(commandContext(), &token, 8, (self + 1) % size, 9));
  }
  return Status::success();
}

/// The call is refused on this rank alone, with these words, and nothing is
/// harmed.
Status expectRefusal(const Status &status,
                     const std::vector<std::string> &phrases) {
  MIXLE_CHECK(!status.ok(), phrases.front());
  for (const std::string &phrase : phrases)
    MIXLE_CHECK(status.message().find(phrase) != std::string::npos,
                phrase + " in: " + status.message());
  return Status::success();
}

Status badArguments(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  CommandContext context = commandContext();
  int size = communicator.worldSize(), rank = communicator.rank();
  std::vector<int64_t> data(4 * size + 4);
  std::vector<int64_t> ones(size, 1), short1(size + 1, 1);
  auto all = [&](int64_t count, DataType type, ReduceOp op) {
    return communicator.allReduce(*group, context, data.data(), count, type,
                                  op);
  };
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      all(-1, DataType::i64, ReduceOp::sum),
      {contextText(), "all_reduce", "the count is -1", "0 or more"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(all(1, DataType::f32, ReduceOp::bitOr),
                                      {"there is no bit_or of f32"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(all(1, DataType::bytes, ReduceOp::sum),
                                      {"there is no sum of bytes"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      all(int64_t(1) << 61, DataType::i64, ReduceOp::sum), {"too large"}));
  MIXLE_RETURN_IF_ERROR(
      expectRefusal(communicator.allReduce(*group, context, nullptr, 3,
                                           DataType::i64, ReduceOp::sum),
                    {contextText(), "is null"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      communicator.broadcast(*group, context, data.data(), 8, size),
      {"broadcast", "the root is member " + std::to_string(size),
       "expected 0 to " + std::to_string(size - 1)}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      communicator.allToAllV(*group, context, data.data(), ones, short1,
                             data.data() + 2 * size, ones, ones),
      {"all_to_all", "send has " + std::to_string(size) + " counts and " +
                         std::to_string(size + 1) + " offsets"}));
  MIXLE_RETURN_IF_ERROR(
      expectRefusal(communicator.allToAllV(*group, context, data.data(), ones,
                                           ones, data.data(), ones, ones),
                    {"all_to_all", "overlap"}));
  MIXLE_RETURN_IF_ERROR(
      expectRefusal(communicator.allGatherV(*group, context, data.data(), 2,
                                            data.data() + size, ones, ones),
                    {"all_gather", "gives 2 bytes", "receive count is 1"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      communicator.allGather(*group, context,
                             reinterpret_cast<char *>(data.data()) + 1,
                             data.data(), 8),
      {"all_gather", "overlap"}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(
      communicator.reduceScatter(*group, context, data.data(),
                                 reinterpret_cast<char *>(data.data()) + 4, 1,
                                 DataType::i64, ReduceOp::sum),
      {"reduce_scatter", "overlap"}));
  for (int peer : {-1, size, rank})
    MIXLE_RETURN_IF_ERROR(
        expectRefusal(communicator.send(context, data.data(), 8, peer, 0),
                      {"send", "the peer is rank " + std::to_string(peer)}));
  if (size > 1)
    MIXLE_RETURN_IF_ERROR(expectRefusal(
        communicator.recv(context, data.data(), 8, (rank + 1) % size, -2),
        {"recv", "the tag is -2"}));

  auto made = [&](std::vector<int> ranks) {
    return communicator.createGroup(std::move(ranks)).status();
  };
  MIXLE_RETURN_IF_ERROR(expectRefusal(made({}), {"at least one rank"}));
  MIXLE_RETURN_IF_ERROR(
      expectRefusal(made({rank, size}),
                    {"expected ranks from 0 to " + std::to_string(size - 1)}));
  MIXLE_RETURN_IF_ERROR(expectRefusal(made({rank, rank}), {"more than once"}));
  if (size > 1)
    MIXLE_RETURN_IF_ERROR(
        expectRefusal(made({(rank + 1) % size}), {"does not contain rank"}));
  // All of that left the communicator as it was.
  return communicator.barrier(*group, context);
}

/// Thousands of short calls on two groups: slots, sequence numbers and
/// generations are used again and again.
Status manyCalls(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto first, everyone(communicator));
  MIXLE_ASSIGN_OR_RETURN(auto second, everyone(communicator));
  int64_t size = communicator.worldSize();
  for (int64_t round = 0; round < 400; ++round) {
    Group &group = round % 3 ? *first : *second;
    int64_t count = round % 5 == 0 ? 600 : 2; // beyond and within the slots
    std::vector<int64_t> values(count, round + communicator.rank());
    MIXLE_RETURN_IF_ERROR(communicator.allReduce(group, commandContext(),
                                                 values.data(), count,
                                                 DataType::i64, ReduceOp::sum));
    MIXLE_CHECK(values.front() == size * round + size * (size - 1) / 2 &&
                    values.back() == values.front(),
                "round " + std::to_string(round));
  }
  return Status::success();
}

} // namespace

std::vector<Case> movementCases() {
  return {
      {"all_gather", allGather},       {"nan_payload", nanPayload},
      {"all_gather_v", allGatherV},    {"all_to_all_v", allToAllV},
      {"broadcast", broadcast},        {"barrier", barrier},
      {"messages", messages},          {"ring", ring},
      {"bad_arguments", badArguments}, {"many_calls", manyCalls},
  };
}

} // namespace mixle::runtime::conformance
