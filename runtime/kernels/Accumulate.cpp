//===- Accumulate.cpp - Sums over data, as integers -----------------------===//
//
// A tile of the accumulator stays in the first cache while all blocks of a stretch of
// tokens pass: adding to 8-byte integers once per block would otherwise move more
// bytes than the product itself. x and y are packed for the stretch, in the order in
// which tiles read them.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/TileScalar.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace mixle::runtime {

namespace {

constexpr int64_t stretchTokens = 1024;
constexpr int64_t groupColumns = 512; // of y, packed at once
constexpr int64_t groupRows = 48;     // of x, packed at once

/// Copies `width` columns of some rows into [rows][stride], zeros behind them.
template <typename T>
void packColumns(const T *from, int64_t ld, int64_t rows, int64_t width,
                 int64_t stride, T *to) {
  if (width == stride) {
    for (int64_t t = 0; t < rows; ++t, from += ld, to += stride)
      for (int64_t i = 0; i < width; ++i)
        to[i] = from[i];
    return;
  }
  for (int64_t t = 0; t < rows; ++t, from += ld, to += stride) {
    for (int64_t i = 0; i < width; ++i)
      to[i] = from[i];
    for (int64_t i = width; i < stride; ++i)
      to[i] = T(0);
  }
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
  const int64_t longest = std::max<int64_t>(
      stretchTokens, std::min(tokens.blockLength, tokens.tokensPerSequence));
  const size_t packedY = Workspace::aligned(columnsAtOnce * longest * sizeof(T));
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
      for (int64_t c = n0; c < n1; c += tileColumns)
        packColumns(ys + c, ldy, length, std::min(tileColumns, n1 - c),
                    tileColumns, yPanels + (c - n0) * length);
      for (int64_t k0 = 0; k0 < k; k0 += rowsAtOnce) {
        const int64_t k1 = std::min(k, k0 + rowsAtOnce);
        for (int64_t r = k0; r < k1; r += kernels.rows) {
          const int64_t width = std::min<int64_t>(kernels.rows, k1 - r);
          packColumns(xs + r, ldx, length, width, width,
                      xPanels + (r - k0) * length);
        }
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
                       const Accumulator<T> &accumulator,
                       int64_t ldAccumulator, Isa isa) {
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
  // The same unit again means more than 2^24 blocks: nothing finer would be safe.
  if (-unit == scaleExponent)
    return {UnitDecision::keep, scaleExponent};
  return {UnitDecision::rerun, -unit};
}

#define MIXLE_INSTANTIATE(T)                                                   \
  template void accumulateDot<T>(const TokenBlocks &, int64_t, int64_t,        \
                                 const T *, int64_t, const T *, int64_t,       \
                                 const Accumulator<T> &, int64_t, Workspace &, \
                                 Isa);                                         \
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
