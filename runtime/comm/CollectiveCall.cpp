//===- CollectiveCall.cpp - Comparing and describing calls ----------------===//

#include "runtime/comm/CollectiveCall.h"
#include <cstdio>

namespace mixle::runtime {

namespace {

/// Mixes `value` into `state`: multiply and shift until every input bit reaches
/// every output bit.
uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t x = (state + 0x9e3779b97f4a7c15ull) ^ value;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 29)) * 0xa0761d6478bd642full;
  return x ^ (x >> 32);
}

std::string listCounts(const std::vector<int64_t> &counts) {
  constexpr size_t limit = 8;
  std::string text = "[";
  for (size_t i = 0; i < counts.size() && i < limit; ++i)
    text += (i ? ", " : "") + std::to_string(counts[i]);
  return text + (counts.size() > limit ? ", ...]" : "]");
}

} // namespace

uint64_t CollectiveCall::agreement() const {
  uint64_t state = mix(1, static_cast<uint64_t>(kind));
  switch (kind) {
  case CollectiveOp::allReduce:
  case CollectiveOp::reduceScatter:
    state = mix(state, static_cast<uint64_t>(type));
    state = mix(state, static_cast<uint64_t>(op));
    return mix(state, static_cast<uint64_t>(count));
  case CollectiveOp::allGather:
    return mix(state, static_cast<uint64_t>(count));
  case CollectiveOp::broadcast:
    state = mix(state, static_cast<uint64_t>(root));
    return mix(state, static_cast<uint64_t>(count));
  case CollectiveOp::allGatherV:
    for (int64_t bytes : *recvCounts)
      state = mix(state, static_cast<uint64_t>(bytes));
    return state;
  case CollectiveOp::allToAllV:
  case CollectiveOp::barrier:
    break;
  }
  return state;
}

uint64_t CollectiveCall::pairing(int index) const {
  if (kind != CollectiveOp::allToAllV)
    return 0;
  auto term = [](uint64_t from, uint64_t to, int64_t bytes) {
    return mix(mix(mix(2, from), to), static_cast<uint64_t>(bytes));
  };
  uint64_t sum = 0;
  for (size_t peer = 0; peer < sendCounts->size(); ++peer) {
    sum += term(index, peer, (*sendCounts)[peer]);
    sum -= term(peer, index, (*recvCounts)[peer]);
  }
  return sum;
}

std::string CollectiveCall::describe() const {
  switch (kind) {
  case CollectiveOp::allReduce:
    return std::string("all_reduce(") + toString(op) + " of " +
           std::to_string(count) + " " + toString(type) + ")";
  case CollectiveOp::reduceScatter:
    return std::string("reduce_scatter(") + toString(op) + " of " +
           std::to_string(count) + " " + toString(type) + " per rank)";
  case CollectiveOp::allGather:
    return "all_gather(" + std::to_string(count) + " bytes per rank)";
  case CollectiveOp::allGatherV:
    return "all_gather(" + listCounts(*recvCounts) + " bytes)";
  case CollectiveOp::allToAllV:
    return "all_to_all(sends " + listCounts(*sendCounts) + " bytes, expects " +
           listCounts(*recvCounts) + ")";
  case CollectiveOp::broadcast:
    return "broadcast(" + std::to_string(count) + " bytes from member " +
           std::to_string(root) + ")";
  case CollectiveOp::barrier:
    return "barrier";
  }
  return "";
}

std::string listRanks(const std::vector<int> &ranks) {
  constexpr size_t limit = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < limit; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > limit)
    text += " and " + std::to_string(ranks.size() - limit) + " more";
  return text;
}

std::string describeWait(const CollectiveCall &call, const Group &group,
                         const CommandContext &context) {
  return call.describe() + " over " + listRanks(group.ranks()) + " in " +
         describe(context);
}

std::string describeMismatch(const std::vector<int> &ranks,
                             const std::vector<std::string> &calls) {
  // Who called what, in the order of the first to call it.
  constexpr size_t limit = 8;
  std::vector<std::pair<std::string, std::vector<int>>> sides;
  for (size_t i = 0; i < ranks.size(); ++i) {
    size_t side = 0;
    while (side < sides.size() && sides[side].first != calls[i])
      ++side;
    if (side == sides.size())
      sides.push_back({calls[i], {}});
    sides[side].second.push_back(ranks[i]);
  }
  std::string text = "the members' calls do not match: ";
  for (size_t side = 0; side < sides.size() && side < limit; ++side)
    text += (side ? "; " : "") + listRanks(sides[side].second) + " called " +
            sides[side].first;
  if (sides.size() > limit)
    text += "; and " + std::to_string(sides.size() - limit) + " others";
  return text +
         "; expected the same collective, with the same counts, type and "
         "operation, from every member of a group";
}

std::string describeSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

} // namespace mixle::runtime
