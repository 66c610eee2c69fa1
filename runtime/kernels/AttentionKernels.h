//===- AttentionKernels.h - Attention per instruction set -------*- C++ -*-===//
//
// Internal: the entry points that Attention.cpp chooses from, one set per
// instruction set, all giving the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_ATTENTIONKERNELS_H
#define MIXLE_RUNTIME_KERNELS_ATTENTIONKERNELS_H

#include "runtime/kernels/Attention.h"

namespace mixle::runtime::detail {

/// How work is cut; no choice changes a bit of any result.
struct AttentionTiling {
  int64_t queryTile = 48; ///< queries of a tile, at least 1
  int64_t keyTile = 96;   ///< keys taken at a time, at least 1
};

#define MIXLE_DECLARE_ATTENTION(set)                                           \
  namespace set {                                                              \
  void attentionForward(const AttentionForwardArgs<float> &args,               \
                        const AttentionTiling &tiling, Workspace &workspace);  \
  void attentionForward(const AttentionForwardArgs<double> &args,              \
                        const AttentionTiling &tiling, Workspace &workspace);  \
  void attentionBackward(const AttentionBackwardArgs<float> &args,             \
                         const AttentionTiling &tiling, Workspace &workspace); \
  void attentionBackward(const AttentionBackwardArgs<double> &args,            \
                         const AttentionTiling &tiling, Workspace &workspace); \
  }

MIXLE_DECLARE_ATTENTION(portable)
#if defined(__x86_64__)
MIXLE_DECLARE_ATTENTION(avx2)
MIXLE_DECLARE_ATTENTION(avx512)
#endif
#undef MIXLE_DECLARE_ATTENTION

/// attentionForward and attentionBackward with a cut of one's own.
template <typename T>
Status attentionForward(const AttentionForwardArgs<T> &args,
                        const AttentionTiling &tiling, Workspace &workspace,
                        Isa isa);
template <typename T>
Status attentionBackward(const AttentionBackwardArgs<T> &args,
                         const AttentionTiling &tiling, Workspace &workspace,
                         Isa isa);

} // namespace mixle::runtime::detail

#endif // MIXLE_RUNTIME_KERNELS_ATTENTIONKERNELS_H
