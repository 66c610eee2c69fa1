//===- AttentionPortable.cpp - Attention in plain C++ ---------------------===//
//
// For processors without AVX2 and FMA: the same tiles on short arrays.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/AttentionKernels.h"
#include "runtime/kernels/AttentionScalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

namespace mixle::runtime::detail::portable {
namespace {

#include "runtime/kernels/AttentionTiles.inc"

template <typename Element> struct Vector {
  using T = Element;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr int W = 4, MR = 2, B = 4;
  struct Reg {
    T lane[W];
  };

  template <class F> MIXLE_LANEWISE Reg map(F f) {
    Reg r;
    for (int i = 0; i < W; ++i)
      r.lane[i] = f(i);
    return r;
  }
  MIXLE_LANEWISE Reg load(const T *p) {
    return map([&](int i) { return p[i]; });
  }
  MIXLE_LANEWISE void store(T *p, Reg a) { std::memcpy(p, a.lane, sizeof(a)); }
  MIXLE_LANEWISE Reg set1(T x) {
    return map([&](int) { return x; });
  }
  MIXLE_LANEWISE Reg add(Reg a, Reg b) {
    return map([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  MIXLE_LANEWISE Reg sub(Reg a, Reg b) {
    return map([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  MIXLE_LANEWISE Reg mul(Reg a, Reg b) {
    return map([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  MIXLE_LANEWISE Reg div(Reg a, Reg b) {
    return map([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  MIXLE_LANEWISE Reg fma(Reg a, Reg b, Reg c) {
    return map(
        [&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  MIXLE_LANEWISE T fmaOne(T a, T b, T c) { return std::fma(a, b, c); }
  MIXLE_LANEWISE Reg max(Reg a, Reg b) {
    return map(
        [&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  MIXLE_LANEWISE Reg pow2(Reg shifted) {
    return map([&](int i) {
      Bits bits;
      std::memcpy(&bits, &shifted.lane[i], sizeof(bits));
      bits <<= std::numeric_limits<T>::digits - 1;
      T result;
      std::memcpy(&result, &bits, sizeof(result));
      return result;
    });
  }
  MIXLE_LANEWISE Reg dropBelow(Reg x, Reg bound, Reg y) {
    return map(
        [&](int i) { return x.lane[i] < bound.lane[i] ? T(0) : y.lane[i]; });
  }
  MIXLE_LANEWISE Reg firstLanes(int64_t n, Reg x, Reg other) {
    return map([&](int i) { return i < n ? x.lane[i] : other.lane[i]; });
  }
  MIXLE_LANEWISE T maxLanes(Reg a) {
    T top = a.lane[0];
    for (int i = 1; i < W; ++i)
      top = a.lane[i] > top ? a.lane[i] : top;
    return top;
  }
  MIXLE_LANEWISE T addLanes(const Reg (&a)[16 / W]) {
    T lane[16];
    std::memcpy(lane, a, sizeof(lane));
    for (int w = 8; w > 0; w /= 2)
      for (int i = 0; i < w; ++i)
        lane[i] += lane[i + w];
    return lane[0];
  }
  MIXLE_LANEWISE void transposeBlock(const T *from, int64_t stride, T *to,
                                     int64_t ldt) {
    for (int i = 0; i < B; ++i)
      for (int j = 0; j < B; ++j)
        to[i * ldt + j] = from[j * stride + i];
  }
};

#include "runtime/kernels/AttentionForward.inc"

#include "runtime/kernels/AttentionBackward.inc"

} // namespace

#define VECTOR(T) Vector<T>
#include "runtime/kernels/AttentionEntry.inc"

} // namespace mixle::runtime::detail::portable
