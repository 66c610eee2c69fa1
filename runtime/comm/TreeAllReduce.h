//===- TreeAllReduce.h - Floating-point sums along the tree -----*- C++ -*-===//
//
// Makes floating-point partial sums whole between ranks, with the same bits for
// any number of members and any cut of the granules. See GranuleTree.h for the
// order.
//
// A member sends one partial per maximal subtree that it owns, cut into slices
// (sliceOf); each slice's owner completes the tree for its slice; then the
// slices are gathered. With cuts at subtrees this moves what an optimal
// all-reduce moves.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_TREEALLREDUCE_H
#define MIXLE_RUNTIME_COMM_TREEALLREDUCE_H

#include "runtime/comm/Communicator.h"
#include "runtime/base/GranuleTree.h"

namespace mixle::runtime {

/// Who owns which granules. Member i of the group owns
/// [firstGranule[i], firstGranule[i+1]), possibly none; granules of the tree
/// before the first or after the last owned one are absent (the identity).
struct GranuleCut {
  int64_t granules = 0;              ///< leaves of the tree
  std::vector<int64_t> firstGranule; ///< one more than members, non-decreasing

  /// The subtrees of which member `index` holds a partial, in increasing order.
  std::vector<Subtree> owned(int index) const {
    return maximalSubtrees(firstGranule[index], firstGranule[index + 1],
                           granules);
  }
};

/// Memory that successive calls reuse; one per communicator is enough.
struct TreeScratch {
  std::vector<char> packed;   ///< partials in the order they are sent
  std::vector<char> received; ///< slices of all members' partials
};

/// result[count] becomes the sum over the tree; all members get it.
///
/// `partials[owned(index).size()][count]` holds this member's value of each
/// maximal subtree that it owns, already added up in the tree's order. `type`
/// is f32 or f64, and each of the additions is one rounded addition left +
/// right in that type. `result` may be the first partial's storage or lie
/// apart. All members pass equal `cut`, `count` and `type`. At least one
/// granule must be owned.
Status treeAllReduce(Communicator &communicator, Group &group,
                     const CommandContext &context, const GranuleCut &cut,
                     const void *partials, void *result, int64_t count,
                     DataType type, TreeScratch &scratch);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_TREEALLREDUCE_H
