//===- Gemm.h - Products whose contracted index is a tree -------*- C++ -*-===//
//
// C[M,N] = A[M,K] B[K,N], each element summed in one order that follows from
// the contracted index alone: inside a granule one FMA chain in index order
// from +0, over granules the binary tree that splits at the largest power of
// two below their number. The bits depend on no tile size, instruction set, row
// count or address.
//
// The contracted index is k = (s * length + h) * inner + j with s < segments
// (the terms of a merged contraction: q, k, v; gate, up), h < length and j <
// inner. Granule g holds the h from g * granuleSize to (g + 1) * granuleSize,
// cut off at length, of every segment; its chain runs over s, then h, then j. A
// granule beyond length is +0 and takes part in the tree.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_GEMM_H
#define MIXLE_RUNTIME_KERNELS_GEMM_H

#include "runtime/base/GranuleTree.h"
#include "runtime/kernels/Isa.h"
#include "runtime/kernels/Workspace.h"

#include <cstdint>
#include <vector>

namespace mixle::runtime {

/// The part of the contracted index that a rank holds: granules firstGranule to
/// firstGranule + ownedGranules of the `granules` of the whole. `length` counts
/// the h that it holds; local granule i covers h from i * granuleSize. (A rank
/// that holds fewer than ownedGranules * granuleSize holds the end of the
/// dimension.)
struct Contraction {
  int64_t segments = 1;
  int64_t length = 0;
  int64_t inner = 1;
  int64_t granuleSize = 0; ///< h in a granule; at least 1 where length is not 0
  int64_t granules = 1;
  int64_t firstGranule = 0;
  int64_t ownedGranules = 1;

  /// The local K.
  int64_t extent() const { return segments * length * inner; }
  bool ownsAll() const { return ownedGranules == granules; }

  /// One chain over all k.
  static Contraction chain(int64_t k) {
    Contraction c;
    c.length = k;
    c.granuleSize = k;
    return c;
  }
};

/// C = A B. `a`: [rows, K] row-major, lda elements between rows. `b`: [K,
/// columns] row-major, or [columns, K] row-major where transposeB; ldb elements
/// between rows. Writes the completed tree where the rank owns all granules,
/// else one partial [rows, columns] for each of maximalSubtrees in increasing
/// order, `slotStride` elements apart; nothing for no granules. `out` has ldOut
/// elements between rows and overlaps neither operand. Throws std::bad_alloc.
template <typename T>
void dotTree(const Contraction &contraction, int64_t rows, int64_t columns,
             const T *a, int64_t lda, const T *b, int64_t ldb, bool transposeB,
             T *out, int64_t ldOut, int64_t slotStride, Workspace &workspace,
             Isa isa = bestIsa());

/// Completes a tree from the partials of its subtrees: `leaves` are those of
/// all ranks, in increasing order, and `partials` their values, `count`
/// elements each. `out` may be one of them. Throws std::invalid_argument where
/// leaves are no cut through the tree over `granules`.
template <typename T>
void completeTree(int64_t granules, const std::vector<Subtree> &leaves,
                  const std::vector<const T *> &partials, T *out,
                  int64_t count);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_GEMM_H
