//===- Accumulate.h - Sums over data, as integers ---------------*- C++ -*-===//
//
// Gradients and sufficient statistics are added as integers (docs/numerics.md):
// a block of tokens gives one FMA chain per element; the chain's result times a
// power of two, rounded to nearest, is added to a 64-bit integer. Integer
// addition is associative, so any split of the blocks over calls, microbatches,
// threads and ranks gives the same sum, and all_reduce may take any order.
//
// float: one limb, high += rint(2^e x).
// double: two limbs, high += rint(2^e x), low += rint((2^e x - rint(2^e x))
// 2^32).
//   |low| <= 2^31 per block, so 2^32 blocks cannot overflow it. Additions wrap.
// The scale exponent e is within -126 to 126; the unit is u = 2^-e.
//
// Infinity and NaN add nothing, and values beyond 2^62 units are clamped to
// that; both show in amax, and decideUnit then asks for a rerun or reports the
// error.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_ACCUMULATE_H
#define MIXLE_RUNTIME_KERNELS_ACCUMULATE_H

#include "runtime/kernels/Isa.h"
#include "runtime/kernels/Tile.h"
#include "runtime/kernels/Workspace.h"

#include <cstdint>
#include <limits>

namespace mixle::runtime {

constexpr int32_t minScaleExponent = -126;
constexpr int32_t maxScaleExponent = 126;

/// One parameter's accumulator, or a piece of it.
/// `amax` is raised to the largest magnitude of a block result, as a bit
/// pattern (which orders like the magnitude; infinity and NaN lie above all
/// numbers).
template <typename T> struct Accumulator {
  int64_t *high = nullptr;
  int64_t *low = nullptr; ///< the second limb; null for float
  int32_t scaleExponent = 0;
  BitsOf<T> *amax = nullptr;
};

/// How tokens are cut: within each sequence into blocks of blockLength, the
/// last one shorter.
struct TokenBlocks {
  int64_t sequences = 0;
  int64_t tokensPerSequence = 0;
  int64_t blockLength = 0;
};

/// acc[k, n] += rounded sum over t of x[t, k] y[t, n], block by block. `x` has
/// sequences * tokensPerSequence rows of k elements, ldx apart; y of n, ldy
/// apart; the accumulator k rows, ldAccumulator apart. Throws std::bad_alloc.
template <typename T>
void accumulateDot(const TokenBlocks &tokens, int64_t k, int64_t n, const T *x,
                   int64_t ldx, const T *y, int64_t ldy,
                   const Accumulator<T> &accumulator, int64_t ldAccumulator,
                   Workspace &workspace, Isa isa = bestIsa());

/// acc[n] += rounded x[t, n] for every row t: blocks of one token.
template <typename T>
void accumulateRows(int64_t rows, int64_t columns, const T *x, int64_t ldx,
                    const Accumulator<T> &accumulator, Isa isa = bestIsa());

/// acc[ids[t] - firstRow, :] += rounded x[t, :] for the t whose id lies within
/// firstRow to firstRow + rows; others are another rank's.
template <typename T>
void accumulateScatter(int64_t tokens, int64_t columns, const int32_t *ids,
                       int64_t firstRow, int64_t rows, const T *x, int64_t ldx,
                       const Accumulator<T> &accumulator, int64_t ldAccumulator,
                       Isa isa = bestIsa());

/// out[i] = ((T)acc[i] 2^-e) / denominator. The integer (for double, high + low
/// 2^-32) is rounded to T once; multiplying by 2^-e is exact, as the result is
/// at least 2^-158 where it is not zero, unless it exceeds the range of T; then
/// one division.
template <typename T>
void resolve(int64_t count, const int64_t *high, const int64_t *low,
             int32_t scaleExponent, T denominator, T *out);

/// A unit that was never chosen: the state before the first step.
constexpr int32_t unsetScaleExponent = std::numeric_limits<int32_t>::min();

struct UnitDecision {
  enum Action {
    keep,      ///< commit; the unit stays
    rerun,     ///< run the gradient phase again with scaleExponent
    nonFinite, ///< a block result is infinite or NaN: no commit
    outOfRange ///< sums of double exceed 2^188: no unit holds them, no commit
  };
  Action action;
  int32_t scaleExponent; ///< in force from now on
};

/// Judges the unit u = 2^-scaleExponent of one parameter after a step's
/// gradient phase. `amax`: of all uses, shards and stages of the step;
/// `maxBlocks`: the most blocks that a step can have. Rerun if unset, if
/// maxBlocks * amax > 2^62 u or if amax < 2^25 u while u > 2^-126. The new unit
/// is the smallest power of two with maxBlocks * amax * margin <= 2^62 u,
/// margin 2^12, or 2^8 for one-token blocks. An amax of zero keeps the unit, an
/// unset one too: the sums are zero in any unit.
template <typename T>
UnitDecision decideUnit(int32_t scaleExponent, BitsOf<T> amax,
                        uint64_t maxBlocks, bool oneTokenBlocks);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_ACCUMULATE_H
