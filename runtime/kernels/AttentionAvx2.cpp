//===- AttentionAvx2.cpp - Attention with AVX2 and FMA --------------------===//

#include "runtime/kernels/AttentionKernels.h"

#if defined(__x86_64__)

#include "runtime/kernels/AttentionScalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <iterator>
#include <limits>

// Behind every include: library code compiled here must stay fit for all
// processors, since the linker keeps one copy of it.
#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace mixle::runtime::detail::avx2 {
namespace {

#include "runtime/kernels/AttentionTiles.inc"

#include "runtime/kernels/AttentionTranspose.inc"

template <typename Element> struct Vector;

template <> struct Vector<float> {
  using T = float;
  using Reg = __m256;
  static constexpr int W = 8, MR = 6, B = 8;

  MIXLE_LANEWISE Reg load(const T *p) { return _mm256_loadu_ps(p); }
  MIXLE_LANEWISE void store(T *p, Reg a) { _mm256_storeu_ps(p, a); }
  MIXLE_LANEWISE Reg set1(T x) { return _mm256_set1_ps(x); }
  MIXLE_LANEWISE Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  MIXLE_LANEWISE Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  MIXLE_LANEWISE Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  MIXLE_LANEWISE Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  MIXLE_LANEWISE Reg fma(Reg a, Reg b, Reg c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  MIXLE_LANEWISE T fmaOne(T a, T b, T c) { return __builtin_fmaf(a, b, c); }
  MIXLE_LANEWISE Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  MIXLE_LANEWISE Reg pow2(Reg shifted) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
  }
  MIXLE_LANEWISE Reg dropBelow(Reg x, Reg bound, Reg y) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, bound, _CMP_LT_OQ), y);
  }
  MIXLE_LANEWISE Reg firstLanes(int64_t n, Reg x, Reg other) {
    const Reg lane = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_blendv_ps(other, x,
                            _mm256_cmp_ps(lane, set1(T(n)), _CMP_LT_OQ));
  }
  MIXLE_LANEWISE T maxLanes(Reg a) {
    __m128 b =
        _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }
  MIXLE_LANEWISE T addLanes(const Reg (&a)[2]) {
    Reg eight = add(a[0], a[1]);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(eight),
                          _mm256_extractf128_ps(eight, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }
  MIXLE_LANEWISE void transposeBlock(const T *from, int64_t stride, T *to,
                                     int64_t ldt) {
    transpose8x8(from, stride, to, ldt);
  }
};

template <> struct Vector<double> {
  using T = double;
  using Reg = __m256d;
  static constexpr int W = 4, MR = 6, B = 4;

  MIXLE_LANEWISE Reg load(const T *p) { return _mm256_loadu_pd(p); }
  MIXLE_LANEWISE void store(T *p, Reg a) { _mm256_storeu_pd(p, a); }
  MIXLE_LANEWISE Reg set1(T x) { return _mm256_set1_pd(x); }
  MIXLE_LANEWISE Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  MIXLE_LANEWISE Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  MIXLE_LANEWISE Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  MIXLE_LANEWISE Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  MIXLE_LANEWISE Reg fma(Reg a, Reg b, Reg c) {
    return _mm256_fmadd_pd(a, b, c);
  }
  MIXLE_LANEWISE T fmaOne(T a, T b, T c) { return __builtin_fma(a, b, c); }
  MIXLE_LANEWISE Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  MIXLE_LANEWISE Reg pow2(Reg shifted) {
    return _mm256_castsi256_pd(
        _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52));
  }
  MIXLE_LANEWISE Reg dropBelow(Reg x, Reg bound, Reg y) {
    return _mm256_andnot_pd(_mm256_cmp_pd(x, bound, _CMP_LT_OQ), y);
  }
  MIXLE_LANEWISE Reg firstLanes(int64_t n, Reg x, Reg other) {
    const Reg lane = _mm256_setr_pd(0, 1, 2, 3);
    return _mm256_blendv_pd(other, x,
                            _mm256_cmp_pd(lane, set1(T(n)), _CMP_LT_OQ));
  }
  MIXLE_LANEWISE T maxLanes(Reg a) {
    __m128d b =
        _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(b, _mm_unpackhi_pd(b, b)));
  }
  MIXLE_LANEWISE T addLanes(const Reg (&a)[4]) {
    Reg four = add(add(a[0], a[2]), add(a[1], a[3]));
    __m128d b = _mm_add_pd(_mm256_castpd256_pd128(four),
                           _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
  }
  MIXLE_LANEWISE void transposeBlock(const T *from, int64_t stride, T *to,
                                     int64_t ldt) {
    transpose4x4(from, stride, to, ldt);
  }
};

#include "runtime/kernels/AttentionForward.inc"

#include "runtime/kernels/AttentionBackward.inc"

} // namespace

#define VECTOR(T) Vector<T>
#include "runtime/kernels/AttentionEntry.inc"

} // namespace mixle::runtime::detail::avx2

#pragma GCC pop_options

#endif // __x86_64__
