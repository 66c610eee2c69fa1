//===- TileAvx512.cpp - Microkernels with AVX-512 -------------------------===//

#include "runtime/kernels/Tile.h"
#include "runtime/kernels/TileScalar.h"

#if defined(__x86_64__)

#include <cmath>
#include <cstdint>
#include <immintrin.h>

// Behind every include: inline functions of headers must stay fit for all
// processors, since the linker keeps one copy of them.
#pragma GCC push_options
// GCC 12 warns about its own _mm512_undefined_*.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")

namespace mixle::runtime {
namespace {

#include "runtime/kernels/TileKernels.inc"

inline void addToMemory(int64_t *p, __m512i v) {
  _mm512_storeu_si512(p, _mm512_add_epi64(_mm512_loadu_si512(p), v));
}

struct Avx512Float {
  using T = float;
  using Vec = __m512;
  static constexpr int width = 16, rows = 14, vectors = 2;
  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec load(const T *p) { return _mm512_loadu_ps(p); }
  static void store(T *p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec broadcast(const T *p) { return _mm512_set1_ps(*p); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }

  using Max = __m512i;
  static Max noMax() { return _mm512_setzero_si512(); }
  static Max maxOf(Max m, Vec v) {
    return _mm512_max_epu32(m, _mm512_and_si512(_mm512_castps_si512(v),
                                                _mm512_set1_epi32(0x7fffffff)));
  }
  static uint32_t reduceMax(Max m) { return _mm512_reduce_max_epu32(m); }

  // Multiplying by a power of two in float is exact but for results below
  // 2^-126, which round to zero either way.
  using Scale = __m512;
  static Scale makeScale(double scale) {
    return _mm512_set1_ps(static_cast<float>(scale));
  }
  static __m512i rounded(__m256 v) {
    return _mm512_cvt_roundps_epi64(v, _MM_FROUND_TO_NEAREST_INT |
                                           _MM_FROUND_NO_EXC);
  }
  static void addRounded(int64_t *high, int64_t *, Vec v, Scale scale) {
    const __m512 scaled = _mm512_mul_ps(v, scale);
    addToMemory(high, rounded(_mm512_castps512_ps256(scaled)));
    addToMemory(high + 8, rounded(_mm512_extractf32x8_ps(scaled, 1)));
  }
};

struct Avx512Double {
  using T = double;
  using Vec = __m512d;
  static constexpr int width = 8, rows = 14, vectors = 2;
  static Vec zero() { return _mm512_setzero_pd(); }
  static Vec load(const T *p) { return _mm512_loadu_pd(p); }
  static void store(T *p, Vec v) { _mm512_storeu_pd(p, v); }
  static Vec broadcast(const T *p) { return _mm512_set1_pd(*p); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm512_add_pd(a, b); }

  using Max = __m512i;
  static Max noMax() { return _mm512_setzero_si512(); }
  static Max maxOf(Max m, Vec v) {
    return _mm512_max_epu64(
        m, _mm512_and_si512(_mm512_castpd_si512(v),
                            _mm512_set1_epi64(0x7fffffffffffffff)));
  }
  static uint64_t reduceMax(Max m) { return _mm512_reduce_max_epu64(m); }

  using Scale = __m512d;
  static Scale makeScale(double scale) { return _mm512_set1_pd(scale); }
  static void addRounded(int64_t *high, int64_t *low, Vec v, Scale scale) {
    const __m512d magic = _mm512_set1_pd(math::roundMagic);
    const __m512i magicBits = _mm512_set1_epi64(roundMagicBits);
    const __m512d scaled = _mm512_mul_pd(v, scale);
    const __m512d shifted = _mm512_add_pd(scaled, magic);
    addToMemory(high,
                _mm512_sub_epi64(_mm512_castpd_si512(shifted), magicBits));
    const __m512d rest = _mm512_sub_pd(scaled, _mm512_sub_pd(shifted, magic));
    const __m512d shiftedRest =
        _mm512_fmadd_pd(rest, _mm512_set1_pd(0x1p32), magic);
    addToMemory(low,
                _mm512_sub_epi64(_mm512_castpd_si512(shiftedRest), magicBits));
  }
};

} // namespace

template <> const TileKernels<float> &detail::avx512TileKernels<float>() {
  static const TileKernels<float> table = makeTable<Avx512Float>();
  return table;
}
template <> const TileKernels<double> &detail::avx512TileKernels<double>() {
  static const TileKernels<double> table = makeTable<Avx512Double>();
  return table;
}

} // namespace mixle::runtime

#pragma GCC pop_options

#endif // __x86_64__
