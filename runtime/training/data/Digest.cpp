//===- Digest.cpp - One number for a whole state
//----------------------------===//

#define XXH_INLINE_ALL
#include "runtime/training/data/Digest.h"

#include <cstring>
#include <xxhash.h>

namespace mixle::runtime {

__extension__ typedef unsigned __int128 Wide;

uint64_t logicalIdHash(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

/// The two halves of a 64x64-bit product, folded into one word.
static inline uint64_t fold(uint64_t a, uint64_t b) {
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

namespace {
/// The mixing of one logical id's elements.
class Mixer {
public:
  explicit Mixer(uint64_t idHash) {
    // A counter stepped by an odd constant and scrambled: nearby ids get
    // unrelated keys.
    uint64_t state = idHash;
    for (uint64_t &key : keys) {
      state += 0x9e3779b97f4a7c15u;
      uint64_t z = state;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      key = z ^ (z >> 31);
    }
  }

  /// Index and bits enter twice, by different ways, so that no product of the
  /// first round that two elements share, not even zero, makes them equal.
  Wide operator()(uint64_t index, uint64_t bits) const {
    uint64_t a = fold(bits ^ keys[0], index ^ keys[1]);
    uint64_t u = a ^ index * 0xd6e8feb86659fd93u;
    uint64_t v = a + bits * 0xa0761d6478bd642fu;
    uint64_t low = fold(u ^ keys[2], v ^ keys[3]);
    uint64_t high = fold(u + keys[4], low ^ keys[5]);
    return static_cast<Wide>(high) << 64 | low;
  }

private:
  uint64_t keys[6];
};
} // namespace

void StateDigest::add(uint64_t idHash, uint64_t index, uint64_t bits) {
  sum += Mixer(idHash)(index, bits);
}

static inline uint64_t bitsOf(uint32_t value) { return value; }
static inline uint64_t bitsOf(uint64_t value) { return value; }
static inline uint64_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
}
static inline uint64_t bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u
             ? 0x7ff8000000000000u
             : bits;
}

template <typename T>
static Wide sumOf(uint64_t idHash, uint64_t index, const T *data, int64_t n,
                  int64_t indexStride, int64_t dataStride) {
  Mixer mix(idHash);
  Wide sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += mix(index, bitsOf(data[i * dataStride]));
    index += indexStride;
  }
  return sum;
}

void StateDigest::addRange(uint64_t idHash, uint64_t firstIndex,
                           const float *data, int64_t n, int64_t indexStride,
                           int64_t dataStride) {
  sum += sumOf(idHash, firstIndex, data, n, indexStride, dataStride);
}
void StateDigest::addRange(uint64_t idHash, uint64_t firstIndex,
                           const double *data, int64_t n, int64_t indexStride,
                           int64_t dataStride) {
  sum += sumOf(idHash, firstIndex, data, n, indexStride, dataStride);
}
void StateDigest::addRange(uint64_t idHash, uint64_t firstIndex,
                           const uint32_t *data, int64_t n, int64_t indexStride,
                           int64_t dataStride) {
  sum += sumOf(idHash, firstIndex, data, n, indexStride, dataStride);
}
void StateDigest::addRange(uint64_t idHash, uint64_t firstIndex,
                           const uint64_t *data, int64_t n, int64_t indexStride,
                           int64_t dataStride) {
  sum += sumOf(idHash, firstIndex, data, n, indexStride, dataStride);
}

std::string StateDigest::hex() const {
  const char *digits = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 32; ++i)
    text[i] = digits[static_cast<unsigned>(sum >> (124 - 4 * i)) & 15];
  return text;
}

std::array<int64_t, 4> StateDigest::limbs() const {
  std::array<int64_t, 4> words;
  for (int i = 0; i < 4; ++i)
    words[i] = static_cast<uint32_t>(sum >> (32 * i));
  return words;
}

StateDigest StateDigest::fromLimbs(const std::array<int64_t, 4> &limbs) {
  StateDigest digest;
  for (int i = 0; i < 4; ++i)
    digest.sum += static_cast<Wide>(limbs[i]) << (32 * i);
  return digest;
}

} // namespace mixle::runtime
