//===- ConformanceTree.cpp - Sums along the tree, for every cut -----------===//

#include "runtime/comm/TreeAllReduce.h"
#include "test/runtime/comm/Conformance.h"
#include <cstring>

namespace mixle::runtime::conformance {

namespace {

/// Values of very different sizes, so that another order gives other bits, and
/// some negative zeros, which an added identity would turn positive.
template <typename T> T granuleValue(int64_t granule, int64_t i) {
  if (i % 5 == 4)
    return -T(0);
  auto bits = static_cast<uint64_t>(granule * 7919 + i * 104729 + 13);
  bits = (bits + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  bits ^= bits >> 29;
  T value = static_cast<T>(static_cast<int64_t>(bits % 2000003) - 1000001);
  for (uint64_t shift = (bits >> 32) % 30; shift > 0; --shift)
    value *= T(0.5);
  return value / T(3);
}

/// The definition: the sum over granules [begin, end) of the tree, of which
/// those outside [first, last) are absent. False when all are.
template <typename T>
bool naive(int64_t begin, int64_t end, int64_t first, int64_t last, int64_t i,
           T &value) {
  if (end - begin == 1) {
    value = granuleValue<T>(begin, i);
    return first <= begin && begin < last;
  }
  int64_t left = 1;
  while (2 * left < end - begin)
    left *= 2;
  T a, b;
  bool hasA = naive(begin, begin + left, first, last, i, a);
  bool hasB = naive(begin + left, end, first, last, i, b);
  value = hasA && hasB ? a + b : hasA ? a : b;
  return hasA || hasB;
}

template <typename T>
Status checkCut(Communicator &communicator, Group &group, const GranuleCut &cut,
                int64_t count, TreeScratch &scratch) {
  std::string what = "granules " + std::to_string(cut.granules) + ", cut";
  for (int64_t bound : cut.firstGranule)
    what += " " + std::to_string(bound);
  int64_t first = cut.firstGranule.front(), last = cut.firstGranule.back();
  std::vector<Subtree> owned = cut.owned(group.index());
  std::vector<T> partials(owned.size() * count), result(count, T(77));
  for (size_t p = 0; p < owned.size(); ++p)
    for (int64_t i = 0; i < count; ++i)
      naive(owned[p].begin, owned[p].end, first, last, i,
            partials[p * count + i]);
  // Half of the time into the first partial's place.
  bool inPlace = !owned.empty() && cut.granules % 2;
  T *to = inPlace ? partials.data() : result.data();
  DataType type = sizeof(T) == 4 ? DataType::f32 : DataType::f64;
  MIXLE_RETURN_IF_ERROR(treeAllReduce(communicator, group, commandContext(),
                                      cut, partials.data(), to, count, type,
                                      scratch));
  for (int64_t i = 0; i < count; ++i) {
    T expected;
    naive(0, cut.granules, first, last, i, expected);
    MIXLE_CHECK(std::memcmp(&to[i], &expected, sizeof(T)) == 0,
                what + ", element " + std::to_string(i) + " is " +
                    std::to_string(to[i]) + " instead of " +
                    std::to_string(expected));
  }
  return Status::success();
}

/// Calls `body` with every non-decreasing `bounds` from `at` on, up to `last`.
template <typename Body>
Status forEachCut(std::vector<int64_t> &bounds, size_t at, int64_t last,
                  const Body &body) {
  if (at + 1 == bounds.size()) {
    bounds[at] = last;
    return body();
  }
  for (int64_t bound = bounds[at - 1]; bound <= last; ++bound) {
    bounds[at] = bound;
    MIXLE_RETURN_IF_ERROR(forEachCut(bounds, at + 1, last, body));
  }
  return Status::success();
}

/// All cuts of up to 8 granules over up to 5 members, owners of nothing among
/// them. Up to 3 members also with trailing and leading granules absent.
Status everyCut(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int members = group->size();
  if (members > 5)
    return Status::success();
  TreeScratch scratch;
  for (int64_t granules = 1; granules <= 8; ++granules)
    for (int64_t last = members <= 3 ? 1 : granules; last <= granules; ++last)
      for (int64_t first = 0; first < (members <= 2 ? last : 1); ++first) {
        GranuleCut cut;
        cut.granules = granules;
        cut.firstGranule.assign(members + 1, first);
        MIXLE_RETURN_IF_ERROR(
            forEachCut(cut.firstGranule, 1, last, [&]() -> Status {
              return checkCut<float>(communicator, *group, cut, 13, scratch);
            }));
      }
  return Status::success();
}

/// Many granules, uneven counts, both types, more elements than a block, none
/// at all.
Status largerTrees(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int members = group->size();
  TreeScratch scratch;
  for (int64_t granules : {8, 12, 25, 64})
    for (int64_t count : {0, 1, 6, 5003}) {
      GranuleCut cut;
      cut.granules = granules;
      for (int i = 0; i <= members; ++i) // heads over ranks, not aligned
        cut.firstGranule.push_back(granules * i / members);
      if (count > 6 && granules > 12)
        continue; // the reference is slow
      MIXLE_RETURN_IF_ERROR(
          checkCut<float>(communicator, *group, cut, count, scratch));
      MIXLE_RETURN_IF_ERROR(
          checkCut<double>(communicator, *group, cut, count, scratch));
    }
  return Status::success();
}

/// A member sends its subtrees' slices but its own, and its slice of the
/// result.
Status treeBytes(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  int members = group->size();
  GranuleCut cut;
  cut.granules = 8;
  for (int i = 0; i <= members; ++i)
    cut.firstGranule.push_back(8 * i / members);
  int64_t count = 40 * 7 * 3 * members;
  auto partials = static_cast<int64_t>(cut.owned(group->index()).size());
  std::vector<float> in(partials * count, 1.0f), out(count);
  TreeScratch scratch;
  int64_t before = communicator.bytesSent();
  MIXLE_RETURN_IF_ERROR(treeAllReduce(communicator, *group, commandContext(),
                                      cut, in.data(), out.data(), count,
                                      DataType::f32, scratch));
  int64_t slice = count / members * 4;
  MIXLE_CHECK(communicator.bytesSent() - before ==
                  (members - 1) * slice * (partials + 1),
              std::to_string(communicator.bytesSent() - before));
  return Status::success();
}

Status badCuts(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  TreeScratch scratch;
  std::vector<float> data(16);
  auto refused = [&](const GranuleCut &cut, int64_t count, DataType type,
                     const std::string &phrase) -> Status {
    Status status =
        treeAllReduce(communicator, *group, commandContext(), cut, data.data(),
                      data.data(), count, type, scratch);
    MIXLE_CHECK(!status.ok(), phrase);
    MIXLE_CHECK(status.message().find(phrase) != std::string::npos &&
                    status.message().find(contextText()) != std::string::npos,
                phrase + " in: " + status.message());
    return Status::success();
  };
  std::vector<int64_t> good(group->size() + 1, 0), all = good, tooFar = good;
  all.back() = 4;
  tooFar.back() = 5;
  std::vector<int64_t> more = all, decreasing = all;
  more.push_back(4);
  decreasing.front() = 4, decreasing.back() = 3;
  MIXLE_RETURN_IF_ERROR(refused({4, all}, 4, DataType::i64, "the type is i64"));
  MIXLE_RETURN_IF_ERROR(refused({4, all}, -1, DataType::f32, "is -1"));
  MIXLE_RETURN_IF_ERROR(refused({4, more}, 4, DataType::f32, "bounds"));
  MIXLE_RETURN_IF_ERROR(
      refused({4, tooFar}, 4, DataType::f32, "within 0 to 4"));
  MIXLE_RETURN_IF_ERROR(
      refused({4, decreasing}, 4, DataType::f32, "not increasing"));
  MIXLE_RETURN_IF_ERROR(
      refused({4, good}, 4, DataType::f32, "no member owns a granule"));
  return Status::success();
}

} // namespace

std::vector<Case> treeCases() {
  return {
      {"tree_every_cut", everyCut},
      {"tree_larger", largerTrees},
      {"tree_bytes", treeBytes},
      {"tree_bad_cuts", badCuts},
  };
}

} // namespace mixle::runtime::conformance
