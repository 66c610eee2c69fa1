//===- RowOrder.h - Which rows a step takes ---------------------*- C++ -*-===//
//
// The order of the rows in every epoch, and how a step's rows are cut into
// microbatches and over ranks. The order is that of mixle, number for number:
// NumPy's SeedSequence of (seed, epoch) gives the first 32 bits that seed its
// legacy RandomState, whose permutation is the epoch's.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_ROWORDER_H
#define MIXLE_RUNTIME_TRAINING_DATA_ROWORDER_H

#include <array>
#include <cstdint>
#include <vector>

namespace mixle::runtime {

/// The first four words of NumPy's SeedSequence(entropy).generate_state(4).
std::array<uint32_t, 4> seedSequence(const std::vector<uint64_t> &entropy);

/// The seed of an epoch's permutation (epochs count from 0).
uint32_t epochSeed(uint64_t seed, uint64_t epoch);

/// NumPy's RandomState(seed).permutation(n).
std::vector<int64_t> legacyPermutation(uint32_t seed, int64_t n);

/// A half-open range of positions.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range &a, const Range &b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

/// `n` rows in chunks of ceil(n / parts), the last one shorter: there may be
/// fewer chunks than `parts`, and none is empty.
std::vector<Range> chunks(int64_t n, int64_t parts);

/// The contiguous rows of one rank: ceil(n / ranks) for the first ranks, then
/// the rest, then none. 5 rows over 4 ranks: 2, 2, 1, 0.
Range rankRows(int64_t n, int64_t ranks, int64_t rank);

/// The rows of every step, epoch after epoch.
class EpochOrder {
public:
  /// `rows` is at least 1.
  EpochOrder(uint64_t seed, int64_t rows);

  int64_t rows() const { return count; }
  /// Steps of one epoch: ceil(rows / batch).
  int64_t stepsPerEpoch(int64_t batch) const;
  /// The rows of step `step` (from 0, counted over all epochs): step s of an
  /// epoch takes positions s * batch to (s + 1) * batch of the epoch's
  /// permutation; the last one of an epoch may be shorter. Any step can be
  /// asked for in any order, so a run resumes anywhere.
  std::vector<int64_t> rowsOfStep(int64_t step, int64_t batch);
  /// The whole permutation of an epoch; valid until the next call.
  const std::vector<int64_t> &permutation(int64_t epoch);

private:
  uint64_t seed;
  int64_t count;
  int64_t cached = -1; // the epoch that `order` belongs to
  std::vector<int64_t> order;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_ROWORDER_H
