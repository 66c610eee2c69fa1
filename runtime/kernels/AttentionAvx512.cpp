//===- AttentionAvx512.cpp - Attention with AVX-512 -----------------------===//

#include "runtime/kernels/AttentionKernels.h"

#if defined(__x86_64__)

#include "runtime/kernels/AttentionScalar.h"

// GCC 12's own AVX-512 header pads with registers that it leaves unset.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <iterator>
#include <limits>

// Behind every include: library code compiled here must stay fit for all
// processors, since the linker keeps one copy of it.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")

namespace mixle::runtime::detail::avx512 {
namespace {

#include "runtime/kernels/AttentionTiles.inc"

#include "runtime/kernels/AttentionTranspose.inc"

template <typename Element> struct Vector;

template <> struct Vector<float> {
  using T = float;
  using Reg = __m512;
  static constexpr int W = 16, MR = 8, B = 8;

  MIXLE_LANEWISE Reg load(const T *p) { return _mm512_loadu_ps(p); }
  MIXLE_LANEWISE void store(T *p, Reg a) { _mm512_storeu_ps(p, a); }
  MIXLE_LANEWISE Reg set1(T x) { return _mm512_set1_ps(x); }
  MIXLE_LANEWISE Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  MIXLE_LANEWISE Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  MIXLE_LANEWISE Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  MIXLE_LANEWISE Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  MIXLE_LANEWISE Reg fma(Reg a, Reg b, Reg c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  MIXLE_LANEWISE T fmaOne(T a, T b, T c) { return __builtin_fmaf(a, b, c); }
  MIXLE_LANEWISE Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  MIXLE_LANEWISE Reg pow2(Reg shifted) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_castps_si512(shifted), 23));
  }
  MIXLE_LANEWISE Reg dropBelow(Reg x, Reg bound, Reg y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_NLT_UQ), y);
  }
  MIXLE_LANEWISE Reg firstLanes(int64_t n, Reg x, Reg other) {
    const Reg lane =
        _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mask_mov_ps(
        other, _mm512_cmp_ps_mask(lane, set1(T(n)), _CMP_LT_OQ), x);
  }
  MIXLE_LANEWISE __m256 upper(Reg a) { return _mm512_extractf32x8_ps(a, 1); }
  MIXLE_LANEWISE T maxLanes(Reg a) {
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), upper(a));
    __m128 b =
        _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }
  MIXLE_LANEWISE T addLanes(const Reg (&a)[1]) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a[0]), upper(a[0]));
    __m128 b =
        _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
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
  using Reg = __m512d;
  static constexpr int W = 8, MR = 8, B = 4;

  MIXLE_LANEWISE Reg load(const T *p) { return _mm512_loadu_pd(p); }
  MIXLE_LANEWISE void store(T *p, Reg a) { _mm512_storeu_pd(p, a); }
  MIXLE_LANEWISE Reg set1(T x) { return _mm512_set1_pd(x); }
  MIXLE_LANEWISE Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  MIXLE_LANEWISE Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  MIXLE_LANEWISE Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  MIXLE_LANEWISE Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  MIXLE_LANEWISE Reg fma(Reg a, Reg b, Reg c) {
    return _mm512_fmadd_pd(a, b, c);
  }
  MIXLE_LANEWISE T fmaOne(T a, T b, T c) { return __builtin_fma(a, b, c); }
  MIXLE_LANEWISE Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  MIXLE_LANEWISE Reg pow2(Reg shifted) {
    return _mm512_castsi512_pd(
        _mm512_slli_epi64(_mm512_castpd_si512(shifted), 52));
  }
  MIXLE_LANEWISE Reg dropBelow(Reg x, Reg bound, Reg y) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, bound, _CMP_NLT_UQ), y);
  }
  MIXLE_LANEWISE Reg firstLanes(int64_t n, Reg x, Reg other) {
    const Reg lane = _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_mask_mov_pd(
        other, _mm512_cmp_pd_mask(lane, set1(T(n)), _CMP_LT_OQ), x);
  }
  MIXLE_LANEWISE __m256d upper(Reg a) { return _mm512_extractf64x4_pd(a, 1); }
  MIXLE_LANEWISE T maxLanes(Reg a) {
    __m256d h = _mm256_max_pd(_mm512_castpd512_pd256(a), upper(a));
    __m128d b =
        _mm_max_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_max_sd(b, _mm_unpackhi_pd(b, b)));
  }
  MIXLE_LANEWISE T addLanes(const Reg (&a)[2]) {
    Reg eight = add(a[0], a[1]);
    __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(eight), upper(eight));
    __m128d b =
        _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
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

} // namespace mixle::runtime::detail::avx512

#pragma GCC pop_options

#endif // __x86_64__
