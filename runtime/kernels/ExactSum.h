//===- ExactSum.h - Sums of scalars without rounding ------------*- C++ -*-===//
//
// A superaccumulator over the whole range of double: the sum is an integer
// multiple of 2^-1088, in limbs of 32 bits that are held in int64. Limbs are
// added one by one, so an all_reduce with int64 SUM over ranks is exact and
// free of order; the sum is rounded once, at the end. Used for losses,
// log-likelihoods and squared norms.
//
// Headroom: every function leaves the limbs below 2^32 in magnitude (the
// highest one apart, which only fills with the value itself), so 2^30
// accumulators can be added limb by limb before normalize() must be called.
// Infinities and NaN are counted in limbs of their own, at most 1 each after
// normalize().
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_EXACTSUM_H
#define MIXLE_RUNTIME_KERNELS_EXACTSUM_H

#include "runtime/kernels/Isa.h"

#include <cstdint>

namespace mixle::runtime {

/// A view of an accumulator of `limbCount` int64, which lies in a buffer of the
/// caller.
class ExactSum {
public:
  static constexpr int valueLimbs = 68;
  static constexpr int nanLimb = valueLimbs;
  static constexpr int positiveInfinityLimb = valueLimbs + 1;
  static constexpr int negativeInfinityLimb = valueLimbs + 2;
  static constexpr int limbCount = valueLimbs + 3;
  /// Limb i counts multiples of 2^(32 i + lowestExponent).
  static constexpr int lowestExponent = -1088;

  explicit ExactSum(int64_t *limbs) : limbs(limbs) {}

  /// Sets the sum to +0.
  void clear();

  void addFloats(const float *values, int64_t count);
  void addDoubles(const double *values, int64_t count);
  void addDouble(double value) { addDoubles(&value, 1); }

  /// Adds x * x for each x. Squares of floats are exact in double. Squares of
  /// doubles are taken as two doubles, exactly where 2^-485 < |x| < 2^512; a
  /// smaller x may lose bits below 2^-1074 of its own square, in the same way
  /// under any order; a larger one counts as infinity.
  void addSquares(const float *values, int64_t count, Isa isa = bestIsa());
  void addSquares(const double *values, int64_t count);

  /// Adds another accumulator.
  void merge(const int64_t *other);

  /// Carries, so that equal sums have equal limbs: all but the highest value
  /// limb lie in [0, 2^32).
  void normalize();

  /// The sum, rounded to nearest even; an infinity or NaN where one was added;
  /// +0 for an exact zero. The accumulator may be one that was summed limb by
  /// limb.
  double round() const;

private:
  int64_t *limbs;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_EXACTSUM_H
