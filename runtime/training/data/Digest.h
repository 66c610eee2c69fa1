//===- Digest.h - One number for a whole state ------------------*- C++ -*-===//
//
// A digest of (logical id, global element index, bits) triples that does not
// depend on who adds which of them when: every triple is mixed into 128 bits,
// and the mixtures are added modulo 2^128. Ranks digest what they hold and the
// digests are added, without gathering anything; equal states have equal
// digests under every plan. It detects differences, it does not resist people
// who search for collisions.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_DIGEST_H
#define MIXLE_RUNTIME_TRAINING_DATA_DIGEST_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixle::runtime {

/// The 64 bits that stand for a logical id.
uint64_t logicalIdHash(std::string_view name);

class StateDigest {
public:
  /// Adds one element. `bits` are the value's, zero-extended.
  void add(uint64_t idHash, uint64_t index, uint64_t bits);

  /// Adds n elements: element i has global index firstIndex + i * indexStride
  /// and value data[i * dataStride]. Floating-point values are taken by their
  /// bits, so -0 and +0 differ, but all NaN are one; integers are taken as they
  /// are, which also serves for the bits of anything else.
  void addRange(uint64_t idHash, uint64_t firstIndex, const float *data,
                int64_t n, int64_t indexStride = 1, int64_t dataStride = 1);
  void addRange(uint64_t idHash, uint64_t firstIndex, const double *data,
                int64_t n, int64_t indexStride = 1, int64_t dataStride = 1);
  void addRange(uint64_t idHash, uint64_t firstIndex, const uint32_t *data,
                int64_t n, int64_t indexStride = 1, int64_t dataStride = 1);
  void addRange(uint64_t idHash, uint64_t firstIndex, const uint64_t *data,
                int64_t n, int64_t indexStride = 1, int64_t dataStride = 1);

  /// A block of a logical array: element (i0, i1, ...) of `shape` has global
  /// index firstIndex + sum(i * indexStrides) and value
  /// data[sum(i * dataStrides)]. The three vectors have one length; without
  /// dimensions the block is one element. T is one of addRange's.
  template <typename T>
  void addBlock(uint64_t idHash, uint64_t firstIndex, const T *data,
                const std::vector<int64_t> &shape,
                const std::vector<int64_t> &indexStrides,
                const std::vector<int64_t> &dataStrides) {
    addDimension(idHash, firstIndex, data, shape, indexStrides, dataStrides, 0);
  }

  /// The digest of both states together.
  void merge(const StateDigest &other) { sum += other.sum; }

  /// 32 hexadecimal digits, most significant first.
  std::string hex() const;

  /// The digest as four words of 32 bits, lowest first, in integers wide
  /// enough to be summed over up to 2^31 ranks by an int64 all_reduce.
  std::array<int64_t, 4> limbs() const;
  /// The digest from such words, summed or not.
  static StateDigest fromLimbs(const std::array<int64_t, 4> &limbs);

  friend bool operator==(const StateDigest &a, const StateDigest &b) {
    return a.sum == b.sum;
  }
  friend bool operator!=(const StateDigest &a, const StateDigest &b) {
    return !(a == b);
  }

private:
  template <typename T>
  void addDimension(uint64_t idHash, uint64_t firstIndex, const T *data,
                    const std::vector<int64_t> &shape,
                    const std::vector<int64_t> &indexStrides,
                    const std::vector<int64_t> &dataStrides, size_t dimension) {
    if (dimension == shape.size()) {
      addRange(idHash, firstIndex, data, 1);
      return;
    }
    if (dimension + 1 == shape.size()) {
      addRange(idHash, firstIndex, data, shape[dimension],
               indexStrides[dimension], dataStrides[dimension]);
      return;
    }
    for (int64_t i = 0; i < shape[dimension]; ++i)
      addDimension(idHash, firstIndex + i * indexStrides[dimension],
                   data + i * dataStrides[dimension], shape, indexStrides,
                   dataStrides, dimension + 1);
  }

  __extension__ typedef unsigned __int128 Wide;
  Wide sum = 0;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_DIGEST_H
