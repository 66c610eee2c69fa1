//===- AttentionBitsTest.cpp - Attention gives the reference's bits -------===//

#include "AttentionTestUtil.h"

#include <cmath>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

template <typename T> class AttentionBits : public ::testing::Test {};
using Elements = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionBits, Elements);

template <typename T> T usualScale(int64_t headDim) {
  return T(1 / std::sqrt(double(headDim)));
}

std::vector<Isa> machineIsas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (isSupported(isa))
      all.push_back(isa);
  return all;
}

/// Both passes with tiles and instruction set chosen.
template <typename T>
void runTiled(const AttentionShape &s, T scale, Tensors<T> &t,
              const detail::AttentionTiling &tiling, Isa isa) {
  Workspace workspace;
  Status status = detail::attentionForward(forwardArgs(s, scale, t), tiling,
                                           workspace, isa);
  ASSERT_TRUE(status.ok()) << status.message();
  status = detail::attentionBackward(backwardArgs(s, scale, t), tiling,
                                     workspace, isa);
  ASSERT_TRUE(status.ok()) << status.message();
}

template <typename T>
void expectReference(const AttentionShape &s, T spread = T(1)) {
  T scale = usualScale<T>(s.headDim);
  Tensors<T> inputs = randomTensors<T>(s, 1234, spread);
  Tensors<T> expected = inputs;
  Reference<T> reference(s, scale, expected);
  reference.forward();
  reference.backward();
  for (Isa isa : machineIsas()) {
    Tensors<T> got = inputs;
    runTiled(s, scale, got, detail::AttentionTiling(), isa);
    EXPECT_EQ(difference(got, expected), "")
        << isaName(isa) << ": " << describe(s);
  }
}

TYPED_TEST(AttentionBits, MatchTheReferenceOverShapes) {
  // rows, tokens, heads, kvHeads, headDim, granules
  const int64_t shapes[][6] = {
      {1, 1, 1, 1, 1, 1},    {2, 1, 3, 3, 24, 4},   {1, 2, 1, 1, 3, 1},
      {1, 5, 2, 2, 3, 3},    {2, 7, 2, 1, 1, 2},    {1, 13, 1, 1, 80, 4},
      {1, 16, 1, 1, 16, 1},  {1, 17, 2, 2, 32, 2},  {1, 33, 1, 1, 24, 8},
      {2, 40, 4, 2, 8, 3},   {1, 64, 2, 2, 16, 1},  {1, 65, 1, 1, 80, 3},
      {1, 97, 1, 1, 20, 1},  {1, 100, 3, 1, 5, 4},  {1, 128, 1, 1, 32, 8},
      {1, 131, 2, 1, 31, 7}, {1, 150, 1, 1, 64, 2}, {1, 29, 6, 1, 2, 5},
      {1, 6, 1, 1, 256, 8},  {1, 9, 1, 1, 129, 16}};
  for (const auto &x : shapes)
    for (bool causal : {true, false})
      expectReference<TypeParam>({x[0], x[1], x[2], x[3], x[4], x[5], causal});
}

TYPED_TEST(AttentionBits, MatchTheReferenceOverTokensAndGranules) {
  for (int64_t tokens = 1; tokens <= 37; tokens += tokens < 20 ? 1 : 4)
    for (int64_t granules : {1, 2, 3, 4, 8, 40})
      for (bool causal : {true, false})
        expectReference<TypeParam>({1, tokens, 1, 1, 3, granules, causal});
}

TYPED_TEST(AttentionBits, MatchTheReferenceOverHeadDims) {
  for (int64_t headDim = 1; headDim <= 50; ++headDim)
    expectReference<TypeParam>({1, 11, 1, 1, headDim, 2, true});
}

TYPED_TEST(AttentionBits, MatchTheReferenceWithLargeLogits) {
  // Logits up to thousands: most probabilities are exactly 0 and granules'
  // references lie far apart.
  for (TypeParam spread : {TypeParam(30), TypeParam(3000)})
    for (int64_t granules : {1, 4})
      for (bool causal : {true, false})
        expectReference<TypeParam>({1, 45, 1, 1, 16, granules, causal}, spread);
}

TYPED_TEST(AttentionBits, DoNotDependOnTiles) {
  using T = TypeParam;
  AttentionShape s{1, 150, 2, 1, 20, 2, true};
  T scale = usualScale<T>(s.headDim);
  for (bool causal : {true, false}) {
    s.causal = causal;
    Tensors<T> expected = randomTensors<T>(s, 5);
    runAttention(s, scale, expected);
    for (Isa isa : machineIsas())
      for (int64_t queryTile : {1, 7, 24, 1000})
        for (int64_t keyTile : {1, 16, 33, 1000}) {
          Tensors<T> got = expected;
          runTiled(s, scale, got, {queryTile, keyTile}, isa);
          EXPECT_EQ(difference(got, expected), "")
              << isaName(isa) << " tiles " << queryTile << " x " << keyTile;
        }
  }
}

/// The part of a tensor that belongs to some rows and heads.
template <typename T>
std::vector<T> part(const std::vector<T> &x, int64_t rows, int64_t tokens,
                    int64_t heads, int64_t width, int64_t row, int64_t rowCount,
                    int64_t head, int64_t headCount) {
  std::vector<T> out;
  for (int64_t r = row; r < row + rowCount; ++r)
    for (int64_t t = 0; t < tokens; ++t) {
      auto at = x.begin() + ((r * tokens + t) * heads + head) * width;
      out.insert(out.end(), at, at + headCount * width);
    }
  return out;
}

template <typename T>
Tensors<T> tensorsPart(const Tensors<T> &x, const AttentionShape &s,
                       int64_t row, int64_t rowCount, int64_t kv,
                       int64_t kvCount) {
  int64_t group = s.heads / s.kvHeads;
  auto query = [&](const std::vector<T> &y) {
    return part(y, s.rows, s.tokens, s.heads, s.headDim, row, rowCount,
                kv * group, kvCount * group);
  };
  auto key = [&](const std::vector<T> &y) {
    return part(y, s.rows, s.tokens, s.kvHeads, s.headDim, row, rowCount, kv,
                kvCount);
  };
  // Statistics are [rows, heads, tokens]: one "token" of width tokens.
  auto stats = [&](const auto &y) {
    return part(y, s.rows, int64_t(1), s.heads, s.tokens, row, rowCount,
                kv * group, kvCount * group);
  };
  return {query(x.q),  key(x.k),  key(x.v),  query(x.o), query(x.dO),
          query(x.dq), key(x.dk), key(x.dv), stats(x.l), stats(x.m)};
}

TYPED_TEST(AttentionBits, DoNotDependOnRowsOrHeadsInTheCall) {
  using T = TypeParam;
  AttentionShape s{5, 37, 6, 3, 12, 3, true};
  T scale = usualScale<T>(s.headDim);
  Tensors<T> whole = randomTensors<T>(s, 9);
  runAttention(s, scale, whole);
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t rows = 1; row + rows <= s.rows; rows += 2)
      for (int64_t kv = 0; kv < s.kvHeads; ++kv)
        for (int64_t kvs = 1; kv + kvs <= s.kvHeads; ++kvs) {
          Tensors<T> expected = tensorsPart(whole, s, row, rows, kv, kvs);
          Tensors<T> got = expected;
          AttentionShape some = s;
          some.rows = rows;
          some.kvHeads = kvs;
          some.heads = 2 * kvs;
          runAttention(some, scale, got);
          EXPECT_EQ(difference(got, expected), "")
              << "rows " << row << "+" << rows << " heads " << kv << "+" << kvs;
        }
}

TYPED_TEST(AttentionBits, DoNotDependOnTheSequencesTail) {
  // A causal query sees nothing behind it, granules being of one length.
  using T = TypeParam;
  AttentionShape s{1, 96, 1, 1, 16, 6, true}, half = s;
  half.tokens = 48;
  half.keyGranules = 3;
  Tensors<T> x = randomTensors<T>(s, 3), y = x;
  for (std::vector<T> *z : {&y.q, &y.k, &y.v, &y.dO})
    z->resize(z->size() / 2);
  Workspace workspace;
  ASSERT_TRUE(attentionForward(forwardArgs(s, T(0.25), x), workspace).ok());
  ASSERT_TRUE(attentionForward(forwardArgs(half, T(0.25), y), workspace).ok());
  x.o.resize(y.o.size());
  x.l.resize(y.l.size());
  EXPECT_EQ(difference("o", y.o, x.o), "");
  EXPECT_EQ(difference("l", y.l, x.l), "");
}

TYPED_TEST(AttentionBits, PackedLayoutIsTheSame) {
  using T = TypeParam;
  AttentionShape s{2, 19, 3, 3, 10, 2, true};
  Tensors<T> dense = randomTensors<T>(s, 77);
  runAttention(s, T(0.3), dense);
  int64_t width = s.heads * s.headDim, tokens = s.rows * s.tokens;
  auto pack = [&](const std::vector<T> &a, const std::vector<T> &b,
                  const std::vector<T> &c) {
    std::vector<T> all;
    for (int64_t i = 0; i < tokens; ++i)
      for (const std::vector<T> *x : {&a, &b, &c})
        all.insert(all.end(), x->begin() + i * width,
                   x->begin() + (i + 1) * width);
    return all;
  };
  std::vector<T> qkv = pack(dense.q, dense.k, dense.v), dqkv(qkv.size());
  std::vector<T> o(dense.o.size()), l(dense.l.size());
  std::vector<int32_t> m(l.size());
  Workspace workspace;
  ASSERT_TRUE(
      attentionForward(packedAttentionForward(s, T(0.3), qkv.data(), o.data(),
                                              m.data(), l.data()),
                       workspace)
          .ok());
  ASSERT_TRUE(
      attentionBackward(packedAttentionBackward(s, T(0.3), qkv.data(), o.data(),
                                                dense.dO.data(), m.data(),
                                                l.data(), dqkv.data()),
                        workspace)
          .ok());
  EXPECT_EQ(difference("o", o, dense.o), "");
  EXPECT_EQ(difference("l", l, dense.l), "");
  EXPECT_EQ(difference("m", m, dense.m), "");
  EXPECT_EQ(difference("dqkv", dqkv, pack(dense.dq, dense.dk, dense.dv)), "");
}

TYPED_TEST(AttentionBits, GroupedLayoutIsTheSame) {
  using T = TypeParam;
  for (int64_t queries : {1, 2, 3}) {
    AttentionShape s{2, 19, 2 * queries, 2, 10, 2, true};
    Tensors<T> dense = randomTensors<T>(s, 78);
    runAttention(s, T(0.3), dense);
    // In each group its queries, its key, its value.
    auto pack = [&](const std::vector<T> &a, const std::vector<T> &b,
                    const std::vector<T> &c) {
      std::vector<T> all;
      int64_t group = queries * s.headDim;
      for (int64_t i = 0; i < s.rows * s.tokens * s.kvHeads; ++i) {
        all.insert(all.end(), a.begin() + i * group, a.begin() + (i + 1) * group);
        for (const std::vector<T> *x : {&b, &c})
          all.insert(all.end(), x->begin() + i * s.headDim,
                     x->begin() + (i + 1) * s.headDim);
      }
      return all;
    };
    std::vector<T> qkv = pack(dense.q, dense.k, dense.v), dqkv(qkv.size());
    std::vector<T> o(dense.o.size()), l(dense.l.size());
    std::vector<int32_t> m(l.size());
    Workspace workspace;
    ASSERT_TRUE(
        attentionForward(groupedAttentionForward(s, T(0.3), qkv.data(), o.data(),
                                                 m.data(), l.data()),
                         workspace)
            .ok());
    ASSERT_TRUE(attentionBackward(
                    groupedAttentionBackward(s, T(0.3), qkv.data(), o.data(),
                                             dense.dO.data(), m.data(), l.data(),
                                             dqkv.data()),
                    workspace)
                    .ok());
    EXPECT_EQ(difference("o", o, dense.o), "");
    EXPECT_EQ(difference("l", l, dense.l), "");
    EXPECT_EQ(difference("m", m, dense.m), "");
    EXPECT_EQ(difference("dqkv", dqkv, pack(dense.dq, dense.dk, dense.dv)), "");
  }
}

TYPED_TEST(AttentionBits, AWorkspaceServesManyCalls) {
  using T = TypeParam;
  AttentionShape big{1, 90, 1, 1, 40, 2, true}, small{1, 7, 2, 2, 9, 3, true};
  Tensors<T> expected = randomTensors<T>(small, 4), got = expected;
  runAttention(small, T(1), expected);
  Workspace workspace;
  Tensors<T> other = randomTensors<T>(big, 4, T(100));
  ASSERT_TRUE(attentionForward(forwardArgs(big, T(1), other), workspace).ok());
  ASSERT_TRUE(
      attentionBackward(backwardArgs(big, T(1), other), workspace).ok());
  size_t held = workspace.capacity();
  ASSERT_TRUE(attentionForward(forwardArgs(small, T(1), got), workspace).ok());
  ASSERT_TRUE(
      attentionBackward(backwardArgs(small, T(1), got), workspace).ok());
  EXPECT_EQ(workspace.capacity(), held) << "a smaller call allocates nothing";
  EXPECT_EQ(difference(got, expected), "");
}

TEST(AttentionIsa, AnAbsentInstructionSetIsAnError) {
  if (isSupported(Isa::avx512))
    GTEST_SKIP() << "this processor has every instruction set";
  AttentionShape s{1, 3, 1, 1, 2, 1, true};
  Tensors<float> t = randomTensors<float>(s, 1);
  Workspace workspace;
  EXPECT_EQ(attentionForward(forwardArgs(s, 1.0f, t), workspace, Isa::avx512)
                .message(),
            "attention: this processor does not have the instruction set "
            "avx512; the best it has is " +
                std::string(isaName(bestIsa())));
}

TEST(AttentionIsa, Avx512IsAmongTheInstructionSetsCompared) {
  if (!isSupported(Isa::avx512))
    GTEST_SKIP() << "this processor has no AVX-512: that variant was not "
                    "compared with the reference";
  EXPECT_EQ(machineIsas().size(), 3u);
}

} // namespace
