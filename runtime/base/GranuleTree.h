//===- GranuleTree.h - The one order of adding granules ---------*- C++ -*-===//
//
// A contraction that a plan can split is cut into granules 0..G-1, and partial
// results are added along one binary tree over them, whoever computes which. A
// node over n leaves has the largest power of two below n on its left:
//
//   G = 6:   ((0+1)+(2+3)) + (4+5)
//
// A granule without content (a trailing one that a short dimension leaves
// empty, or one that nobody owns) is the identity: its sibling is taken as it
// is and nothing is added, because x + 0 is not x for x = -0.
//
// Header only, no dependencies: kernels use it inside a tile, TreeAllReduce.h
// between ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_GRANULETREE_H
#define MIXLE_RUNTIME_BASE_GRANULETREE_H

#include <cstdint>
#include <vector>

namespace mixle::runtime {

/// A node of the tree, by the granules [begin, end) below it; never empty.
struct Subtree {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end - begin; }
  bool operator==(const Subtree &other) const {
    return begin == other.begin && end == other.end;
  }
};

/// Leaves on the left of a node over `leaves` >= 2 leaves: the largest power of
/// two below `leaves`.
inline int64_t treeSplit(int64_t leaves) {
  int64_t left = 1;
  while (left * 2 < leaves)
    left *= 2;
  return left;
}

/// Levels of additions above the deepest leaf: ceil(log2(leaves)).
inline int treeDepth(int64_t leaves) {
  int depth = 0;
  while ((int64_t(1) << depth) < leaves)
    ++depth;
  return depth;
}

/// The largest subtrees of the tree over `granules` leaves that lie within
/// [begin, end), in increasing order. Together they cover [begin, end), which
/// is cut to [0, granules); there are at most 2·treeDepth(granules).
inline std::vector<Subtree> maximalSubtrees(int64_t begin, int64_t end,
                                            int64_t granules) {
  std::vector<Subtree> owned;
  std::vector<Subtree> open;
  if (granules > 0)
    open.push_back({0, granules});
  while (!open.empty()) {
    Subtree node = open.back();
    open.pop_back();
    if (node.end <= begin || end <= node.begin)
      continue;
    if (begin <= node.begin && node.end <= end) {
      owned.push_back(node);
      continue;
    }
    int64_t middle = node.begin + treeSplit(node.size());
    open.push_back({middle, node.end});
    open.push_back({node.begin, middle});
  }
  return owned;
}

/// What a visitor of combine() made of a node.
enum class TreeVisit {
  absent,  ///< no content below the node: the identity
  ready,   ///< the node's value is in the slot
  descend, ///< not known here: combine the children (never of a single leaf)
};

/// Evaluates `node` into `slot` in the tree's order; false if all of it is
/// absent.
///
///   visit(Subtree node, int slot) -> TreeVisit   may put the node's value in
///   `slot` join(int left, int right)                    slot left = slot left
///   + slot right
///
/// Slots are numbered places for partial values: at most treeDepth(node.size())
/// + 1 from `slot` on are used. A kernel answers `descend` for all but single
/// granules and computes those; an absent child costs neither an addition nor a
/// copy, since the other one is then evaluated in the parent's slot.
template <typename Visit, typename Join>
bool combine(Subtree node, int slot, const Visit &visit, const Join &join) {
  TreeVisit found = visit(node, slot);
  if (found != TreeVisit::descend)
    return found == TreeVisit::ready;
  int64_t middle = node.begin + treeSplit(node.size());
  if (!combine(Subtree{node.begin, middle}, slot, visit, join))
    return combine(Subtree{middle, node.end}, slot, visit, join);
  if (combine(Subtree{middle, node.end}, slot + 1, visit, join))
    join(slot, slot + 1);
  return true;
}

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_GRANULETREE_H
