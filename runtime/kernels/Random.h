//===- Random.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Philox4x32-10 (Salmon et al., 2011) keyed by a seed, with the logical id of
// what is drawn and the global element index as the counter: an element's value
// depends on nothing else, so any shard can make its own elements.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_RANDOM_H
#define MIXLE_RUNTIME_KERNELS_RANDOM_H

#include <array>
#include <cstdint>

namespace mixle::runtime {

/// Ten rounds of Philox4x32.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

/// The four words of element `index` of `id`: key = seed, counter = index, id;
/// low words first.
std::array<uint32_t, 4> philoxElement(uint64_t seed, uint64_t id,
                                      uint64_t index);

/// out[i] = uniform in [low, high) for the elements `first` to first + count.
/// 53 bits of words 0 and 1 scaled in double, rounded to T; a value that would
/// round to `high` is the one below.
template <typename T>
void philoxUniform(uint64_t seed, uint64_t id, uint64_t first, int64_t count,
                   double low, double high, T *out);

/// out[i] = mean + deviation * z with z standard normal: Box and Muller's
/// transform in double on words 0, 1 (radius) and 2, 3 (angle), rounded to T.
template <typename T>
void philoxNormal(uint64_t seed, uint64_t id, uint64_t first, int64_t count,
                  double mean, double deviation, T *out);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_RANDOM_H
