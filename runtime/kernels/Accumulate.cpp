//===- Accumulate.cpp - Sums over data, as integers -----------------------===//
//
// A tile of the accumulator stays in the first cache while all blocks of a
// stretch of tokens pass: adding to 8-byte integers once per block would
// otherwise move more bytes than the product itself. x and y are packed for the
// stretch, in the order in which tiles read them.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/TileScalar.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace mixle::runtime {

namespace {

constexpr int64_t panelBytes =
    24 << 10; // of a tile's columns of y, in the first cache
constexpr int64_t groupColumns = 512; // of y, packed at once
constexpr int64_t groupRows = 96;     // of x, packed at once

/// Copies `columns` columns of `tokens` rows into panels of `width` columns,
/// [panel][tokens][width]. The last panel is padded with zeros to `width`, or
/// kept as narrow as it is. Goes over the rows in small groups: their lines are
/// then read once, although powers of two between rows map them to few sets of
/// the first cache.
template <typename T, int width>
void packPanels(const T *from, int64_t ld, int64_t tokens, int64_t columns,
                bool pad, T *to) {
  constexpr int64_t group = 8;
  const int64_t rest = columns % width;
  for (int64_t first = 0; first < tokens; first += group) {
    const int64_t last = std::min(tokens, first + group);
    T *panel = to;
    for (int64_t c = 0; c + width <= columns; c += width) {
      for (int64_t t = first; t < last; ++t)
        std::memcpy(panel + t * width, from + t * ld + c, width * sizeof(T));
      panel += tokens * width;
    }
    const int64_t stride = pad ? width : rest;
    for (int64_t t = first; rest && t < last; ++t) {
      std::copy_n(from + t * ld + columns - rest, rest, panel + t * stride);
      std::fill(panel + t * stride + rest, panel + (t + 1) * stride, T(0));
    }
  }
}

/// packPanels for a width known at run time only.
template <typename T>
void packPanelsOf(int64_t width, const T *from, int64_t ld, int64_t tokens,
                  int64_t columns, bool pad, T *to) {
  switch (width) {
  case 2:
    return packPanels<T, 2>(from, ld, tokens, columns, pad, to);
  case 4:
    return packPanels<T, 4>(from, ld, tokens, columns, pad, to);
  case 6:
    return packPanels<T, 6>(from, ld, tokens, columns, pad, to);
  case 8:
    return packPanels<T, 8>(from, ld, tokens, columns, pad, to);
  case 14:
    return packPanels<T, 14>(from, ld, tokens, columns, pad, to);
  case 16:
    return packPanels<T, 16>(from, ld, tokens, columns, pad, to);
  case 32:
    return packPanels<T, 32>(from, ld, tokens, columns, pad, to);
  }
  // A microkernel of another shape was added without its case above.
  std::abort();
}

/// Lengths of all blocks, in token order.
std::vector<int32_t> listBlocks(const TokenBlocks &tokens) {
  std::vector<int32_t> blocks;
  for (int64_t s = 0; s < tokens.sequences; ++s)
    for (int64_t t = 0; t < tokens.tokensPerSequence; t += tokens.blockLength)
      blocks.push_back(static_cast<int32_t>(
          std::min(tokens.blockLength, tokens.tokensPerSequence - t)));
  return blocks;
}

} // namespace

template <typename T>
void accumulateDot(const TokenBlocks &tokens, int64_t k, int64_t n, const T *x,
                   int64_t ldx, const T *y, int64_t ldy,
                   const Accumulator<T> &accumulator, int64_t ldAccumulator,
                   Workspace &workspace, Isa isa) {
  const TileKernels<T> &kernels = tileKernels<T>(isa);
  const std::vector<int32_t> blocks = listBlocks(tokens);
  const int64_t tileColumns = kernels.columns;
  const int64_t columnsAtOnce = groupColumns / tileColumns * tileColumns;
  const int64_t rowsAtOnce = groupRows / kernels.rows * kernels.rows;
  const int64_t stretchTokens = panelBytes / int64_t(sizeof(T)) / tileColumns;
  const int64_t longest = std::max<int64_t>(
      stretchTokens, std::min(tokens.blockLength, tokens.tokensPerSequence));
  const size_t packedY =
      Workspace::aligned(columnsAtOnce * longest * sizeof(T));
  char *memory = static_cast<char *>(
      workspace.require(packedY + rowsAtOnce * longest * sizeof(T)));
  T *yPanels = reinterpret_cast<T *>(memory);
  T *xPanels = reinterpret_cast<T *>(memory + packedY);

  int64_t firstToken = 0;
  for (size_t first = 0; first < blocks.size();) {
    size_t last = first;
    int64_t length = 0;
    while (last < blocks.size() &&
           (last == first || length + blocks[last] <= stretchTokens))
      length += blocks[last++];
    const T *xs = x + firstToken * ldx, *ys = y + firstToken * ldy;
    for (int64_t n0 = 0; n0 < n; n0 += columnsAtOnce) {
      const int64_t n1 = std::min(n, n0 + columnsAtOnce);
      packPanelsOf(tileColumns, ys + n0, ldy, length, n1 - n0, true, yPanels);
      for (int64_t k0 = 0; k0 < k; k0 += rowsAtOnce) {
        const int64_t k1 = std::min(k, k0 + rowsAtOnce);
        packPanelsOf<T>(kernels.rows, xs + k0, ldx, length, k1 - k0, false,
                        xPanels);
        for (int64_t c = n0; c < n1; c += tileColumns)
          for (int64_t r = k0; r < k1; r += kernels.rows) {
            const int64_t at = r * ldAccumulator + c;
            AccumulateTileArgs<T> args;
            args.x = xPanels + (r - k0) * length;
            args.y = yPanels + (c - n0) * length;
            args.blocks = blocks.data() + first;
            args.blockCount = static_cast<int64_t>(last - first);
            args.high = accumulator.high + at;
            args.low = accumulator.low ? accumulator.low + at : nullptr;
            args.ldAccumulator = ldAccumulator;
            args.scaleExponent = accumulator.scaleExponent;
            args.amax = accumulator.amax;
            args.columns = std::min(tileColumns, n1 - c);
            kernels.accumulate[std::min<int64_t>(kernels.rows, k1 - r)](args);
          }
      }
    }
    firstToken += length;
    first = last;
  }
}

template <typename T>
void accumulateRows(int64_t rows, int64_t columns, const T *x, int64_t ldx,
                    const Accumulator<T> &accumulator, Isa isa) {
  AccumulateRowsArgs<T> args;
  args.x = x;
  args.ldx = ldx;
  args.rows = rows;
  args.columns = columns;
  args.high = accumulator.high;
  args.low = accumulator.low;
  args.scaleExponent = accumulator.scaleExponent;
  args.amax = accumulator.amax;
  tileKernels<T>(isa).accumulateRows(args);
}

template <typename T>
void accumulateScatter(int64_t tokens, int64_t columns, const int32_t *ids,
                       int64_t firstRow, int64_t rows, const T *x, int64_t ldx,
                       const Accumulator<T> &accumulator, int64_t ldAccumulator,
                       Isa isa) {
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t row = ids[t] - firstRow;
    if (row < 0 || row >= rows)
      continue;
    Accumulator<T> target = accumulator;
    target.high += row * ldAccumulator;
    if (target.low)
      target.low += row * ldAccumulator;
    accumulateRows<T>(1, columns, x + t * ldx, ldx, target, isa);
  }
}

template <>
void resolve<float>(int64_t count, const int64_t *high, const int64_t *,
                    int32_t scaleExponent, float denominator, float *out) {
  const float scale = static_cast<float>(std::ldexp(1.0, -scaleExponent));
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(high[i]) * scale / denominator;
}

template <>
void resolve<double>(int64_t count, const int64_t *high, const int64_t *low,
                     int32_t scaleExponent, double denominator, double *out) {
  const double scale = std::ldexp(1.0, -scaleExponent - lowLimbBits);
  for (int64_t i = 0; i < count; ++i) {
    const __int128 sum =
        static_cast<__int128>(high[i]) * (int64_t(1) << lowLimbBits) + low[i];
    out[i] = static_cast<double>(sum) * scale / denominator;
  }
}

namespace {

/// The smallest c with value <= 2^c, for value > 0.
int ceilLog2(unsigned __int128 value) {
  int c = 0;
  --value;
  while (value) {
    ++c;
    value >>= 1;
  }
  return c;
}

template <typename T> double fromBits(BitsOf<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

} // namespace

template <typename T>
UnitDecision decideUnit(int32_t scaleExponent, BitsOf<T> amaxBits,
                        uint64_t maxBlocks, bool oneTokenBlocks) {
  if (amaxBits >= infinityBits<T>())
    return {UnitDecision::nonFinite, scaleExponent};
  if (amaxBits == 0)
    return {UnitDecision::keep, scaleExponent};

  // amax = significand 2^exponent exactly, and maxBlocks amax <= 2^bound.
  int exponent;
  const double fraction = std::frexp(fromBits<T>(amaxBits), &exponent);
  const uint64_t significand = static_cast<uint64_t>(std::ldexp(fraction, 53));
  const int bound =
      exponent - 53 +
      ceilLog2(static_cast<unsigned __int128>(significand) * maxBlocks);
  const int floorLog2 = exponent - 1;

  if (scaleExponent != unsetScaleExponent) {
    const int unit = -scaleExponent;
    const bool tooLarge = bound > 62 + unit;
    const bool tooCoarse =
        floorLog2 < 25 + unit && scaleExponent < maxScaleExponent;
    if (!tooLarge && !tooCoarse)
      return {UnitDecision::keep, scaleExponent};
  }
  const int margin = oneTokenBlocks ? 8 : 12;
  const int unit =
      std::clamp(bound + margin - 62, -maxScaleExponent, -minScaleExponent);
  if (bound > 62 + unit)
    return {UnitDecision::outOfRange, scaleExponent};
  // The same unit again means more than 2^24 blocks: nothing finer would be
  // safe.
  if (-unit == scaleExponent)
    return {UnitDecision::keep, scaleExponent};
  return {UnitDecision::rerun, -unit};
}

#define MIXLE_INSTANTIATE(T)                                                   \
  template void accumulateDot<T>(                                              \
      const TokenBlocks &, int64_t, int64_t, const T *, int64_t, const T *,    \
      int64_t, const Accumulator<T> &, int64_t, Workspace &, Isa);             \
  template void accumulateRows<T>(int64_t, int64_t, const T *, int64_t,        \
                                  const Accumulator<T> &, Isa);                \
  template void accumulateScatter<T>(int64_t, int64_t, const int32_t *,        \
                                     int64_t, int64_t, const T *, int64_t,     \
                                     const Accumulator<T> &, int64_t, Isa);    \
  template UnitDecision decideUnit<T>(int32_t, BitsOf<T>, uint64_t, bool);
MIXLE_INSTANTIATE(float)
MIXLE_INSTANTIATE(double)
#undef MIXLE_INSTANTIATE

} // namespace mixle::runtime
