//===- Attention.cpp - Checks and choice of instruction set ---------------===//

#include "runtime/kernels/Attention.h"
#include "runtime/kernels/AttentionKernels.h"
#include "runtime/kernels/AttentionScalar.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace mixle::runtime {

namespace {

Status invalid(const char *what, int64_t value, const std::string &expected) {
  return Status::error("attention: " + std::string(what) + " is " +
                       std::to_string(value) + "; expected " + expected);
}

Status checkShape(const AttentionShape &shape) {
  if (shape.rows < 0)
    return invalid("rows", shape.rows, "0 or more");
  if (shape.tokens < 1)
    return invalid("tokens", shape.tokens, "at least 1");
  if (shape.heads < 1)
    return invalid("heads", shape.heads, "at least 1");
  if (shape.kvHeads < 1 || shape.heads % shape.kvHeads != 0)
    return invalid("kvHeads", shape.kvHeads,
                   "a positive divisor of heads, which is " +
                       std::to_string(shape.heads));
  if (shape.headDim < 1 || shape.headDim > 256)
    return invalid("headDim", shape.headDim, "1 to 256");
  if (shape.keyGranules < 1)
    return invalid("keyGranules", shape.keyGranules, "at least 1");
  return Status::success();
}

Status checkOperands(
    std::initializer_list<std::pair<const char *, const void *>> operands) {
  for (const auto &[name, pointer] : operands)
    if (!pointer)
      return Status::error("attention: operand " + std::string(name) +
                           " is a null pointer; rows is not 0, so it must be "
                           "given");
  return Status::success();
}

Status checkIsa(Isa isa) {
  if (isSupported(isa))
    return Status::success();
  return Status::error("attention: this processor does not have the "
                       "instruction set " +
                       std::string(isaName(isa)) + "; the best it has is " +
                       isaName(bestIsa()));
}

template <typename T>
HeadsView<T> packedView(T *data, const AttentionShape &s, int64_t part,
                        int64_t parts) {
  int64_t token = s.heads * s.headDim;
  return {data + part * token, s.tokens * parts * token, parts * token,
          s.headDim};
}

/// q, k and v of qkv packed as [rows, tokens, kvHeads, g + 2, headDim].
template <typename T> struct GroupedViews {
  HeadsView<T> q, k, v;

  GroupedViews(T *data, const AttentionShape &s) {
    int64_t queries = s.heads / std::max<int64_t>(s.kvHeads, 1);
    int64_t group = (queries + 2) * s.headDim, token = s.kvHeads * group;
    q = {data, s.tokens * token, token, s.headDim, 2 * s.headDim};
    k = {data + queries * s.headDim, s.tokens * token, token, group};
    v = k;
    v.data += s.headDim;
  }
};

} // namespace

template <typename T>
AttentionForwardArgs<T> groupedAttentionForward(const AttentionShape &shape,
                                                T scale, const T *qkv, T *o,
                                                int32_t *m, T *l) {
  GroupedViews<const T> in(qkv, shape);
  return {shape, scale, in.q, in.k, in.v, packedView(o, shape, 0, 1), m, l};
}

template <typename T>
AttentionBackwardArgs<T>
groupedAttentionBackward(const AttentionShape &shape, T scale, const T *qkv,
                         const T *o, const T *dO, const int32_t *m, const T *l,
                         T *dqkv) {
  GroupedViews<const T> in(qkv, shape);
  GroupedViews<T> out(dqkv, shape);
  return {shape,
          scale,
          in.q,
          in.k,
          in.v,
          packedView(o, shape, 0, 1),
          packedView(dO, shape, 0, 1),
          m,
          l,
          out.q,
          out.k,
          out.v};
}

template <typename T>
AttentionForwardArgs<T> packedAttentionForward(const AttentionShape &shape,
                                               T scale, const T *qkv, T *o,
                                               int32_t *m, T *l) {
  return {shape,
          scale,
          packedView(qkv, shape, 0, 3),
          packedView(qkv, shape, 1, 3),
          packedView(qkv, shape, 2, 3),
          packedView(o, shape, 0, 1),
          m,
          l};
}

template <typename T>
AttentionBackwardArgs<T>
packedAttentionBackward(const AttentionShape &shape, T scale, const T *qkv,
                        const T *o, const T *dO, const int32_t *m, const T *l,
                        T *dqkv) {
  return {shape,
          scale,
          packedView(qkv, shape, 0, 3),
          packedView(qkv, shape, 1, 3),
          packedView(qkv, shape, 2, 3),
          packedView(o, shape, 0, 1),
          packedView(dO, shape, 0, 1),
          m,
          l,
          packedView(dqkv, shape, 0, 3),
          packedView(dqkv, shape, 1, 3),
          packedView(dqkv, shape, 2, 3)};
}

namespace detail {

template <typename T>
Status attentionForward(const AttentionForwardArgs<T> &args,
                        const AttentionTiling &tiling, Workspace &workspace,
                        Isa isa) {
  MIXLE_RETURN_IF_ERROR(checkShape(args.shape));
  if (args.shape.rows == 0)
    return Status::success();
  MIXLE_RETURN_IF_ERROR(checkOperands({{"q", args.q.data},
                                       {"k", args.k.data},
                                       {"v", args.v.data},
                                       {"o", args.o.data},
                                       {"m", args.m},
                                       {"l", args.l}}));
  MIXLE_RETURN_IF_ERROR(checkIsa(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512)
    avx512::attentionForward(args, tiling, workspace);
  else if (isa == Isa::avx2)
    avx2::attentionForward(args, tiling, workspace);
  else
#endif
    portable::attentionForward(args, tiling, workspace);
  return Status::success();
}

template <typename T>
Status attentionBackward(const AttentionBackwardArgs<T> &args,
                         const AttentionTiling &tiling, Workspace &workspace,
                         Isa isa) {
  MIXLE_RETURN_IF_ERROR(checkShape(args.shape));
  if (args.shape.rows == 0)
    return Status::success();
  MIXLE_RETURN_IF_ERROR(checkOperands({{"q", args.q.data},
                                       {"k", args.k.data},
                                       {"v", args.v.data},
                                       {"o", args.o.data},
                                       {"dO", args.dO.data},
                                       {"m", args.m},
                                       {"l", args.l},
                                       {"dq", args.dq.data},
                                       {"dk", args.dk.data},
                                       {"dv", args.dv.data}}));
  MIXLE_RETURN_IF_ERROR(checkIsa(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx512)
    avx512::attentionBackward(args, tiling, workspace);
  else if (isa == Isa::avx2)
    avx2::attentionBackward(args, tiling, workspace);
  else
#endif
    portable::attentionBackward(args, tiling, workspace);
  return Status::success();
}

} // namespace detail

template <typename T>
Status attentionForward(const AttentionForwardArgs<T> &args,
                        Workspace &workspace, Isa isa) {
  return detail::attentionForward(args, detail::AttentionTiling(), workspace,
                                  isa);
}

template <typename T>
Status attentionBackward(const AttentionBackwardArgs<T> &args,
                         Workspace &workspace, Isa isa) {
  return detail::attentionBackward(args, detail::AttentionTiling(), workspace,
                                   isa);
}

#define MIXLE_INSTANTIATE_ATTENTION(T)                                         \
  template AttentionForwardArgs<T> packedAttentionForward(                     \
      const AttentionShape &, T, const T *, T *, int32_t *, T *);              \
  template AttentionBackwardArgs<T> packedAttentionBackward(                   \
      const AttentionShape &, T, const T *, const T *, const T *,              \
      const int32_t *, const T *, T *);                                        \
  template AttentionForwardArgs<T> groupedAttentionForward(                    \
      const AttentionShape &, T, const T *, T *, int32_t *, T *);              \
  template AttentionBackwardArgs<T> groupedAttentionBackward(                  \
      const AttentionShape &, T, const T *, const T *, const T *,              \
      const int32_t *, const T *, T *);                                        \
  template Status attentionForward(const AttentionForwardArgs<T> &,            \
                                   Workspace &, Isa);                          \
  template Status attentionBackward(const AttentionBackwardArgs<T> &,          \
                                    Workspace &, Isa);                         \
  template Status detail::attentionForward(const AttentionForwardArgs<T> &,    \
                                           const AttentionTiling &,            \
                                           Workspace &, Isa);                  \
  template Status detail::attentionBackward(const AttentionBackwardArgs<T> &,  \
                                            const AttentionTiling &,           \
                                            Workspace &, Isa);
MIXLE_INSTANTIATE_ATTENTION(float)
MIXLE_INSTANTIATE_ATTENTION(double)

} // namespace mixle::runtime
