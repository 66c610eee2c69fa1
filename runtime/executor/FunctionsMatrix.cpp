//===- FunctionsMatrix.cpp - Products and attention -----------------------===//

#include "runtime/executor/Functions.h"
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/Gemm.h"

#include <cstring>

namespace mixle::runtime {

namespace {

using detail::anyNumber;
using detail::maxGranules;

/// The range of granules that a rank owns lies within all of them; a rank that
/// owns none may begin anywhere.
Status checkGranules(int64_t granules, int64_t first, int64_t owned) {
  if (owned == 0)
    return Status::success();
  if (owned > granules || first > granules - owned)
    return Status::error("granules " + std::to_string(first) + " to " +
                         std::to_string(first + owned) + " are not among the " +
                         std::to_string(granules) + " of the dimension");
  return Status::success();
}

/// Partials that a rank writes: one for everything, else one per subtree.
int64_t partialsOf(int64_t granules, int64_t first, int64_t owned) {
  if (owned == granules)
    return 1;
  return static_cast<int64_t>(maximalSubtrees(first, first + owned, granules).size());
}

//===----------------------------------------------------------------------===//
// dot_tree
//===----------------------------------------------------------------------===//

template <typename T> struct DotTree {
  enum {
    M,
    N,
    Segments,
    Length,
    StrideLength,
    Inner,
    Granules,
    GranuleSize,
    FirstGranule,
    OwnedGranules,
    TransposeB
  };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_RETURN_IF_ERROR(
        checkGranules(s[Granules], s[FirstGranule], s[OwnedGranules]));
    if (s[Length] > s[StrideLength])
      return Status::error("length " + std::to_string(s[Length]) +
                           " exceeds stride_length " +
                           std::to_string(s[StrideLength]));
    if (s[Length] > 0 &&
        (Extent(s[OwnedGranules]) * s[GranuleSize]).count() < s[Length])
      return Status::error(
          std::to_string(s[OwnedGranules]) + " owned granules of " +
          std::to_string(s[GranuleSize]) + " do not cover the length " +
          std::to_string(s[Length]));
    Extent k = Extent(s[Segments]) * s[StrideLength] * s[Inner];
    touched[0] = Extent(s[M]) * k;
    touched[1] = k * s[N];
    touched[2] = Extent(s[M]) * s[N] *
                 partialsOf(s[Granules], s[FirstGranule], s[OwnedGranules]);
    return Status::success();
  }

  /// Copies the valid part of every segment together: `outer` blocks, each of
  /// `segments` runs of `run` out of `stride` elements.
  static void pack(int64_t outer, int64_t segments, int64_t run, int64_t stride,
                   const T *from, T *to) {
    for (int64_t i = 0; i < outer * segments; ++i)
      std::memcpy(to + i * run, from + i * stride, run * sizeof(T));
  }

  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    Contraction c;
    c.segments = s[Segments];
    c.length = s[Length];
    c.inner = s[Inner];
    c.granuleSize = s[GranuleSize];
    c.granules = s[Granules];
    c.firstGranule = s[FirstGranule];
    c.ownedGranules = s[OwnedGranules];
    bool transposeB = s[TransposeB] != 0;
    const T *a = call.at<const T>(0), *b = call.at<const T>(1);
    int64_t stored = s[Segments] * s[StrideLength] * s[Inner];
    int64_t lda = stored, ldb = transposeB ? stored : s[N];
    std::vector<T> packedA, packedB;
    if (s[Segments] > 1 && s[Length] < s[StrideLength]) {
      // The kernel takes segments without gaps; padding occurs on the last rank
      // of an uneven cut only, so the copy is rare.
      int64_t k = c.extent();
      int64_t run = c.length * c.inner, stride = s[StrideLength] * c.inner;
      packedA.resize(s[M] * k);
      packedB.resize(k * s[N]);
      pack(s[M], c.segments, run, stride, a, packedA.data());
      if (transposeB)
        pack(s[N], c.segments, run, stride, b, packedB.data());
      else
        pack(1, c.segments, run * s[N], stride * s[N], b, packedB.data());
      a = packedA.data();
      b = packedB.data();
      lda = k;
      ldb = transposeB ? k : s[N];
    }
    dotTree<T>(c, s[M], s[N], a, lda, b, ldb, transposeB, call.at<T>(2), s[N],
               s[M] * s[N], call.rank.workspace);
    return Status::success();
  }
};

//===----------------------------------------------------------------------===//
// combine_granules
//===----------------------------------------------------------------------===//

template <typename T> struct CombineGranules {
  enum { M, Columns, Granules, FirstGranule, OwnedGranules };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_RETURN_IF_ERROR(
        checkGranules(s[Granules], s[FirstGranule], s[OwnedGranules]));
    if (s[OwnedGranules] > s[Columns])
      return Status::error(std::to_string(s[OwnedGranules]) +
                           " owned granules in " + std::to_string(s[Columns]) +
                           " columns");
    touched[0] = Extent(s[M]) * s[Columns];
    touched[1] = Extent(s[M]) *
                 partialsOf(s[Granules], s[FirstGranule], s[OwnedGranules]);
    return Status::success();
  }

  /// The sum of `count` neighbouring columns in the tree's order.
  static T sumOf(const T *values, int64_t count) {
    if (count == 1)
      return values[0];
    int64_t left = treeSplit(count);
    return sumOf(values, left) + sumOf(values + left, count - left);
  }

  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    const T *sums = call.at<const T>(0);
    T *out = call.at<T>(1);
    for (const Subtree &subtree :
         maximalSubtrees(s[FirstGranule], s[FirstGranule] + s[OwnedGranules],
                         s[Granules])) {
      const T *column = sums + (subtree.begin - s[FirstGranule]);
      for (int64_t m = 0; m < s[M]; ++m)
        *out++ = sumOf(column + m * s[Columns], subtree.size());
    }
    return Status::success();
  }
};

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// Heads packed as [rows, tokens, 3, heads, head_dim]: each has its own key.
struct SeparateHeads {
  enum { Rows, Tokens, Heads, HeadDim, Causal, KeyGranules };

  static int64_t heads(const int64_t *s) { return s[Heads]; }
  static int64_t kvHeads(const int64_t *s) { return s[Heads]; }
  /// Vectors of a token in qkv.
  static Extent vectors(const int64_t *s) { return Extent(s[Heads]) * 3; }

  template <typename T>
  static AttentionForwardArgs<T> forward(const AttentionShape &shape, T scale,
                                         const T *qkv, T *o, int32_t *m, T *l) {
    return packedAttentionForward<T>(shape, scale, qkv, o, m, l);
  }
  template <typename T>
  static AttentionBackwardArgs<T>
  backward(const AttentionShape &shape, T scale, const T *qkv, const T *o,
           const T *dO, const int32_t *m, const T *l, T *dqkv) {
    return packedAttentionBackward<T>(shape, scale, qkv, o, dO, m, l, dqkv);
  }
};

/// Heads packed as [rows, tokens, groups, queries + 2, head_dim].
struct GroupedHeads {
  enum { Rows, Tokens, Groups, Queries, HeadDim, Causal, KeyGranules };

  static int64_t heads(const int64_t *s) { return s[Groups] * s[Queries]; }
  static int64_t kvHeads(const int64_t *s) { return s[Groups]; }
  static Extent vectors(const int64_t *s) {
    return Extent(s[Groups]) * (Extent(s[Queries]) + 2);
  }

  template <typename T>
  static AttentionForwardArgs<T> forward(const AttentionShape &shape, T scale,
                                         const T *qkv, T *o, int32_t *m, T *l) {
    return groupedAttentionForward<T>(shape, scale, qkv, o, m, l);
  }
  template <typename T>
  static AttentionBackwardArgs<T>
  backward(const AttentionShape &shape, T scale, const T *qkv, const T *o,
           const T *dO, const int32_t *m, const T *l, T *dqkv) {
    return groupedAttentionBackward<T>(shape, scale, qkv, o, dO, m, l, dqkv);
  }
};

/// Groups, and queries of a group: their product fits an int64.
constexpr int64_t maxGroups = int64_t(1) << 31;

template <typename T, typename Packing> struct AttentionCall {
  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    Extent tokens = Extent(s[Packing::Rows]) * s[Packing::Tokens];
    Extent positions = tokens * Packing::heads(s);
    touched[0] = tokens * Packing::vectors(s) * s[Packing::HeadDim];
    touched[1] = positions * s[Packing::HeadDim];
    touched[2] = positions;
    touched[3] = positions;
    return Status::success();
  }
  static Status checkGrad(const CallArguments &call, Extent *touched) {
    MIXLE_RETURN_IF_ERROR(check(call, touched));
    touched[4] = touched[1];
    touched[5] = touched[0];
    return Status::success();
  }

  static AttentionShape shapeOf(const int64_t *s) {
    AttentionShape shape;
    shape.rows = s[Packing::Rows];
    shape.tokens = s[Packing::Tokens];
    shape.heads = Packing::heads(s);
    shape.kvHeads = Packing::kvHeads(s);
    shape.headDim = s[Packing::HeadDim];
    shape.keyGranules = s[Packing::KeyGranules];
    shape.causal = s[Packing::Causal] != 0;
    return shape;
  }
  static bool isEmpty(const int64_t *s) {
    return !s[Packing::Rows] || !Packing::heads(s);
  }

  static Status execute(const FunctionCall &call) {
    if (isEmpty(call.scalars))
      return Status::success();
    return attentionForward<T>(
        Packing::template forward<T>(
            shapeOf(call.scalars), static_cast<T>(call.floats[0]),
            call.at<const T>(0), call.at<T>(1), call.at<int32_t>(2),
            call.at<T>(3)),
        call.rank.workspace);
  }
  static Status executeGrad(const FunctionCall &call) {
    if (isEmpty(call.scalars))
      return Status::success();
    return attentionBackward<T>(
        Packing::template backward<T>(
            shapeOf(call.scalars), static_cast<T>(call.floats[0]),
            call.at<const T>(0), call.at<const T>(1), call.at<const T>(4),
            call.at<const int32_t>(2), call.at<const T>(3), call.at<T>(5)),
        call.rank.workspace);
  }
};

/// Adds the functions of one packing; `prefix` goes before "attention".
template <typename T, typename Packing>
void addAttentionOf(detail::FunctionTable &table, const std::string &prefix,
                    const std::vector<LibraryFunction::Scalar> &scalars) {
  constexpr fb::DataType type = detail::dataTypeOf<T>();
  const std::string suffix = detail::suffixOf<T>();
  table.push_back({prefix + "attention" + suffix,
                   {{"qkv", type},
                    {"out", type, true},
                    {"reference", fb::DataType::I32, true},
                    {"normalizer", type, true}},
                   scalars,
                   {"scale"},
                   false,
                   AttentionCall<T, Packing>::check,
                   AttentionCall<T, Packing>::execute});
  table.push_back({prefix + "attention_grad" + suffix,
                   {{"qkv", type},
                    {"out", type},
                    {"reference", fb::DataType::I32},
                    {"normalizer", type},
                    {"dout", type},
                    {"dqkv", type, true}},
                   scalars,
                   {"scale"},
                   false,
                   AttentionCall<T, Packing>::checkGrad,
                   AttentionCall<T, Packing>::executeGrad});
}

template <typename T> void addMatrixFunctionsOf(detail::FunctionTable &table) {
  constexpr fb::DataType type = detail::dataTypeOf<T>();
  const std::string suffix = detail::suffixOf<T>();
  table.push_back({"dot_tree" + suffix,
                   {{"a", type}, {"b", type}, {"c", type, true}},
                   {{"M", 0, anyNumber},
                    {"N", 0, anyNumber},
                    {"segments", 1, anyNumber},
                    {"length", 0, anyNumber},
                    {"stride_length", 0, anyNumber},
                    {"inner", 1, anyNumber},
                    {"granules", 1, maxGranules},
                    {"granule_size", 1, anyNumber},
                    {"first_granule", 0, maxGranules},
                    {"owned_granules", 0, maxGranules},
                    {"transpose_b", 0, 1}},
                   {},
                   false,
                   DotTree<T>::check,
                   DotTree<T>::execute});
  table.push_back({"combine_granules" + suffix,
                   {{"sums", type}, {"out", type, true}},
                   {{"M", 0, anyNumber},
                    {"columns", 0, anyNumber},
                    {"granules", 1, maxGranules},
                    {"first_granule", 0, maxGranules},
                    {"owned_granules", 0, maxGranules}},
                   {},
                   false,
                   CombineGranules<T>::check,
                   CombineGranules<T>::execute});
  addAttentionOf<T, SeparateHeads>(table, "",
                                   {{"rows", 0, anyNumber},
                                    {"tokens", 1, anyNumber},
                                    {"heads", 0, anyNumber},
                                    {"head_dim", 1, 256},
                                    {"causal", 0, 1},
                                    {"key_granules", 1, maxGranules}});
  addAttentionOf<T, GroupedHeads>(table, "grouped_",
                                  {{"rows", 0, anyNumber},
                                   {"tokens", 1, anyNumber},
                                   {"groups", 0, maxGroups},
                                   {"queries", 1, maxGroups},
                                   {"head_dim", 1, 256},
                                   {"causal", 0, 1},
                                   {"key_granules", 1, maxGranules}});
}

} // namespace

void detail::addMatrixFunctions(FunctionTable &table) {
  addMatrixFunctionsOf<float>(table);
  addMatrixFunctionsOf<double>(table);
}

} // namespace mixle::runtime
