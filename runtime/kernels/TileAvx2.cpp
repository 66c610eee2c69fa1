//===- TileAvx2.cpp - Microkernels with AVX2 and FMA ----------------------===//

#include "runtime/kernels/Tile.h"
#include "runtime/kernels/TileScalar.h"

#if defined(__x86_64__)

#include <cmath>
#include <cstdint>
#include <immintrin.h>

// Behind every include: inline functions of headers must stay fit for all
// processors, since the linker keeps one copy of them.
#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace mixle::runtime {
namespace {

#include "runtime/kernels/TileKernels.inc"

inline void addToMemory(int64_t *p, __m256i v) {
  __m256i *at = reinterpret_cast<__m256i *>(p);
  _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), v));
}

struct Avx2Float {
  using T = float;
  using Vec = __m256;
  static constexpr int width = 8, rows = 6, vectors = 2;
  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec load(const T *p) { return _mm256_loadu_ps(p); }
  static void store(T *p, Vec v) { _mm256_storeu_ps(p, v); }
  static Vec broadcast(const T *p) { return _mm256_broadcast_ss(p); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }

  using Max = __m256i;
  static Max noMax() { return _mm256_setzero_si256(); }
  static Max maxOf(Max m, Vec v) {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
    return _mm256_max_epu32(m, magnitude);
  }
  static uint32_t reduceMax(Max m) {
    __m128i h = _mm_max_epu32(_mm256_castsi256_si128(m),
                              _mm256_extracti128_si256(m, 1));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(h));
  }

  // There is no packed conversion to int64: floats become doubles, exactly, and
  // adding the magic number leaves the rounded product in the low bits.
  using Scale = __m256d;
  static Scale makeScale(double scale) { return _mm256_set1_pd(scale); }
  static void addHalf(int64_t *high, __m128 v, Scale scale) {
    const __m256d shifted = _mm256_fmadd_pd(_mm256_cvtps_pd(v), scale,
                                            _mm256_set1_pd(math::roundMagic));
    addToMemory(high, _mm256_sub_epi64(_mm256_castpd_si256(shifted),
                                       _mm256_set1_epi64x(roundMagicBits)));
  }
  static void addRounded(int64_t *high, int64_t *, Vec v, Scale scale) {
    addHalf(high, _mm256_castps256_ps128(v), scale);
    addHalf(high + 4, _mm256_extractf128_ps(v, 1), scale);
  }
};

struct Avx2Double {
  using T = double;
  using Vec = __m256d;
  static constexpr int width = 4, rows = 6, vectors = 2;
  static Vec zero() { return _mm256_setzero_pd(); }
  static Vec load(const T *p) { return _mm256_loadu_pd(p); }
  static void store(T *p, Vec v) { _mm256_storeu_pd(p, v); }
  static Vec broadcast(const T *p) { return _mm256_broadcast_sd(p); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm256_add_pd(a, b); }

  using Max = __m256i;
  static Max noMax() { return _mm256_setzero_si256(); }
  static Max maxOf(Max m, Vec v) {
    const __m256i magnitude = _mm256_and_si256(
        _mm256_castpd_si256(v), _mm256_set1_epi64x(0x7fffffffffffffff));
    return _mm256_blendv_epi8(m, magnitude, _mm256_cmpgt_epi64(magnitude, m));
  }
  static uint64_t reduceMax(Max m) {
    alignas(32) uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), m);
    const uint64_t a = lanes[0] > lanes[1] ? lanes[0] : lanes[1];
    const uint64_t b = lanes[2] > lanes[3] ? lanes[2] : lanes[3];
    return a > b ? a : b;
  }

  using Scale = __m256d;
  static Scale makeScale(double scale) { return _mm256_set1_pd(scale); }
  static void addRounded(int64_t *high, int64_t *low, Vec v, Scale scale) {
    const __m256d magic = _mm256_set1_pd(math::roundMagic);
    const __m256i magicBits = _mm256_set1_epi64x(roundMagicBits);
    const __m256d scaled = _mm256_mul_pd(v, scale);
    const __m256d shifted = _mm256_add_pd(scaled, magic);
    addToMemory(high,
                _mm256_sub_epi64(_mm256_castpd_si256(shifted), magicBits));
    const __m256d rest = _mm256_sub_pd(scaled, _mm256_sub_pd(shifted, magic));
    const __m256d shiftedRest =
        _mm256_fmadd_pd(rest, _mm256_set1_pd(0x1p32), magic);
    addToMemory(low,
                _mm256_sub_epi64(_mm256_castpd_si256(shiftedRest), magicBits));
  }
};

} // namespace

template <> const TileKernels<float> &detail::avx2TileKernels<float>() {
  static const TileKernels<float> table = makeTable<Avx2Float>();
  return table;
}
template <> const TileKernels<double> &detail::avx2TileKernels<double>() {
  static const TileKernels<double> table = makeTable<Avx2Double>();
  return table;
}

} // namespace mixle::runtime

#pragma GCC pop_options

#endif // __x86_64__
