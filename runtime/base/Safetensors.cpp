//===- Safetensors.cpp - Tensor files in and out
//----------------------------===//

#include "runtime/base/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace mixle::runtime {

/// The longest header that the format's reference reader accepts, bytes.
static constexpr uint64_t maxHeader = 100'000'000;

//===----------------------------------------------------------------------===//
// Types and conversions
//===----------------------------------------------------------------------===//

static constexpr std::array<std::string_view, 10> typeNames = {
    "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
static constexpr std::array<uint64_t, 10> typeSizes = {8, 4, 2, 2, 8,
                                                       4, 2, 1, 1, 1};

std::string_view toString(TensorType type) {
  return typeNames[static_cast<size_t>(type)];
}

uint64_t elementSize(TensorType type) {
  return typeSizes[static_cast<size_t>(type)];
}

Expected<TensorType> parseTensorType(std::string_view name) {
  std::string list;
  for (size_t i = 0; i < typeNames.size(); ++i) {
    if (typeNames[i] == name)
      return static_cast<TensorType>(i);
    list += (i ? ", " : "") + std::string(typeNames[i]);
  }
  return Status::error("dtype '" + std::string(name) +
                       "' is not supported; expected one of " + list);
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

float bfloat16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) {
    // Zeros and subnormals: fraction * 2^-24, exact in a float.
    float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  uint32_t wide = exponent == 31
                      ? (sign | 0x7f800000u | fraction << 13)
                      : (sign | (exponent + 112) << 23 | fraction << 13);
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

/// out[i] = convert(element i), reading elements of type From byte by byte as
/// views are not aligned.
template <typename From, typename To, typename Convert>
static void convertAll(const TensorView &view, To *out, Convert convert) {
  int64_t count = view.elements();
  for (int64_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, view.data + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(convert(element));
  }
}

template <typename To> static Status toReal(const TensorView &view, To *out) {
  auto same = [](auto x) { return x; };
  switch (view.type) {
  case TensorType::F64:
    convertAll<double>(view, out, same);
    return Status::success();
  case TensorType::F32:
    convertAll<float>(view, out, same);
    return Status::success();
  case TensorType::F16:
    convertAll<uint16_t>(view, out, halfToFloat);
    return Status::success();
  case TensorType::BF16:
    convertAll<uint16_t>(view, out, bfloat16ToFloat);
    return Status::success();
  default:
    return Status::error("tensor '" + view.name + "' has dtype " +
                         std::string(toString(view.type)) +
                         ", expected a floating-point type (F64, F32, F16 or "
                         "BF16)");
  }
}

Status toFloat(const TensorView &view, float *out) { return toReal(view, out); }
Status toDouble(const TensorView &view, double *out) {
  return toReal(view, out);
}

Status toInt64(const TensorView &view, int64_t *out) {
  auto same = [](auto x) { return x; };
  switch (view.type) {
  case TensorType::I64:
    convertAll<int64_t>(view, out, same);
    return Status::success();
  case TensorType::I32:
    convertAll<int32_t>(view, out, same);
    return Status::success();
  case TensorType::I16:
    convertAll<int16_t>(view, out, same);
    return Status::success();
  case TensorType::I8:
    convertAll<int8_t>(view, out, same);
    return Status::success();
  case TensorType::U8:
  case TensorType::Bool:
    convertAll<uint8_t>(view, out, same);
    return Status::success();
  default:
    return Status::error("tensor '" + view.name + "' has dtype " +
                         std::string(toString(view.type)) +
                         ", expected an integer type (I64, I32, I16, I8, U8 or "
                         "BOOL)");
  }
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
struct HeaderEntry {
  TensorSpec spec;
  uint64_t begin = 0, end = 0;
};

/// Receives the header's JSON as events and accepts exactly the format's
/// structure; whatever else comes stops the parser at once, so that a long
/// hostile header is never built in memory.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool key(string_t &name) override {
    switch (place) {
    case Place::Root:
      if (name == "__metadata__") {
        if (hasMetadata)
          return fail("__metadata__ is given twice");
        hasMetadata = true;
        place = Place::BeforeMetadata;
        return true;
      }
      if (!names.insert(name).second)
        return fail("tensor '" + name + "' is given twice");
      entries.emplace_back();
      entries.back().spec.name = name;
      hasType = hasShape = hasOffsets = false;
      offsets.clear();
      place = Place::BeforeTensor;
      return true;
    case Place::Tensor:
      if (name == "dtype")
        return once(hasType, name, Place::BeforeType);
      if (name == "shape")
        return once(hasShape, name, Place::BeforeShape);
      if (name == "data_offsets")
        return once(hasOffsets, name, Place::BeforeOffsets);
      return failHere("unknown field '" + name +
                      "'; expected dtype, shape, data_offsets");
    case Place::Metadata:
      note = name;
      if (metadata.count(note))
        return fail("__metadata__ has key '" + note + "' twice");
      place = Place::BeforeNote;
      return true;
    default:
      return unexpected("a key");
    }
  }

  bool start_object(std::size_t) override {
    if (place == Place::Start)
      place = Place::Root;
    else if (place == Place::BeforeTensor)
      place = Place::Tensor;
    else if (place == Place::BeforeMetadata)
      place = Place::Metadata;
    else
      return unexpected("an object");
    return true;
  }

  bool end_object() override {
    if (place == Place::Tensor) {
      if (!hasType || !hasShape || !hasOffsets)
        return failHere(std::string("no ") + (!hasType    ? "dtype"
                                              : !hasShape ? "shape"
                                                          : "data_offsets"));
      if (offsets.size() != 2)
        return failHere("data_offsets has " + std::to_string(offsets.size()) +
                        " numbers, expected 2");
      entries.back().begin = offsets[0];
      entries.back().end = offsets[1];
    }
    place = place == Place::Root ? Place::End : Place::Root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place == Place::BeforeShape)
      place = Place::Shape;
    else if (place == Place::BeforeOffsets)
      place = Place::Offsets;
    else
      return unexpected("an array");
    return true;
  }

  bool end_array() override {
    place = Place::Tensor;
    return true;
  }

  bool string(string_t &text) override {
    if (place == Place::BeforeNote) {
      metadata[note] = text;
      place = Place::Metadata;
      return true;
    }
    if (place != Place::BeforeType)
      return unexpected("a string");
    auto type = parseTensorType(text);
    if (!type)
      return failHere(type.status().message());
    entries.back().spec.type = *type;
    place = Place::Tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place == Place::Shape) {
      if (value > static_cast<uint64_t>(INT64_MAX))
        return failHere("dimension " + std::to_string(value) + " is too large");
      entries.back().spec.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place == Place::Offsets) {
      if (offsets.size() == 2)
        return failHere("data_offsets has more than 2 numbers");
      offsets.push_back(value);
      return true;
    }
    return unexpected("a number");
  }

  bool number_integer(number_integer_t value) override {
    return notANatural(std::to_string(value));
  }
  bool number_float(number_float_t, const string_t &text) override {
    return notANatural(text);
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t &) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return fail("malformed JSON at byte " + std::to_string(position) +
                " of the header");
  }

private:
  enum class Place {
    Start,
    Root,
    BeforeTensor,
    Tensor,
    BeforeType,
    BeforeShape,
    Shape,
    BeforeOffsets,
    Offsets,
    BeforeMetadata,
    Metadata,
    BeforeNote,
    End
  };

  bool fail(const std::string &message) {
    if (problem.empty())
      problem = message;
    return false;
  }
  bool failHere(const std::string &message) {
    return fail("tensor '" + entries.back().spec.name + "': " + message);
  }
  bool unexpected(const char *thing) {
    bool inTensor = place >= Place::BeforeTensor && place <= Place::Offsets;
    std::string message =
        std::string("the header holds ") + thing + " where the format has none";
    return inTensor ? failHere(message) : fail(message);
  }
  bool notANatural(const std::string &text) {
    if (place == Place::Shape)
      return failHere("dimension " + text +
                      " is not a non-negative integer in range");
    if (place == Place::Offsets)
      return failHere("offset " + text +
                      " is not a non-negative integer in range");
    return unexpected("a number");
  }
  bool once(bool &seen, const std::string &name, Place next) {
    if (seen)
      return failHere(name + " is given twice");
    seen = true;
    place = next;
    return true;
  }

  Place place = Place::Start;
  std::set<std::string> names;
  std::string note;
  std::vector<uint64_t> offsets;
  bool hasMetadata = false, hasType = false, hasShape = false,
       hasOffsets = false;
};
} // namespace

/// The bytes of a tensor; false when they do not fit in 64 bits.
static bool tensorBytes(const TensorSpec &spec, uint64_t &bytes) {
  bytes = 1;
  for (int64_t dimension : spec.shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes))
      return false;
  return !__builtin_mul_overflow(bytes, elementSize(spec.type), &bytes);
}

/// Each tensor's offsets against its shape and the data, then all of them
/// against one another: they must cover the data exactly once.
static Status checkOffsets(const std::vector<HeaderEntry> &entries,
                           uint64_t dataSize) {
  for (const HeaderEntry &entry : entries) {
    std::string here = "tensor '" + entry.spec.name + "': ";
    std::string offsets = "offsets [" + std::to_string(entry.begin) + ", " +
                          std::to_string(entry.end) + "]";
    if (entry.begin > entry.end)
      return Status::error(here + offsets + " are reversed");
    if (entry.end > dataSize)
      return Status::error(here + offsets + " go past the end of the data (" +
                           std::to_string(dataSize) +
                           " bytes); the file is cut short or its header lies");
    uint64_t bytes = 0;
    if (!tensorBytes(entry.spec, bytes))
      return Status::error(here + "the size of shape " +
                           shapeText(entry.spec.shape) + " overflows");
    if (bytes != entry.end - entry.begin)
      return Status::error(
          here + offsets + " hold " + std::to_string(entry.end - entry.begin) +
          " bytes, but " + std::string(toString(entry.spec.type)) + " " +
          shapeText(entry.spec.shape) + " needs " + std::to_string(bytes));
  }
  std::vector<const HeaderEntry *> sorted;
  for (const HeaderEntry &entry : entries)
    sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const HeaderEntry *a, const HeaderEntry *b) {
              return a->begin != b->begin ? a->begin < b->begin
                                          : a->end < b->end;
            });
  uint64_t position = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const HeaderEntry &entry = *sorted[i];
    if (entry.begin < position)
      return Status::error("tensor '" + entry.spec.name +
                           "' overlaps tensor '" + sorted[i - 1]->spec.name +
                           "' (it begins at byte " +
                           std::to_string(entry.begin) + ", which ends at " +
                           std::to_string(position) + ")");
    if (entry.begin > position)
      return Status::error("tensor '" + entry.spec.name +
                           "' leaves a hole before it: it begins at byte " +
                           std::to_string(entry.begin) + ", expected " +
                           std::to_string(position));
    position = entry.end;
  }
  if (position == dataSize)
    return Status::success();
  std::string last =
      sorted.empty() ? std::string("no tensor")
                     : "tensor '" + sorted.back()->spec.name + "', the last,";
  return Status::error(std::to_string(dataSize - position) +
                       " bytes of data are left over: " + last +
                       " ends at byte " + std::to_string(position) + " of " +
                       std::to_string(dataSize));
}

Status parseSafetensors(const uint8_t *data, uint64_t size,
                        const std::string &what,
                        std::vector<TensorView> &tensors,
                        std::map<std::string, std::string> &metadata) {
  auto fail = [&](const std::string &message) {
    return Status::error(what + ": not a valid safetensors file: " + message);
  };
  if (size < 8)
    return fail("it has " + std::to_string(size) +
                " bytes, expected at least 8");
  uint64_t headerSize = 0;
  for (int i = 0; i < 8; ++i)
    headerSize |= static_cast<uint64_t>(data[i]) << (8 * i);
  if (headerSize > size - 8)
    return fail("its header claims " + std::to_string(headerSize) +
                " bytes, but the file has only " + std::to_string(size - 8) +
                " after the length");
  if (headerSize > maxHeader)
    return fail("its header claims " + std::to_string(headerSize) +
                " bytes, expected at most " + std::to_string(maxHeader));
  const char *header = reinterpret_cast<const char *>(data + 8);
  // The parser would skip blanks and a byte order mark; the format has none.
  if (headerSize == 0 || header[0] != '{')
    return fail("its header does not begin with '{'");
  // To the parser a zero byte is the end of the text, whatever follows.
  if (std::memchr(header, 0, headerSize))
    return fail("malformed JSON: its header holds a zero byte");
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(header, header + headerSize, &handler))
    return fail(handler.problem);
  uint64_t dataSize = size - 8 - headerSize;
  if (Status status = checkOffsets(handler.entries, dataSize); !status)
    return fail(status.message());
  tensors.clear();
  tensors.reserve(handler.entries.size());
  for (HeaderEntry &entry : handler.entries)
    tensors.push_back({std::move(entry.spec.name), entry.spec.type,
                       std::move(entry.spec.shape),
                       data + 8 + headerSize + entry.begin,
                       entry.end - entry.begin});
  metadata = std::move(handler.metadata);
  return Status::success();
}

Expected<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  SafetensorsFile result;
  MIXLE_ASSIGN_OR_RETURN(result.file, MappedFile::open(path));
  MIXLE_RETURN_IF_ERROR(parseSafetensors(result.file.data(), result.file.size(),
                                         path, result.views, result.notes));
  for (size_t i = 0; i < result.views.size(); ++i)
    result.index.emplace(result.views[i].name, i);
  return Expected<SafetensorsFile>(std::move(result));
}

const TensorView *SafetensorsFile::find(std::string_view name) const {
  auto found = index.find(std::string(name));
  return found == index.end() ? nullptr : &views[found->second];
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Expected<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path,
                          std::vector<TensorSpec> tensors,
                          const std::map<std::string, std::string> &metadata,
                          const FileCalls &calls) {
  std::string here = "cannot write '" + path + "': ";
  // Put together as a text: an ordered JSON object looks its keys up one by
  // one, and a file can have thousands.
  std::string text = "{";
  std::set<std::string> names;
  std::vector<uint64_t> sizes;
  uint64_t position = 0;
  try {
    if (!metadata.empty())
      text += "\"__metadata__\":" + nlohmann::json(metadata).dump();
    for (const TensorSpec &spec : tensors) {
      if (spec.name.empty() || spec.name == "__metadata__")
        return Status::error(here + "'" + spec.name +
                             "' is no name for a tensor");
      if (!names.insert(spec.name).second)
        return Status::error(here + "tensor '" + spec.name +
                             "' is given twice");
      uint64_t bytes = 0, end = 0;
      for (int64_t dimension : spec.shape)
        if (dimension < 0)
          return Status::error(here + "tensor '" + spec.name + "' has shape " +
                               shapeText(spec.shape));
      if (!tensorBytes(spec, bytes) ||
          __builtin_add_overflow(position, bytes, &end))
        return Status::error(here + "the size of tensor '" + spec.name +
                             "', shape " + shapeText(spec.shape) +
                             ", overflows");
      nlohmann::ordered_json entry;
      entry["dtype"] = std::string(toString(spec.type));
      entry["shape"] = spec.shape;
      entry["data_offsets"] = {position, end};
      text += (text.size() > 1 ? "," : "") +
              nlohmann::ordered_json(spec.name).dump() + ":" + entry.dump();
      sizes.push_back(bytes);
      position = end;
    }
  } catch (const nlohmann::json::exception &) {
    return Status::error(here +
                         "a name or a metadata entry is not valid UTF-8");
  }
  text += "}";
  // The data begin at a multiple of 8; the header is padded with spaces.
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > maxHeader)
    return Status::error(here + "the header needs " +
                         std::to_string(text.size()) +
                         " bytes, more than the format's readers accept (" +
                         std::to_string(maxHeader) + ")");
  MIXLE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, calls));
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] =
        static_cast<uint8_t>(static_cast<uint64_t>(text.size()) >> (8 * i));
  MIXLE_RETURN_IF_ERROR(file.write(length, sizeof(length)));
  MIXLE_RETURN_IF_ERROR(file.write(text));
  SafetensorsWriter writer(std::move(file), std::move(tensors));
  writer.sizes = std::move(sizes);
  writer.skipComplete();
  return Expected<SafetensorsWriter>(std::move(writer));
}

void SafetensorsWriter::skipComplete() {
  while (current < specs.size() && written == sizes[current]) {
    ++current;
    written = 0;
  }
}

Status SafetensorsWriter::write(std::string_view name, const void *data,
                                uint64_t bytes) {
  if (bytes == 0)
    return Status::success();
  std::string here = "cannot write '" + file.path() + "': ";
  if (current == specs.size())
    return Status::error(here + "bytes of tensor '" + std::string(name) +
                         "' come after the last tensor is complete");
  const TensorSpec &spec = specs[current];
  if (spec.name != name)
    return Status::error(here + "bytes of tensor '" + std::string(name) +
                         "' come where tensor '" + spec.name + "' is expected");
  if (bytes > sizes[current] - written)
    return Status::error(here + "tensor '" + spec.name + "' of " +
                         std::to_string(sizes[current]) +
                         " bytes gets more than that");
  MIXLE_RETURN_IF_ERROR(file.write(data, bytes));
  written += bytes;
  skipComplete();
  return Status::success();
}

Status SafetensorsWriter::finish() {
  if (current < specs.size())
    return Status::error("cannot write '" + file.path() + "': tensor '" +
                         specs[current].name + "' has " +
                         std::to_string(written) + " of " +
                         std::to_string(sizes[current]) + " bytes");
  return file.commit();
}

Status writeSafetensors(const std::string &path,
                        const std::vector<TensorView> &tensors,
                        const std::map<std::string, std::string> &metadata) {
  std::vector<TensorSpec> specs;
  for (const TensorView &view : tensors)
    specs.push_back({view.name, view.type, view.shape});
  MIXLE_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::create(path, std::move(specs), metadata));
  for (const TensorView &view : tensors)
    MIXLE_RETURN_IF_ERROR(writer.write(view.name, view.data, view.bytes));
  return writer.finish();
}

} // namespace mixle::runtime
