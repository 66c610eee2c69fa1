//===- Tile.h - Microkernels of products and accumulations ------*- C++ -*-===//
//
// The interface between the drivers (Gemm.cpp, Accumulate.cpp) and the
// microkernels, which are instantiated once per instruction set
// (TilePortable.cpp, TileAvx2.cpp, TileAvx512.cpp) from one template
// (TileKernels.inc). A tile holds `rows` by `columns` elements in registers,
// each of which is one FMA chain, so its shape never shows in the bits.
//
// Why no libxsmm: its fp32 tiles turned out to be chains on AVX2 too (every
// shape that bench/kernels tries), but gain too little. On one Zen 3 core with
// a peak of 103 GFLOP/s these kernels reach 83 to 97, packing B inside the
// call; libxsmm's best tile (32 columns) reaches 89 to 101, its others 60 to
// 98, with B packed in advance. Ours are chains by construction, add the tree's
// partials while a tile is in registers, round to integers there, and generate
// no code at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_TILE_H
#define MIXLE_RUNTIME_KERNELS_TILE_H

#include "runtime/kernels/Isa.h"

#include <cstdint>

namespace mixle::runtime {

/// The unsigned integer that holds the bits of a T.
template <typename T> struct FloatBits;
template <> struct FloatBits<float> { using type = uint32_t; };
template <> struct FloatBits<double> { using type = uint64_t; };
template <typename T> using BitsOf = typename FloatBits<T>::type;

/// Consecutive columns of a granule in a tile of C = A B: continue or start
/// chains over `runs` runs of `runLength` columns of A; where the granule ends,
/// add pending tiles on the left and put the result on the stack of pending
/// tiles, or out.
struct DotStep {
  int64_t column;    ///< of A, where the first run starts
  int64_t runs;      ///< number of runs, may be 0
  int64_t runLength; ///< columns in a run
  int64_t packedRow; ///< of the packed panel of B
  bool continues;    ///< the granule began in an earlier step
  bool ends;         ///< the granule ends here
  bool completes;    ///< so does the subtree: the result goes out
  int32_t pending;   ///< tiles on the stack before this step
  int32_t merges;    ///< of which so many are added, from the top down
};

/// Steps of one tile. A chain that is open between two calls waits on the
/// stack.
template <typename T> struct DotTileArgs {
  const DotStep *steps;
  int64_t stepCount;
  int64_t runStride; ///< columns of A between runs
  const T *a;        ///< first row
  int64_t lda;
  const T *panel; ///< [packed rows][columns of a tile], zero padded
  T *stack;       ///< tiles of [rows of a full tile][columns of a tile]
  T *out;
  int64_t ldOut;
  int64_t columns; ///< columns to put out
};

/// One tile of an accumulation: for each block, chains over its tokens, then
/// the rounded results into the accumulator.
template <typename T> struct AccumulateTileArgs {
  const T *x;            ///< packed: [tokens][rows of the tile]
  const T *y;            ///< packed: [tokens][columns], zero padded
  const int32_t *blocks; ///< tokens in each block
  int64_t blockCount;
  int64_t *high; ///< accumulator; the high limb for double
  int64_t *low;  ///< the low limb for double, else null
  int64_t ldAccumulator;
  int32_t scaleExponent;
  BitsOf<T> *amax;
  int64_t columns; ///< columns to store
};

/// Rows added one by one: high[n] += rint(2^scaleExponent x[t,n]).
template <typename T> struct AccumulateRowsArgs {
  const T *x;
  int64_t ldx;
  int64_t rows;
  int64_t columns;
  int64_t *high;
  int64_t *low;
  int32_t scaleExponent;
  BitsOf<T> *amax;
};

constexpr int maxTileRows = 14;

template <typename T> struct TileKernels {
  int rows;    ///< rows of a full tile
  int columns; ///< columns of a tile
  /// Indexed by the rows of the tile, 1 to `rows`.
  void (*dot[maxTileRows + 1])(const DotTileArgs<T> &);
  void (*accumulate[maxTileRows + 1])(const AccumulateTileArgs<T> &);
  void (*accumulateRows)(const AccumulateRowsArgs<T> &);
};

/// The kernels for an instruction set that the machine supports.
template <typename T> const TileKernels<T> &tileKernels(Isa isa);

namespace detail {
template <typename T> const TileKernels<T> &portableTileKernels();
template <typename T> const TileKernels<T> &avx2TileKernels();
template <typename T> const TileKernels<T> &avx512TileKernels();
} // namespace detail

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_TILE_H
