//===- GemmTest.cpp - dotTree against a scalar chain and tree -------------===//

#include "runtime/kernels/Gemm.h"
#include "TestSupport.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

template <typename T> struct Problem {
  Contraction c; ///< of the whole
  int64_t rows, columns;
  std::vector<T> a, b; ///< [rows, K], [K, columns], dense
};

template <typename T>
Problem<T> makeProblem(Values &values, Contraction c, int64_t rows,
                       int64_t columns) {
  return {c, rows, columns, values.values<T>(rows * c.extent()),
          values.values<T>(c.extent() * columns)};
}

/// The definition: one granule's chain.
template <typename T>
T granuleChain(const Problem<T> &p, int64_t g, int64_t m, int64_t n) {
  const Contraction &c = p.c;
  T sum = 0;
  for (int64_t s = 0; s < c.segments; ++s)
    for (int64_t h = std::min(g * c.granuleSize, c.length);
         h < std::min((g + 1) * c.granuleSize, c.length); ++h)
      for (int64_t j = 0; j < c.inner; ++j) {
        const int64_t k = (s * c.length + h) * c.inner + j;
        sum = std::fma(p.a[m * c.extent() + k], p.b[k * p.columns + n], sum);
      }
  return sum;
}

/// The definition: the tree over granules lo to lo + n.
template <typename T>
T tree(const Problem<T> &p, int64_t lo, int64_t n, int64_t row,
       int64_t column) {
  if (n == 1)
    return granuleChain(p, lo, row, column);
  int64_t left = 1;
  while (left * 2 < n)
    left *= 2;
  return tree(p, lo, left, row, column) +
         tree(p, lo + left, n - left, row, column);
}

template <typename T>
std::vector<T> reference(const Problem<T> &p, Subtree subtree) {
  std::vector<T> result;
  for (int64_t m = 0; m < p.rows; ++m)
    for (int64_t n = 0; n < p.columns; ++n)
      result.push_back(tree(p, subtree.begin, subtree.size(), m, n));
  return result;
}

/// What a rank that owns some granules computes, from its own columns of A and
/// rows of B, with padded leading dimensions; one dense matrix per subtree.
template <typename T>
std::vector<std::vector<T>> runOwned(const Problem<T> &p, int64_t first,
                                     int64_t owned, bool transposeB,
                                     Workspace &workspace, Isa isa) {
  Contraction local = p.c;
  const int64_t begin = std::min(first * p.c.granuleSize, p.c.length);
  const int64_t end = std::min((first + owned) * p.c.granuleSize, p.c.length);
  local.length = end - begin;
  local.firstGranule = first;
  local.ownedGranules = owned;
  const int64_t lda = local.extent() + 3;
  const int64_t ldb = (transposeB ? local.extent() : p.columns) + 5;
  std::vector<T> a(p.rows * lda, T(7)),
      b((transposeB ? p.columns : local.extent()) * ldb + 1, T(7));
  int64_t k = 0;
  for (int64_t s = 0; s < p.c.segments; ++s)
    for (int64_t h = begin; h < end; ++h)
      for (int64_t j = 0; j < p.c.inner; ++j, ++k) {
        const int64_t from = (s * p.c.length + h) * p.c.inner + j;
        for (int64_t m = 0; m < p.rows; ++m)
          a[m * lda + k] = p.a[m * p.c.extent() + from];
        for (int64_t n = 0; n < p.columns; ++n)
          b[transposeB ? n * ldb + k : k * ldb + n] = p.b[from * p.columns + n];
      }
  const size_t count = maximalSubtrees(first, first + owned, p.c.granules).size();
  const int64_t ldOut = p.columns + 2;
  const int64_t slotStride = p.rows * ldOut + 9;
  const T untouched = T(-12345);
  std::vector<T> out(count * slotStride + 1, untouched);
  dotTree<T>(local, p.rows, p.columns, a.data(), lda, b.data(), ldb, transposeB,
             out.data(), ldOut, slotStride, workspace, isa);
  std::vector<std::vector<T>> result(count);
  for (size_t i = 0; i < count; ++i)
    for (int64_t m = 0; m < p.rows; ++m)
      for (int64_t n = 0; n < ldOut; ++n) {
        T &x = out[i * slotStride + m * ldOut + n];
        if (n < p.columns)
          result[i].push_back(std::exchange(x, untouched));
      }
  for (const T &x : out)
    EXPECT_EQ(x, untouched) << "written outside the result";
  return result;
}

template <typename T> class GemmTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, EveryTileRemainderIsAChain) {
  using T = TypeParam;
  Values values(1);
  Workspace workspace;
  for (Isa isa : supportedIsas())
    for (int64_t rows = 1; rows <= 15; ++rows)
      for (int64_t columns : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50})
        for (int64_t k : {1, 2, 3, 5, 17, 64}) {
          const Problem<T> p =
              makeProblem<T>(values, Contraction::chain(k), rows, columns);
          EXPECT_TRUE(sameBits(reference(p, {0, 1}),
                               runOwned(p, 0, 1, rows % 2, workspace, isa)[0]))
              << isaName(isa) << " " << rows << "x" << columns << "x" << k;
        }
}

TYPED_TEST(GemmTest, EveryChainLengthTo300) {
  using T = TypeParam;
  Values values(2);
  Workspace workspace;
  for (Isa isa : supportedIsas())
    for (int64_t k = 0; k <= 300; ++k) {
      const Problem<T> p = makeProblem<T>(values, Contraction::chain(k), 3, 5);
      EXPECT_TRUE(sameBits(reference(p, {0, 1}),
                           runOwned(p, 0, 1, k % 2, workspace, isa)[0]))
          << isaName(isa) << " k = " << k;
    }
}

TYPED_TEST(GemmTest, LongChainsCrossPiecesAndBlocks) {
  using T = TypeParam;
  Values values(3);
  Workspace workspace;
  for (Isa isa : supportedIsas())
    for (int64_t granules : {1, 3, 8}) {
      Contraction c;
      c.segments = 2;
      c.length = 1500;
      c.granules = c.ownedGranules = granules;
      c.granuleSize = (c.length + granules - 1) / granules;
      const Problem<T> p = makeProblem<T>(values, c, 37, 40);
      EXPECT_TRUE(sameBits(reference(p, {0, granules}),
                           runOwned(p, 0, granules, false, workspace, isa)[0]))
          << isaName(isa) << " granules = " << granules;
    }
}

TYPED_TEST(GemmTest, ManyColumnsCrossGroups) {
  using T = TypeParam;
  Values values(4);
  Workspace workspace;
  for (Isa isa : supportedIsas()) {
    const Problem<T> p =
        makeProblem<T>(values, Contraction::chain(700), 5, 900);
    EXPECT_TRUE(sameBits(reference(p, {0, 1}),
                         runOwned(p, 0, 1, false, workspace, isa)[0]));
  }
}

TYPED_TEST(GemmTest, RandomStructures) {
  using T = TypeParam;
  Values values(5);
  Workspace workspace;
  for (int i = 0; i < 300; ++i) {
    Contraction c;
    c.segments = values.integer(1, 3);
    c.granules = values.integer(1, 13);
    c.length = values.integer(0, 40);
    c.inner = values.integer(1, 5);
    c.granuleSize =
        std::max<int64_t>(1, (c.length + c.granules - 1) / c.granules);
    c.ownedGranules = c.granules;
    const Problem<T> p =
        makeProblem<T>(values, c, values.integer(1, 30), values.integer(1, 40));
    const int64_t first = values.integer(0, c.granules);
    const int64_t owned = values.integer(0, c.granules - first);
    for (Isa isa : supportedIsas()) {
      EXPECT_TRUE(
          sameBits(reference(p, {0, c.granules}),
                   runOwned(p, 0, c.granules, i % 2, workspace, isa)[0]));
      const std::vector<Subtree> subtrees =
          maximalSubtrees(first, first + owned, c.granules);
      const std::vector<std::vector<T>> partials =
          runOwned(p, first, owned, i % 2, workspace, isa);
      ASSERT_EQ(subtrees.size(), partials.size());
      for (size_t t = 0; t < subtrees.size(); ++t)
        EXPECT_TRUE(sameBits(reference(p, subtrees[t]), partials[t]))
            << isaName(isa) << " granules " << c.granules << " first " << first
            << " owned " << owned;
    }
  }
}

TYPED_TEST(GemmTest, EmptyGranulesTurnMinusZeroIntoPlusZero) {
  using T = TypeParam;
  // The product underflows to -0, and so does the chain; the tree adds +0 to
  // it.
  const T tiny = std::numeric_limits<T>::min();
  Contraction c;
  c.length = 1;
  c.granuleSize = 1;
  Problem<T> p{c, 1, 1, {-tiny}, {tiny}};
  Workspace workspace;
  for (Isa isa : supportedIsas()) {
    p.c.granules = 1;
    EXPECT_EQ(bitsOf(T(-0.0)),
              bitsOf(runOwned(p, 0, 1, false, workspace, isa)[0][0]));
    p.c.granules = 2;
    EXPECT_EQ(bitsOf(T(0)),
              bitsOf(runOwned(p, 0, 2, false, workspace, isa)[0][0]));
  }
}

TYPED_TEST(GemmTest, ARowAloneHasTheBitsThatItHasInABatch) {
  using T = TypeParam;
  Values values(6);
  Workspace workspace;
  Contraction c;
  c.length = 96;
  c.granuleSize = 24;
  c.granules = c.ownedGranules = 4;
  const Problem<T> batch = makeProblem<T>(values, c, 100, 48);
  for (Isa isa : supportedIsas()) {
    const std::vector<T> all = runOwned(batch, 0, 4, false, workspace, isa)[0];
    for (int64_t row : {0, 5, 41, 99}) {
      Problem<T> single = batch;
      single.rows = 1;
      single.a.assign(batch.a.begin() + row * 96,
                      batch.a.begin() + (row + 1) * 96);
      EXPECT_TRUE(sameBits(
          std::vector<T>(all.begin() + row * 48, all.begin() + (row + 1) * 48),
          runOwned(single, 0, 4, true, workspace, isa)[0]));
    }
  }
}

TYPED_TEST(GemmTest, NonFiniteValuesStayInTheirRowsAndColumns) {
  using T = TypeParam;
  Values values(7);
  Workspace workspace;
  Problem<T> p = makeProblem<T>(values, Contraction::chain(20), 9, 19);
  p.a[3 * 20 + 4] = std::numeric_limits<T>::infinity();
  p.b[7 * 19 + 18] = std::numeric_limits<T>::quiet_NaN();
  for (Isa isa : supportedIsas())
    EXPECT_TRUE(sameBits(reference(p, {0, 1}),
                         runOwned(p, 0, 1, false, workspace, isa)[0]));
}

TYPED_TEST(GemmTest, PartialsOfAnyRanksCompleteToTheSameTree) {
  using T = TypeParam;
  Values values(8);
  Workspace workspace;
  for (int i = 0; i < 60; ++i) {
    Contraction c;
    c.granules = c.ownedGranules = values.integer(1, 17);
    c.granuleSize = values.integer(1, 4);
    c.length = c.granules * c.granuleSize;
    const Problem<T> p = makeProblem<T>(values, c, 7, 90);
    std::vector<Subtree> leaves;
    std::vector<std::vector<T>> storage;
    for (int64_t first = 0; first < c.granules;) {
      const int64_t owned = values.integer(1, c.granules - first);
      for (const Subtree &s : maximalSubtrees(first, first + owned, c.granules))
        leaves.push_back(s);
      for (auto &partial :
           runOwned(p, first, owned, false, workspace, bestIsa()))
        storage.push_back(std::move(partial));
      first += owned;
    }
    std::vector<const T *> partials;
    for (const auto &s : storage)
      partials.push_back(s.data());
    std::vector<T> out(7 * 90);
    completeTree<T>(c.granules, leaves, partials, out.data(), 7 * 90);
    EXPECT_TRUE(sameBits(reference(p, {0, c.granules}), out));
  }
}

TEST(MaximalSubtrees, AreMaximal) {
  const auto expect = [](int64_t granules, int64_t first, int64_t owned,
                         std::vector<std::pair<int64_t, int64_t>> expected) {
    std::vector<std::pair<int64_t, int64_t>> got;
    for (const Subtree &s : maximalSubtrees(first, first + owned, granules))
      got.push_back({s.begin, s.size()});
    EXPECT_EQ(expected, got);
  };
  expect(8, 0, 8, {{0, 8}});
  expect(8, 0, 4, {{0, 4}});
  expect(8, 1, 6, {{1, 1}, {2, 2}, {4, 2}, {6, 1}});
  expect(8, 3, 3, {{3, 1}, {4, 2}});
  expect(7, 4, 3, {{4, 3}}); // the right subtree of 4 + 3
  expect(6, 2, 4, {{2, 2}, {4, 2}});
  expect(6, 3, 0, {});
  expect(1, 0, 1, {{0, 1}});
}

TEST(CompleteTree, RefusesWhatIsNoCutThroughTheTree) {
  const float x = 1;
  float out;
  EXPECT_THROW(completeTree<float>(4, {{0, 3}, {3, 4}}, {&x, &x}, &out, 1),
               std::invalid_argument);
  EXPECT_THROW(completeTree<float>(2, {{0, 2}, {0, 2}}, {&x, &x}, &out, 1),
               std::invalid_argument);
  EXPECT_THROW(completeTree<float>(4, {{0, 2}}, {&x}, &out, 1),
               std::invalid_argument);
}

TEST(Workspace, IsKept) {
  Workspace workspace;
  void *first = workspace.require(1000);
  EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(first) % Workspace::alignment);
  EXPECT_EQ(first, workspace.require(10));
  workspace.require(1 << 20);
  EXPECT_EQ(size_t(1) << 20, workspace.capacity());
}

} // namespace
