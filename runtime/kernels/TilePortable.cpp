//===- TilePortable.cpp - Microkernels on scalars -------------------------===//

#include "runtime/kernels/Tile.h"
#include "runtime/kernels/TileScalar.h"

#include <cmath>
#include <cstdint>

namespace mixle::runtime {
namespace {

#include "runtime/kernels/TileKernels.inc"

template <typename Element> struct Scalar {
  using T = Element;
  using Vec = T;
  static constexpr int width = 1, rows = 4, vectors = 2;
  static Vec zero() { return 0; }
  static Vec load(const T *p) { return *p; }
  static void store(T *p, Vec v) { *p = v; }
  static Vec broadcast(const T *p) { return *p; }
  static Vec fma(Vec a, Vec b, Vec c) { return std::fma(a, b, c); }
  static Vec add(Vec a, Vec b) { return a + b; }

  using Max = BitsOf<T>;
  static Max noMax() { return 0; }
  static Max maxOf(Max m, Vec v) {
    raiseMaximum<T>(&m, magnitudeBits(v));
    return m;
  }
  static BitsOf<T> reduceMax(Max m) { return m; }

  using Scale = double;
  static Scale makeScale(double scale) { return scale; }
  static void addRounded(int64_t *high, int64_t *low, Vec v, Scale scale) {
    addRoundedOne<T>(high, low, v, scale);
  }
};

} // namespace

template <> const TileKernels<float> &detail::portableTileKernels<float>() {
  static const TileKernels<float> table = makeTable<Scalar<float>>();
  return table;
}
template <> const TileKernels<double> &detail::portableTileKernels<double>() {
  static const TileKernels<double> table = makeTable<Scalar<double>>();
  return table;
}

template <typename T> const TileKernels<T> &tileKernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512)
    return detail::avx512TileKernels<T>();
  if (isa == Isa::avx2)
    return detail::avx2TileKernels<T>();
#endif
  return detail::portableTileKernels<T>();
}
template const TileKernels<float> &tileKernels<float>(Isa);
template const TileKernels<double> &tileKernels<double>(Isa);

} // namespace mixle::runtime
