//===- Npy.h - Arrays in NumPy's file format --------------------*- C++ -*-===//
//
// .npy files of versions 1 to 3: little endian, C order, one to four
// dimensions. The header is Python source; a strict reader of exactly what
// NumPy writes stands here, not an evaluator.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_NPY_H
#define MIXLE_RUNTIME_BASE_NPY_H

#include "mixle/Status.h"
#include "runtime/base/Files.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixle::runtime {

enum class NpyType { F4, F8, I1, I2, I4, I8, U1, U2, U4 };

/// "f4", "i8", ...
std::string_view toString(NpyType type);
/// Bytes of one element.
uint64_t elementSize(NpyType type);
inline bool isReal(NpyType type) {
  return type == NpyType::F4 || type == NpyType::F8;
}

/// An open .npy file; elements are read from the mapping.
class NpyFile {
public:
  /// Maps and checks `path`. Errors name the file: no .npy file; a version,
  /// type, order or number of dimensions that is not read here (with the NumPy
  /// call that converts the array); a header that is malformed, longer than
  /// the file or disagrees with its size.
  static Expected<NpyFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  NpyType type() const { return elementType; }
  const std::vector<int64_t> &shape() const { return dimensions; }
  int64_t elements() const { return count; }
  /// Row-major, little endian, not necessarily aligned.
  const uint8_t *data() const { return start; }

  /// out[i] = element first + i for i < n, rounded to nearest even where the
  /// target is narrower. Any type.
  void toDouble(int64_t first, int64_t n, double *out) const;
  void toFloat(int64_t first, int64_t n, float *out) const;
  /// The same for arrays of integers (isReal(type()) is false).
  void toInt64(int64_t first, int64_t n, int64_t *out) const;

private:
  MappedFile file;
  NpyType elementType = NpyType::F4;
  std::vector<int64_t> dimensions;
  int64_t count = 0;
  const uint8_t *start = nullptr;
};

/// What NpyFile::open finds in the first bytes of a file.
struct NpyHeader {
  NpyType type = NpyType::F4;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  uint64_t dataOffset = 0; // bytes from the beginning of the file
};

/// Checks a .npy image in memory; `what` names it in messages.
Expected<NpyHeader> parseNpy(const uint8_t *data, uint64_t size,
                             const std::string &what);

/// Writes a row-major array through an AtomicFile.
Status writeNpy(const std::string &path, NpyType type,
                const std::vector<int64_t> &shape, const void *data);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_NPY_H
