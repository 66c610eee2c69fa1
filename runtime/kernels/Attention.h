//===- Attention.h - Self-attention, forward and backward -------*- C++ -*-===//
//
// Multi-head self-attention of T = float or double whose bits depend on
// nothing but the values: not on the number of rows in a call, the heads
// present in it, tile sizes or vector width. A T×T matrix is never stored.
//
// What is computed (FMA = one rounding; "chain" = one accumulator that starts
// at +0 and takes its terms in index order by FMA):
//
//   s[t,j]   chain over d of q[t,d]·k[j,d]
//   s2       s · c, where c = scale·log2(e) rounded to T (taken in double)
//   granules keys are cut into granules of ceil(tokens / keyGranules); for
//            each granule, over its visible keys only:
//              m    = ceil(max s2), an integer
//              p[j] = 2^(s2 − m)  (Exp2 below)
//              l    = sum of p over 16 lanes, lane = (j − granule start) mod
//                     16, each lane in index order, then lanes i and i + w are
//                     added for w = 8, 4, 2, 1
//              o[d] = chain over j of p[j]·v[j,d]
//            A granule without a visible key is the identity: never added.
//   tree     granules merge in a binary tree that splits n leaves at the
//            largest power of two below n: m = max(m1, m2),
//            l = l1·2^(m1−m) + l2·2^(m2−m), o alike (two products, one sum;
//            the power is 0 where it would be subnormal)
//   o        o / l; m and l are saved.
//
//   backward, from do, with the same s2 and the saved m, l:
//   p[t,j]   2^(s2 − m) / l
//   delta[t] 16 chains over d (lane = d mod 16) of do[t,d]·o[t,d], lanes added
//            as for l
//   dp[t,j]  chain over d of do[t,d]·v[j,d]
//   ds[t,j]  (p · (dp − delta)) · scale
//   dq[t,d]  per key granule a chain over j of ds[t,j]·k[j,d]; tree
//   dk[j,d]  per query granule (same cuts) a chain over t of ds[t,j]·q[t,d];
//            tree over granules, a granule in which no query sees key j being
//            the identity; then, where several query heads share a key head,
//            a tree over those heads
//   dv[j,d]  as dk, of p[t,j]·do[t,d]
//
// With causal set, query t sees keys j <= t. Keys that are not visible are
// skipped, so infinities and NaNs there do no harm. A query whose max s2 is
// not finite or beyond ±2^30 gets NaN in o and l, and m = 0; a NaN logit makes
// its query NaN.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_ATTENTION_H
#define MIXLE_RUNTIME_KERNELS_ATTENTION_H

#include "mixle/Status.h"
#include "runtime/kernels/Isa.h"
#include "runtime/kernels/Workspace.h"

#include <cstdint>

namespace mixle::runtime {

/// Sizes of one attention; the same numbers give the same bits on every rank.
struct AttentionShape {
  int64_t rows = 0;    ///< sequences in this call; may be 0
  int64_t tokens = 0;  ///< length of each sequence, at least 1
  int64_t heads = 0;   ///< query heads in this call
  int64_t kvHeads = 0; ///< key/value heads in this call; divides heads: query
                       ///< head h uses key head h / (heads / kvHeads)
  int64_t headDim = 0; ///< 1 to 256
  int64_t keyGranules = 1; ///< cuts of the sequence, at least 1; may exceed
                           ///< tokens (trailing granules are empty)
  bool causal = true;
};

/// A tensor seen as [rows, tokens, heads, headDim] with the last dimension
/// contiguous; strides in elements.
template <typename T> struct HeadsView {
  T *data = nullptr;
  int64_t rowStride = 0;
  int64_t tokenStride = 0;
  int64_t headStride = 0;
  /// What is skipped besides after each group of query heads that share a key.
  int64_t groupGap = 0;
};

/// Operands of the forward pass. Outputs must not overlap inputs.
template <typename T> struct AttentionForwardArgs {
  AttentionShape shape;
  T scale = T(1);
  HeadsView<const T> q;    ///< heads
  HeadsView<const T> k, v; ///< kvHeads
  HeadsView<T> o;          ///< heads
  int32_t *m = nullptr;    ///< out, [rows, heads, tokens]
  T *l = nullptr;          ///< out, [rows, heads, tokens]
};

/// Operands of the backward pass. Outputs are overwritten and must not overlap
/// inputs.
template <typename T> struct AttentionBackwardArgs {
  AttentionShape shape;
  T scale = T(1);
  HeadsView<const T> q, k, v; ///< as in the forward pass
  HeadsView<const T> o;       ///< the forward pass's result
  HeadsView<const T> dO;      ///< heads
  const int32_t *m = nullptr; ///< as saved by the forward pass
  const T *l = nullptr;       ///< as saved by the forward pass
  HeadsView<T> dq;            ///< out, heads
  HeadsView<T> dk, dv;        ///< out, kvHeads
};

/// Operands for qkv packed as [rows, tokens, 3, heads, headDim] (q, k, v in
/// this order; kvHeads == heads) and o as [rows, tokens, heads, headDim].
template <typename T>
AttentionForwardArgs<T> packedAttentionForward(const AttentionShape &shape,
                                               T scale, const T *qkv, T *o,
                                               int32_t *m, T *l);

/// Operands for qkv and dqkv packed as [rows, tokens, 3, heads, headDim], o and
/// dO as [rows, tokens, heads, headDim].
template <typename T>
AttentionBackwardArgs<T>
packedAttentionBackward(const AttentionShape &shape, T scale, const T *qkv,
                        const T *o, const T *dO, const int32_t *m, const T *l,
                        T *dqkv);

/// Operands for qkv packed as [rows, tokens, kvHeads, g + 2, headDim], in each
/// group g = heads / kvHeads queries, then their key and value; o as [rows,
/// tokens, heads, headDim].
template <typename T>
AttentionForwardArgs<T> groupedAttentionForward(const AttentionShape &shape,
                                                T scale, const T *qkv, T *o,
                                                int32_t *m, T *l);

/// Operands for qkv and dqkv packed so, o and dO as [rows, tokens, heads,
/// headDim].
template <typename T>
AttentionBackwardArgs<T>
groupedAttentionBackward(const AttentionShape &shape, T scale, const T *qkv,
                         const T *o, const T *dO, const int32_t *m, const T *l,
                         T *dqkv);

/// Computes o, m and l. Fails, before any work, where the shape is not one that
/// AttentionShape allows, a tensor is missing, or this machine has no `isa`.
/// Single-threaded; `workspace` is the calling thread's own.
template <typename T>
Status attentionForward(const AttentionForwardArgs<T> &args,
                        Workspace &workspace, Isa isa = bestIsa());

/// Computes dq, dk and dv. Fails as attentionForward does.
template <typename T>
Status attentionBackward(const AttentionBackwardArgs<T> &args,
                         Workspace &workspace, Isa isa = bestIsa());

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_ATTENTION_H
