//===- RowOrder.cpp - Which rows a step takes
//-------------------------------===//

#include "runtime/training/data/RowOrder.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace mixle::runtime {

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

namespace {
/// The hash behind SeedSequence: every word passes through a multiplier that
/// itself changes from word to word.
class WordHash {
public:
  WordHash(uint32_t start, uint32_t multiplier)
      : constant(start), multiplier(multiplier) {}
  uint32_t operator()(uint32_t word) {
    word ^= constant;
    constant *= multiplier;
    word *= constant;
    return word ^ (word >> 16);
  }

private:
  uint32_t constant, multiplier;
};
} // namespace

static uint32_t mixWords(uint32_t x, uint32_t y) {
  uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;
  return result ^ (result >> 16);
}

std::array<uint32_t, 4> seedSequence(const std::vector<uint64_t> &entropy) {
  // An integer is as many 32-bit words as it needs, low ones first, zero being
  // one word.
  std::vector<uint32_t> words;
  for (uint64_t value : entropy) {
    words.push_back(static_cast<uint32_t>(value));
    if (value >> 32)
      words.push_back(static_cast<uint32_t>(value >> 32));
  }
  std::array<uint32_t, 4> pool;
  WordHash hash(0x43b0d7e5u, 0x931e8875u);
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = hash(i < words.size() ? words[i] : 0);
  for (size_t from = 0; from < pool.size(); ++from)
    for (size_t to = 0; to < pool.size(); ++to)
      if (from != to)
        pool[to] = mixWords(pool[to], hash(pool[from]));
  for (size_t from = pool.size(); from < words.size(); ++from)
    for (uint32_t &word : pool)
      word = mixWords(word, hash(words[from]));
  WordHash output(0x8b51f9ddu, 0x58f38dedu);
  for (uint32_t &word : pool)
    word = output(word);
  return pool;
}

uint32_t epochSeed(uint64_t seed, uint64_t epoch) {
  return seedSequence({seed, epoch})[0];
}

//===----------------------------------------------------------------------===//
// Permutations
//===----------------------------------------------------------------------===//

/// A number of 0 to `highest` as the legacy generator draws it: masked to the
/// bits that `highest` has, drawn again while too large.
static uint64_t boundedDraw(std::mt19937 &generator, uint64_t highest) {
  if (highest == 0)
    return 0;
  uint64_t mask = ~uint64_t(0) >> __builtin_clzll(highest);
  uint64_t value;
  do {
    value = generator();
    if (highest > 0xffffffffu)
      value = value << 32 | generator();
    value &= mask;
  } while (value > highest);
  return value;
}

std::vector<int64_t> legacyPermutation(uint32_t seed, int64_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t(0));
  // The standard fixes this generator and its seeding bit by bit.
  std::mt19937 generator(seed);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(order[i], order[boundedDraw(generator, i)]);
  return order;
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

static int64_t ceilDivide(int64_t n, int64_t by) {
  return n / by + (n % by != 0);
}

std::vector<Range> chunks(int64_t n, int64_t parts) {
  std::vector<Range> result;
  int64_t size = ceilDivide(n, parts);
  for (int64_t begin = 0; begin < n; begin += size)
    result.push_back({begin, std::min(begin + size, n)});
  return result;
}

Range rankRows(int64_t n, int64_t ranks, int64_t rank) {
  int64_t size = ceilDivide(n, ranks);
  return {std::min(rank * size, n), std::min((rank + 1) * size, n)};
}

//===----------------------------------------------------------------------===//
// EpochOrder
//===----------------------------------------------------------------------===//

EpochOrder::EpochOrder(uint64_t seed, int64_t rows) : seed(seed), count(rows) {}

int64_t EpochOrder::stepsPerEpoch(int64_t batch) const {
  return ceilDivide(count, batch);
}

const std::vector<int64_t> &EpochOrder::permutation(int64_t epoch) {
  if (epoch != cached) {
    order = legacyPermutation(epochSeed(seed, epoch), count);
    cached = epoch;
  }
  return order;
}

std::vector<int64_t> EpochOrder::rowsOfStep(int64_t step, int64_t batch) {
  int64_t steps = stepsPerEpoch(batch);
  const std::vector<int64_t> &rows = permutation(step / steps);
  int64_t begin = step % steps * batch;
  int64_t end = batch < count - begin ? begin + batch : count;
  return {rows.begin() + begin, rows.begin() + end};
}

} // namespace mixle::runtime
