//===- Safetensors.h - Tensor files in and out ------------------*- C++ -*-===//
//
// The safetensors format: 8 bytes of header length (little endian), a JSON
// header, the tensors' bytes without gaps, in row-major order. The reader
// trusts nothing: it believes a number only after comparing it with the size
// of the file, and a hostile header makes it use no more memory than the part
// of the header before the first offence.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_SAFETENSORS_H
#define MIXLE_RUNTIME_BASE_SAFETENSORS_H

#include "mixle/Status.h"
#include "runtime/base/Files.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mixle::runtime {

/// The element types that this project stores.
enum class TensorType { F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool };

/// "F64", "BF16", "BOOL", ... as the header writes it.
std::string_view toString(TensorType type);
Expected<TensorType> parseTensorType(std::string_view name);
/// Bytes of one element.
uint64_t elementSize(TensorType type);

/// "[2, 3]", for messages.
std::string shapeText(const std::vector<int64_t> &shape);

/// A tensor's name, type and shape. The shape of a scalar is empty; a
/// dimension may be 0.
struct TensorSpec {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape;
};

/// A tensor in somebody else's memory, row-major without gaps.
struct TensorView {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<int64_t> shape;
  /// Not necessarily aligned to the element: copy bytes out (toFloat and the
  /// others do), do not cast.
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;

  int64_t elements() const {
    return static_cast<int64_t>(bytes / elementSize(type));
  }
};

/// Converts a floating-point tensor, rounding to nearest even where the target
/// is narrower; `out` holds view.elements() values. Errors: a tensor of
/// integers, by name.
Status toFloat(const TensorView &view, float *out);
Status toDouble(const TensorView &view, double *out);
/// Converts a tensor of integers or booleans.
Status toInt64(const TensorView &view, int64_t *out);

/// An open safetensors file. Views point into the mapping: they are valid
/// while the file lives.
class SafetensorsFile {
public:
  /// Maps and checks `path`. Errors name the file and, where there is one, the
  /// tensor: a length longer than the file or 100 MB; JSON that is malformed
  /// or holds anything but tensors; a repeated name; an unknown type; a
  /// negative shape or one whose size overflows; offsets that are reversed,
  /// past the end, overlap, leave a hole or do not fit the shape; bytes after
  /// the last tensor.
  static Expected<SafetensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// In the order of the header.
  const std::vector<TensorView> &tensors() const { return views; }
  /// Null when there is none of that name.
  const TensorView *find(std::string_view name) const;
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  MappedFile file;
  std::vector<TensorView> views;
  std::unordered_map<std::string, size_t> index;
  std::map<std::string, std::string> notes;
};

/// Checks a safetensors image in memory (what open() does with a mapped file;
/// for fuzzing). `what` names it in messages.
Status parseSafetensors(const uint8_t *data, uint64_t size,
                        const std::string &what,
                        std::vector<TensorView> &tensors,
                        std::map<std::string, std::string> &metadata);

/// Writes a safetensors file tensor by tensor, through an AtomicFile: the file
/// appears when finish() succeeds, or not at all.
class SafetensorsWriter {
public:
  /// Lays out `tensors` in the given order. Errors: a name that is empty,
  /// repeated or "__metadata__"; a negative dimension; what AtomicFile says.
  static Expected<SafetensorsWriter>
  create(const std::string &path, std::vector<TensorSpec> tensors,
         const std::map<std::string, std::string> &metadata = {},
         const FileCalls &calls = FileCalls::system());

  /// Appends bytes of tensor `name`. Tensors come in the given order, each in
  /// one piece or several.
  Status write(std::string_view name, const void *data, uint64_t bytes);
  /// Ends the file. Errors: bytes are missing, by tensor.
  Status finish();

private:
  SafetensorsWriter(AtomicFile file, std::vector<TensorSpec> tensors)
      : file(std::move(file)), specs(std::move(tensors)) {}
  void skipComplete();

  AtomicFile file;
  std::vector<TensorSpec> specs;
  std::vector<uint64_t> sizes; // bytes of each tensor
  size_t current = 0;          // the tensor that receives bytes
  uint64_t written = 0;        // bytes of it so far
};

/// Writes all of `tensors` at once.
Status
writeSafetensors(const std::string &path,
                 const std::vector<TensorView> &tensors,
                 const std::map<std::string, std::string> &metadata = {});

/// The bits of an IEEE half or a bfloat16 as a float (exact).
float halfToFloat(uint16_t bits);
float bfloat16ToFloat(uint16_t bits);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_SAFETENSORS_H
