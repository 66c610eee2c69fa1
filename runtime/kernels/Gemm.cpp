//===- Gemm.cpp - Products whose contracted index is a tree ---------------===//
//
// Loops, outside in: groups of columns whose packed part of B fits the outer
// caches; blocks of rows whose part of A does; panels of one tile's columns;
// granules, in pieces whose part of the panel fits the first cache; tiles down
// the block. A tile's pending subtrees wait in a small stack next to those of
// the block's other tiles. The stack is a binary counter: after granule g, as
// many neighbours of equal size merge as g has trailing ones, in registers
// before the tile is stored; the end merges what is left from the right. That
// is the tree which splits at the largest power of two.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/Tile.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace mixle::runtime {

namespace {

constexpr int64_t packedBytes = 1 << 20;  // of B, in the outer caches
constexpr int64_t blockBytes = 192 << 10; // of A, in the second cache
constexpr int64_t pieceBytes = 24 << 10;  // of a panel of B, in the first cache
constexpr int64_t blockTiles = 16;        // tiles down a block of rows

/// The steps of all subtrees that the rank owns, one after the other.
/// `firstSteps` receives where each subtree begins, and the end.
std::vector<DotStep> planSteps(const Contraction &c,
                               const std::vector<Subtree> &subtrees,
                               int64_t maxLength,
                               std::vector<size_t> &firstSteps) {
  std::vector<DotStep> steps;
  int64_t packedRow = 0;
  const auto add = [&](int64_t column, int64_t runs, int64_t runLength) {
    DotStep step = {};
    step.column = column;
    step.runs = runs;
    step.runLength = runLength;
    step.packedRow = packedRow;
    packedRow += runs * runLength;
    steps.push_back(step);
  };
  for (const Subtree &subtree : subtrees) {
    firstSteps.push_back(steps.size());
    int32_t pending = 0;
    for (int64_t i = 0; i < subtree.size(); ++i) {
      const int64_t g = subtree.begin - c.firstGranule + i;
      const int64_t begin = std::min(g * c.granuleSize, c.length);
      const int64_t end = std::min(begin + c.granuleSize, c.length);
      const int64_t run = (end - begin) * c.inner;
      const size_t first = steps.size();
      const int64_t runsAtOnce =
          std::max<int64_t>(1, maxLength / std::max<int64_t>(run, 1));
      for (int64_t s = 0; run > 0 && s < c.segments; s += runsAtOnce) {
        const int64_t column = (s * c.length + begin) * c.inner;
        if (run <= maxLength)
          add(column, std::min(runsAtOnce, c.segments - s), run);
        else
          for (int64_t k = 0; k < run; k += maxLength)
            add(column + k, 1, std::min(maxLength, run - k));
      }
      if (steps.size() == first)
        add(0, 0, 0);
      for (size_t k = first; k < steps.size(); ++k) {
        steps[k].continues = k > first;
        steps[k].pending = pending;
      }
      DotStep &step = steps.back();
      step.ends = true;
      step.completes = i + 1 == subtree.size();
      step.merges = 0;
      while (!step.completes && (i >> step.merges & 1))
        ++step.merges;
      if (step.completes)
        step.merges = pending;
      pending += 1 - step.merges;
    }
  }
  firstSteps.push_back(steps.size());
  return steps;
}

/// Copies `width` columns of B from `column` on, in the order of the chains,
/// into [K][tile columns], zeros behind them.
template <typename T>
void packPanel(const std::vector<DotStep> &steps, int64_t runStride, const T *b,
               int64_t ldb, bool transposeB, int64_t column, int64_t width,
               int64_t tileColumns, T *panel) {
  for (const DotStep &step : steps)
    for (int64_t r = 0; r < step.runs; ++r) {
      const int64_t k0 = step.column + r * runStride;
      T *to = panel + (step.packedRow + r * step.runLength) * tileColumns;
      if (transposeB) {
        for (int64_t j = 0; j < width; ++j) {
          const T *from = b + (column + j) * ldb + k0;
          for (int64_t k = 0; k < step.runLength; ++k)
            to[k * tileColumns + j] = from[k];
        }
        for (int64_t k = 0; width < tileColumns && k < step.runLength; ++k)
          std::fill(to + k * tileColumns + width, to + (k + 1) * tileColumns,
                    T(0));
        continue;
      }
      for (int64_t k = 0; k < step.runLength; ++k, to += tileColumns) {
        std::memcpy(to, b + (k0 + k) * ldb + column, width * sizeof(T));
        if (width < tileColumns)
          std::fill(to + width, to + tileColumns, T(0));
      }
    }
}

/// One subtree of one block of rows and one panel.
template <typename T> struct PanelJob {
  const TileKernels<T> *kernels;
  const DotStep *steps;
  int64_t stepCount;
  int64_t runStride;
  const T *a;
  int64_t lda;
  int64_t rows; ///< of the block
  const T *panel;
  T *state; ///< per tile: `slots` tiles
  int64_t slots;
  T *out;
  int64_t ldOut;
  int64_t columns;

  /// Takes as many steps at once as keep their part of the panel in the first
  /// cache.
  void run(int64_t maxLength) const {
    for (int64_t first = 0; first < stepCount;) {
      int64_t length = 0, last = first;
      do {
        length += steps[last].runs * steps[last].runLength;
        ++last;
      } while (last < stepCount &&
               length + steps[last].runs * steps[last].runLength <= maxLength);
      const int64_t tileSize = kernels->rows * kernels->columns;
      for (int64_t row = 0; row < rows; row += kernels->rows) {
        const int64_t tileRows = std::min<int64_t>(kernels->rows, rows - row);
        DotTileArgs<T> args;
        args.steps = steps + first;
        args.stepCount = last - first;
        args.runStride = runStride;
        args.a = a + row * lda;
        args.lda = lda;
        args.panel = panel;
        args.stack = state + row / kernels->rows * slots * tileSize;
        args.out = out + row * ldOut;
        args.ldOut = ldOut;
        args.columns = columns;
        kernels->dot[tileRows](args);
      }
      first = last;
    }
  }
};

} // namespace

template <typename T>
void dotTree(const Contraction &contraction, int64_t rows, int64_t columns,
             const T *a, int64_t lda, const T *b, int64_t ldb, bool transposeB,
             T *out, int64_t ldOut, int64_t slotStride, Workspace &workspace,
             Isa isa) {
  const Contraction &c = contraction;
  if (rows <= 0 || columns <= 0 || c.ownedGranules <= 0)
    return;
  const TileKernels<T> &kernels = tileKernels<T>(isa);
  const int64_t extent = c.extent();
  const int64_t tileColumns = kernels.columns;
  const int64_t tileSize = kernels.rows * tileColumns;
  const std::vector<Subtree> subtrees =
      maximalSubtrees(c.firstGranule, c.firstGranule + c.ownedGranules,
                      c.granules);
  const int64_t maxLength = pieceBytes / int64_t(sizeof(T)) / tileColumns;
  std::vector<size_t> firstSteps;
  const std::vector<DotStep> steps =
      planSteps(c, subtrees, maxLength, firstSteps);

  int64_t slots = 2;
  for (int64_t n = c.ownedGranules; n > 1; n /= 2)
    ++slots;
  const int64_t panelSize = std::max<int64_t>(extent, 1) * tileColumns;
  const int64_t panels = std::max<int64_t>(
      1, std::min((columns + tileColumns - 1) / tileColumns,
                  packedBytes / (panelSize * int64_t(sizeof(T)))));
  const int64_t blockRows =
      kernels.rows *
      std::clamp<int64_t>(blockBytes / int64_t(sizeof(T)) /
                              std::max<int64_t>(extent, 1) / kernels.rows,
                          4, blockTiles);
  const size_t packedSize = Workspace::aligned(panels * panelSize * sizeof(T));
  char *memory = static_cast<char *>(workspace.require(
      packedSize + blockTiles * slots * tileSize * sizeof(T)));
  T *packed = reinterpret_cast<T *>(memory);
  T *state = reinterpret_cast<T *>(memory + packedSize);
  const int64_t runStride = c.length * c.inner;

  for (int64_t group = 0; group < columns; group += panels * tileColumns) {
    const int64_t groupEnd = std::min(columns, group + panels * tileColumns);
    for (int64_t n = group; n < groupEnd; n += tileColumns)
      packPanel(steps, runStride, b, ldb, transposeB, n,
                std::min(tileColumns, columns - n), tileColumns,
                packed + (n - group) / tileColumns * panelSize);
    for (int64_t m = 0; m < rows; m += blockRows)
      for (int64_t n = group; n < groupEnd; n += tileColumns)
        for (size_t t = 0; t < subtrees.size(); ++t) {
          PanelJob<T> job;
          job.kernels = &kernels;
          job.steps = steps.data() + firstSteps[t];
          job.stepCount = firstSteps[t + 1] - firstSteps[t];
          job.runStride = runStride;
          job.a = a + m * lda;
          job.lda = lda;
          job.rows = std::min(blockRows, rows - m);
          job.panel = packed + (n - group) / tileColumns * panelSize;
          job.state = state;
          job.slots = slots;
          job.out = out + t * slotStride + m * ldOut + n;
          job.ldOut = ldOut;
          job.columns = std::min(tileColumns, columns - n);
          job.run(maxLength);
        }
  }
}

namespace {

/// Evaluates a tree over some leaves for a short stretch of elements.
template <typename T> struct TreeEvaluator {
  static constexpr int64_t stretch = 512;
  const std::vector<Subtree> &leaves;
  const std::vector<const T *> &partials;
  size_t next = 0;

  void evaluate(int64_t lo, int64_t n, int64_t offset, int64_t count, T *to) {
    if (next < leaves.size() && leaves[next] == Subtree{lo, lo + n}) {
      std::copy_n(partials[next++] + offset, count, to);
      return;
    }
    if (n <= 1)
      throw std::invalid_argument(
          "completeTree: no partial is a subtree that starts at granule " +
          std::to_string(lo));
    const int64_t left = treeSplit(n);
    evaluate(lo, left, offset, count, to);
    T right[stretch];
    evaluate(lo + left, n - left, offset, count, right);
    for (int64_t i = 0; i < count; ++i)
      to[i] = to[i] + right[i];
  }
};

} // namespace

template <typename T>
void completeTree(int64_t granules, const std::vector<Subtree> &leaves,
                  const std::vector<const T *> &partials, T *out,
                  int64_t count) {
  TreeEvaluator<T> evaluator{leaves, partials};
  constexpr int64_t stretch = TreeEvaluator<T>::stretch;
  T result[stretch];
  for (int64_t i = 0; i < count; i += stretch) {
    const int64_t n = std::min(stretch, count - i);
    evaluator.next = 0;
    evaluator.evaluate(0, granules, i, n, result);
    if (evaluator.next != leaves.size())
      throw std::invalid_argument(
          "completeTree: more partials than subtrees of the tree");
    std::copy_n(result, n, out + i);
  }
}

#define MIXLE_INSTANTIATE(T)                                                   \
  template void dotTree<T>(const Contraction &, int64_t, int64_t, const T *,   \
                           int64_t, const T *, int64_t, bool, T *, int64_t,    \
                           int64_t, Workspace &, Isa);                         \
  template void completeTree<T>(int64_t, const std::vector<Subtree> &,         \
                                const std::vector<const T *> &, T *, int64_t);
MIXLE_INSTANTIATE(float)
MIXLE_INSTANTIATE(double)
#undef MIXLE_INSTANTIATE

} // namespace mixle::runtime
