//===- TreeAllReduce.cpp - Floating-point sums along the tree -------------===//

#include "runtime/comm/TreeAllReduce.h"
#include <algorithm>
#include <cstring>

namespace mixle::runtime {

namespace {

/// A node whose value is at hand: elements of the slice under work.
struct Leaf {
  Subtree node;
  const char *data;
};

/// Completes the tree over `leaves`, sorted by position, for `count` elements.
/// Works in blocks that stay in cache; a slot refers to a leaf's storage until
/// something is added to it.
template <typename T>
void completeTree(const std::vector<Leaf> &leaves, int64_t granules, T *result,
                  int64_t count) {
  constexpr int64_t block = 1024;
  int slots = treeDepth(granules) + 1;
  std::vector<T> sums(slots * block);
  std::vector<const T *> values(slots);
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t length = std::min(block, count - begin);
    auto visit = [&](Subtree node, int slot) {
      auto leaf = std::lower_bound(
          leaves.begin(), leaves.end(), node.begin,
          [](const Leaf &l, int64_t at) { return l.node.begin < at; });
      if (leaf == leaves.end() || leaf->node.begin >= node.end)
        return TreeVisit::absent;
      if (!(leaf->node == node))
        return TreeVisit::descend;
      values[slot] = reinterpret_cast<const T *>(leaf->data) + begin;
      return TreeVisit::ready;
    };
    auto join = [&](int left, int right) {
      T *sum = sums.data() + left * block;
      const T *a = values[left], *b = values[right];
#pragma GCC ivdep // `a` may be `sum`: the same index only
      for (int64_t i = 0; i < length; ++i)
        sum[i] = a[i] + b[i];
      values[left] = sum;
    };
    combine(Subtree{0, granules}, 0, visit, join);
    if (values[0] != result + begin)
      std::memcpy(result + begin, values[0], length * sizeof(T));
  }
}

void completeTree(const std::vector<Leaf> &leaves, int64_t granules,
                  void *result, int64_t count, DataType type) {
  if (type == DataType::f32)
    completeTree(leaves, granules, static_cast<float *>(result), count);
  else
    completeTree(leaves, granules, static_cast<double *>(result), count);
}

std::string checkArguments(const Group &group, const GranuleCut &cut,
                           int64_t count, DataType type) {
  const std::vector<int64_t> &first = cut.firstGranule;
  if (type != DataType::f32 && type != DataType::f64)
    return std::string("the type is ") + toString(type) +
           ", expected f32 or f64 (integers are exact in any order: use "
           "all_reduce)";
  if (count < 0)
    return "the count is " + std::to_string(count) + ", expected 0 or more";
  if (static_cast<int>(first.size()) != group.size() + 1)
    return "the cut of the granules has " + std::to_string(first.size()) +
           " bounds, expected " + std::to_string(group.size() + 1) + " for " +
           std::to_string(group.size()) + " members";
  if (!std::is_sorted(first.begin(), first.end()) || first.front() < 0 ||
      first.back() > cut.granules)
    return "the cut of the granules is not increasing within 0 to " +
           std::to_string(cut.granules);
  if (first.front() == first.back())
    return "no member owns a granule, so there is nothing to add";
  return "";
}

} // namespace

Status treeAllReduce(Communicator &communicator, Group &group,
                     const CommandContext &context, const GranuleCut &cut,
                     const void *partials, void *result, int64_t count,
                     DataType type, TreeScratch &scratch) {
  std::string problem = checkArguments(group, cut, count, type);
  if (!problem.empty())
    return Status::error("tree all_reduce in " + describe(context) + ": " +
                         problem);
  int members = group.size();
  int64_t width = sizeOf(type);
  std::vector<std::vector<Subtree>> owned(members);
  for (int i = 0; i < members; ++i)
    owned[i] = cut.owned(i);
  int64_t ownPartials = owned[group.index()].size();

  // Sent to member i: slice i of every partial of this one. With one partial,
  // the usual case, its slices already lie in that order.
  std::vector<int64_t> sendCounts(members), sendOffsets(members);
  for (int i = 0; i < members; ++i) {
    Slice slice = sliceOf(count, members, i);
    sendCounts[i] = ownPartials * slice.size() * width;
    sendOffsets[i] = ownPartials * slice.begin * width;
  }
  const char *outgoing = static_cast<const char *>(partials);
  if (ownPartials > 1 && members > 1) {
    size_t needed = ownPartials * count * width;
    if (scratch.packed.size() < needed)
      scratch.packed.resize(needed);
    char *to = scratch.packed.data();
    for (int i = 0; i < members; ++i) {
      Slice slice = sliceOf(count, members, i);
      for (int64_t p = 0; p < ownPartials && slice.size() > 0; ++p) {
        std::memcpy(to, outgoing + (p * count + slice.begin) * width,
                    slice.size() * width);
        to += slice.size() * width;
      }
    }
    outgoing = scratch.packed.data();
  }

  // Received: this rank's slice of every member's partials. A member alone has
  // all of them already.
  Slice own = sliceOf(count, members, group.index());
  std::vector<int64_t> recvCounts(members), recvOffsets(members);
  int64_t received = 0;
  for (int i = 0; i < members; ++i) {
    recvCounts[i] = static_cast<int64_t>(owned[i].size()) * own.size() * width;
    recvOffsets[i] = received;
    received += recvCounts[i];
  }
  const char *incoming = outgoing;
  if (members > 1) {
    if (static_cast<int64_t>(scratch.received.size()) < received)
      scratch.received.resize(received);
    MIXLE_RETURN_IF_ERROR(communicator.allToAllV(
        group, context, outgoing, sendCounts, sendOffsets,
        scratch.received.data(), recvCounts, recvOffsets));
    incoming = scratch.received.data();
  }

  std::vector<Leaf> leaves;
  for (int i = 0; i < members; ++i)
    for (size_t p = 0; p < owned[i].size(); ++p)
      leaves.push_back(
          {owned[i][p], incoming + recvOffsets[i] + p * own.size() * width});
  char *ownResult = static_cast<char *>(result) + own.begin * width;
  completeTree(leaves, cut.granules, ownResult, own.size(), type);

  std::vector<int64_t> gatherCounts(members), gatherOffsets(members);
  for (int i = 0; i < members; ++i) {
    Slice slice = sliceOf(count, members, i);
    gatherCounts[i] = slice.size() * width;
    gatherOffsets[i] = slice.begin * width;
  }
  return communicator.allGatherV(group, context, ownResult,
                                 gatherCounts[group.index()], result,
                                 gatherCounts, gatherOffsets);
}

} // namespace mixle::runtime
