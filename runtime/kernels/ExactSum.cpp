//===- ExactSum.cpp - Sums of scalars without rounding --------------------===//

#include "runtime/kernels/ExactSum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mixle::runtime {

namespace {

constexpr int64_t limbMask = 0xffffffff;

/// Adds magnitude * 2^exponent, negated where asked; exponent >=
/// lowestExponent.
inline void addScaled(int64_t *limbs, unsigned __int128 magnitude, int exponent,
                      bool negative) {
  const int position = exponent - ExactSum::lowestExponent;
  int limb = position >> 5;
  magnitude <<= position & 31;
  while (magnitude) {
    const int64_t part = static_cast<int64_t>(magnitude) & limbMask;
    limbs[limb++] += negative ? -part : part;
    magnitude >>= 32;
  }
}

/// Adds one double without branching on its size: 53 bits lie across three
/// limbs.
inline void addOne(int64_t *limbs, double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const int biased = static_cast<int>(bits >> 52) & 0x7ff;
  uint64_t significand = static_cast<uint64_t>(bits) & 0xfffffffffffff;
  if (biased == 0x7ff) {
    ++limbs[significand ? ExactSum::nanLimb
            : bits < 0  ? ExactSum::negativeInfinityLimb
                        : ExactSum::positiveInfinityLimb];
    return;
  }
  significand |= static_cast<uint64_t>(biased != 0) << 52;
  const int position = std::max(biased, 1) - 1075 - ExactSum::lowestExponent;
  const unsigned __int128 shifted = static_cast<unsigned __int128>(significand)
                                    << (position & 31);
  const int64_t sign = bits >> 63; // 0 or -1: (x ^ sign) - sign negates
  int64_t *at = limbs + (position >> 5);
  at[0] += ((static_cast<int64_t>(shifted) & limbMask) ^ sign) - sign;
  at[1] += ((static_cast<int64_t>(shifted >> 32) & limbMask) ^ sign) - sign;
  at[2] += (static_cast<int64_t>(shifted >> 64) ^ sign) - sign;
}

/// Additions between two normalisations: each adds less than 2^32 to a limb.
constexpr int64_t additionsAtOnce = int64_t(1) << 28;

template <typename T, typename Add>
void addAll(ExactSum sum, const T *values, int64_t count, Add add) {
  for (int64_t first = 0; first < count; first += additionsAtOnce) {
    const int64_t last = std::min(count, first + additionsAtOnce);
    for (int64_t i = first; i < last; ++i)
      add(values[i]);
    sum.normalize();
  }
}

#if defined(__x86_64__)

constexpr int64_t stretch = 1024;
constexpr int levelBits = 50;
constexpr int levels = 3;

/// The sum of the squares of up to `stretch` floats below 2^exponent, as
/// integers: sums[l] counts multiples of 2^(2 * exponent - levelBits * (l +
/// 1)). Each square is exact in double; rounding it to a multiple of a level's
/// unit and carrying the exact rest on to the next level loses nothing. False
/// where a rest is left after the last level, that is, where magnitudes differ
/// too much. A level sums 1024 integers of at most 2^50.
__attribute__((target("avx2,fma"))) bool
sumSquaresByLevel(const float *values, int64_t count, int exponent,
                  int64_t (&sums)[levels]) {
  const __m256d magic = _mm256_set1_pd(0x1.8p52);
  const __m256i magicBits = _mm256_set1_epi64x(0x4338000000000000);
  const __m256d scale =
      _mm256_set1_pd(std::ldexp(1.0, levelBits - 2 * exponent));
  const __m256d next = _mm256_set1_pd(std::ldexp(1.0, levelBits));
  __m256i sum[levels] = {_mm256_setzero_si256(), _mm256_setzero_si256(),
                         _mm256_setzero_si256()};
  __m256d left = _mm256_setzero_pd();
  alignas(16) float tail[4];
  for (int64_t i = 0; i < count; i += 4) {
    __m128 x;
    if (i + 4 <= count) {
      x = _mm_loadu_ps(values + i);
    } else {
      for (int j = 0; j < 4; ++j)
        tail[j] = i + j < count ? values[i + j] : 0.0f;
      x = _mm_load_ps(tail);
    }
    const __m256d wide = _mm256_cvtps_pd(x);
    __m256d rest = _mm256_mul_pd(_mm256_mul_pd(wide, wide), scale);
#pragma GCC unroll 3
    for (int l = 0; l < levels; ++l) {
      const __m256d shifted = _mm256_add_pd(rest, magic);
      sum[l] = _mm256_add_epi64(
          sum[l], _mm256_sub_epi64(_mm256_castpd_si256(shifted), magicBits));
      rest = _mm256_sub_pd(rest, _mm256_sub_pd(shifted, magic));
      rest = _mm256_mul_pd(rest, next);
    }
    left = _mm256_or_pd(left, rest);
  }
  const __m256d anyLeft = _mm256_cmp_pd(left, _mm256_setzero_pd(), _CMP_NEQ_UQ);
  if (_mm256_movemask_pd(anyLeft))
    return false;
  for (int l = 0; l < levels; ++l) {
    alignas(32) int64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), sum[l]);
    sums[l] = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  return true;
}

/// Squares of up to `stretch` floats; false where it cannot.
bool addSquaresByLevel(int64_t *limbs, const float *values, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  if (largest >= 0x7f800000u)
    return false;
  if (largest == 0)
    return true;
  float amax;
  std::memcpy(&amax, &largest, sizeof(amax));
  const int exponent = std::ilogb(amax) + 1;
  int64_t sums[levels];
  if (!sumSquaresByLevel(values, count, exponent, sums))
    return false;
  for (int l = 0; l < levels; ++l)
    addScaled(limbs, sums[l] < 0 ? -static_cast<uint64_t>(sums[l]) : sums[l],
              2 * exponent - levelBits * (l + 1), sums[l] < 0);
  return true;
}

#endif // __x86_64__

} // namespace

void ExactSum::clear() { std::fill(limbs, limbs + limbCount, int64_t(0)); }

void ExactSum::addFloats(const float *values, int64_t count) {
  addAll(*this, values, count,
         [this](float x) { addOne(limbs, static_cast<double>(x)); });
}

void ExactSum::addDoubles(const double *values, int64_t count) {
  addAll(*this, values, count, [this](double x) { addOne(limbs, x); });
}

void ExactSum::addSquares(const float *values, int64_t count, Isa isa) {
  const auto addSquare = [this](float x) {
    addOne(limbs, static_cast<double>(x) * static_cast<double>(x));
  };
#if defined(__x86_64__)
  if (isa != Isa::portable) {
    for (int64_t i = 0; i < count; i += stretch) {
      const int64_t n = std::min(stretch, count - i);
      if (!addSquaresByLevel(limbs, values + i, n))
        addAll(*this, values + i, n, addSquare);
      if ((i / stretch & 0xfffff) == 0xfffff)
        normalize();
    }
    normalize();
    return;
  }
#endif
  addAll(*this, values, count, addSquare);
}

void ExactSum::addSquares(const double *values, int64_t count) {
  addAll(*this, values, count, [this](double x) {
    const double high = x * x;
    addOne(limbs, high);
    // An infinite or NaN square has no rest; inf - inf would claim a NaN.
    if (std::isfinite(high))
      addOne(limbs, std::fma(x, x, -high));
  });
}

void ExactSum::merge(const int64_t *other) {
  for (int i = 0; i < limbCount; ++i)
    limbs[i] += other[i];
  normalize();
}

void ExactSum::normalize() {
  int64_t carry = 0;
  for (int i = 0; i + 1 < valueLimbs; ++i) {
    const int64_t v = limbs[i] + carry;
    limbs[i] = v & limbMask;
    carry = v >> 32;
  }
  limbs[valueLimbs - 1] += carry;
  for (int i = valueLimbs; i < limbCount; ++i)
    limbs[i] = limbs[i] != 0;
}

double ExactSum::round() const {
  int64_t copy[limbCount];
  std::copy(limbs, limbs + limbCount, copy);
  ExactSum canonical(copy);
  canonical.normalize();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (copy[nanLimb] ||
      (copy[positiveInfinityLimb] && copy[negativeInfinityLimb]))
    return std::numeric_limits<double>::quiet_NaN();
  if (copy[positiveInfinityLimb])
    return infinity;
  if (copy[negativeInfinityLimb])
    return -infinity;

  const bool negative = copy[valueLimbs - 1] < 0;
  if (negative) {
    for (int i = 0; i < valueLimbs; ++i)
      copy[i] = -copy[i];
    canonical.normalize();
  }
  int top = valueLimbs - 1;
  while (top >= 0 && copy[top] == 0)
    --top;
  if (top < 0)
    return 0.0;
  // The highest limb may hold more than 32 bits; such a sum is beyond double.
  if (copy[top] > limbMask)
    return negative ? -infinity : infinity;

  // The three highest limbs hold at least 65 significant bits; what lies below
  // only breaks ties.
  unsigned __int128 window = 0;
  for (int i = 0; i < 3; ++i)
    window =
        window << 32 | static_cast<uint64_t>(top - i >= 0 ? copy[top - i] : 0);
  bool sticky = false;
  for (int i = top - 3; i >= 0; --i)
    sticky = sticky || copy[i] != 0;
  int length = 0;
  for (unsigned __int128 w = window; w; w >>= 1)
    ++length;
  // All terms are multiples of 2^-1074, so a subnormal result has no bits to
  // drop.
  const int drop = length - 53;
  const uint64_t kept = static_cast<uint64_t>(window >> drop);
  const unsigned __int128 half = static_cast<unsigned __int128>(1)
                                 << (drop - 1);
  const unsigned __int128 rest = window & ((half << 1) - 1);
  const bool up = rest > half || (rest == half && (sticky || (kept & 1)));
  const double magnitude = std::ldexp(static_cast<double>(kept + up),
                                      drop + 32 * (top - 2) + lowestExponent);
  return negative ? -magnitude : magnitude;
}

} // namespace mixle::runtime
