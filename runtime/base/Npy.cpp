//===- Npy.cpp - Arrays in NumPy's file format
//------------------------------===//

#include "runtime/base/Npy.h"

#include "runtime/base/Safetensors.h" // shapeText

#include <array>
#include <cstring>

namespace mixle::runtime {

static constexpr std::array<std::string_view, 9> typeNames = {
    "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4"};
static constexpr std::array<uint64_t, 9> typeSizes = {4, 8, 1, 2, 4,
                                                      8, 1, 2, 4};
static constexpr char magic[] = "\x93NUMPY";
/// Bytes of a header that describes a plain array many times over.
static constexpr uint64_t maxHeader = 1 << 16;

std::string_view toString(NpyType type) {
  return typeNames[static_cast<size_t>(type)];
}
uint64_t elementSize(NpyType type) {
  return typeSizes[static_cast<size_t>(type)];
}

namespace {
/// Reads the header's Python dictionary: quoted keys with a quoted string, a
/// boolean or a tuple of integers.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text(text) {}

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
  /// What is wrong, after read() returned false.
  std::string problem;

  bool read() {
    bool hasDescr = false, hasOrder = false, hasShape = false;
    if (!take('{'))
      return malformed();
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':'))
        return malformed();
      bool *seen = key == "descr"           ? &hasDescr
                   : key == "fortran_order" ? &hasOrder
                   : key == "shape"         ? &hasShape
                                            : nullptr;
      if (!seen)
        return fail("its header has an unknown key '" + key + "'");
      if (*seen)
        return fail("its header has the key '" + key + "' twice");
      *seen = true;
      if (seen == &hasDescr) {
        skipSpaces();
        if (position < text.size() && text[position] == '[')
          return fail("it holds records of several fields; save one plain "
                      "array per file");
        if (!quoted(descr))
          return malformed();
      } else if (seen == &hasOrder ? !boolean() : !tuple()) {
        return problem.empty() ? malformed() : false;
      }
      if (!take(',') && !peek('}'))
        return malformed();
    }
    skipSpaces();
    if (position != text.size())
      return malformed();
    if (!hasDescr || !hasOrder || !hasShape)
      return fail(std::string("its header has no '") +
                  (!hasDescr   ? "descr"
                   : !hasOrder ? "fortran_order"
                               : "shape") +
                  "'");
    return true;
  }

private:
  bool fail(const std::string &message) {
    problem = message;
    return false;
  }
  bool malformed() {
    return fail("its header is malformed at byte " + std::to_string(position));
  }
  void skipSpaces() {
    while (position < text.size() &&
           (text[position] == ' ' || text[position] == '\n'))
      ++position;
  }
  bool peek(char c) {
    skipSpaces();
    return position < text.size() && text[position] == c;
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    ++position;
    return true;
  }
  bool quoted(std::string &value) {
    skipSpaces();
    if (position >= text.size() ||
        (text[position] != '\'' && text[position] != '"'))
      return false;
    size_t end = text.find(text[position], position + 1);
    if (end == std::string_view::npos)
      return false;
    value = std::string(text.substr(position + 1, end - position - 1));
    position = end + 1;
    return true;
  }
  bool boolean() {
    skipSpaces();
    for (std::string_view word : {"True", "False"})
      if (text.substr(position, word.size()) == word) {
        fortran = word == "True";
        position += word.size();
        return true;
      }
    return false;
  }
  bool tuple() {
    if (!take('('))
      return false;
    while (!take(')')) {
      skipSpaces();
      bool negative = take('-');
      size_t first = position;
      int64_t value = 0;
      for (; position < text.size() && text[position] >= '0' &&
             text[position] <= '9';
           ++position)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[position] - '0', &value))
          return fail("a dimension in its header is too large");
      if (position == first)
        return false;
      if (negative)
        return fail("its header has the negative dimension -" +
                    std::to_string(value));
      shape.push_back(value);
      if (!take(',') && !peek(')'))
        return false;
    }
    return true;
  }

  std::string_view text;
  size_t position = 0;
};
} // namespace

static Status elementTypeOf(const std::string &descr, NpyType &type) {
  char order = descr.empty() ? '?' : descr[0];
  std::string_view kind = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  for (size_t i = 0; i < typeNames.size(); ++i) {
    if (typeNames[i] != kind)
      continue;
    type = static_cast<NpyType>(i);
    if (order == '<' || (order == '|' && typeSizes[i] == 1))
      return Status::success();
    if (order == '>')
      return Status::error("its elements are big endian ('" + descr +
                           "'); save array.astype('<" + std::string(kind) +
                           "') instead");
  }
  std::string list;
  for (std::string_view name : typeNames)
    list += (list.empty() ? "" : ", ") + std::string(name);
  return Status::error("its elements have type '" + descr +
                       "', expected little-endian " + list +
                       "; save array.astype(...) of one of them instead");
}

Expected<NpyHeader> parseNpy(const uint8_t *data, uint64_t size,
                             const std::string &what) {
  auto fail = [&](const std::string &message) {
    return Status::error(what + ": not a readable .npy file: " + message);
  };
  if (size < 10 || std::memcmp(data, magic, 6) != 0)
    return fail("it does not begin with NumPy's magic string");
  unsigned version = data[6];
  if (version < 1 || version > 3)
    return fail("format version " + std::to_string(version) +
                ", expected 1 to 3");
  uint64_t lengthBytes = version == 1 ? 2 : 4, length = 0;
  if (size < 8 + lengthBytes)
    return fail("it ends in its header");
  for (uint64_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<uint64_t>(data[8 + i]) << (8 * i);
  if (length > size - 8 - lengthBytes)
    return fail("its header claims " + std::to_string(length) +
                " bytes, but the file has only " +
                std::to_string(size - 8 - lengthBytes) + " more");
  if (length > maxHeader)
    return fail("its header claims " + std::to_string(length) +
                " bytes, expected at most " + std::to_string(maxHeader));
  HeaderReader reader(std::string_view(
      reinterpret_cast<const char *>(data + 8 + lengthBytes), length));
  if (!reader.read())
    return fail(reader.problem);
  NpyHeader header;
  if (Status status = elementTypeOf(reader.descr, header.type); !status)
    return fail(status.message());
  header.shape = reader.shape;
  size_t rank = header.shape.size();
  if (rank < 1 || rank > 4)
    return fail("it has " + std::to_string(rank) +
                " dimensions, expected 1 to 4");
  if (reader.fortran && rank > 1)
    return fail("its elements are in Fortran order; save "
                "numpy.ascontiguousarray(array) instead");
  header.dataOffset = 8 + lengthBytes + length;
  uint64_t available = size - header.dataOffset, bytes = 0;
  int64_t elements = 1;
  bool overflow = false;
  for (int64_t dimension : header.shape)
    overflow |= __builtin_mul_overflow(elements, dimension, &elements);
  overflow |= __builtin_mul_overflow(static_cast<uint64_t>(elements),
                                     elementSize(header.type), &bytes);
  if (overflow)
    return fail("the size of its shape " + shapeText(header.shape) +
                " overflows");
  if (bytes != available)
    return fail(
        "its header says " + std::string(toString(header.type)) + " " +
        shapeText(header.shape) + ", " + std::to_string(bytes) +
        " bytes, but " + std::to_string(available) +
        (available < bytes ? " follow; the file is cut short" : " follow"));
  header.elements = elements;
  return header;
}

Expected<NpyFile> NpyFile::open(const std::string &path) {
  NpyFile result;
  MIXLE_ASSIGN_OR_RETURN(result.file, MappedFile::open(path));
  if (result.file.size() == 0)
    return Status::error(path + ": the file is empty, expected a .npy array");
  MIXLE_ASSIGN_OR_RETURN(
      NpyHeader header, parseNpy(result.file.data(), result.file.size(), path));
  result.elementType = header.type;
  result.dimensions = std::move(header.shape);
  result.count = header.elements;
  result.start = result.file.data() + header.dataOffset;
  return Expected<NpyFile>(std::move(result));
}

template <typename From, typename To>
static void convert(const uint8_t *data, int64_t first, int64_t n, To *out) {
  data += first * sizeof(From);
  for (int64_t i = 0; i < n; ++i) {
    From element;
    std::memcpy(&element, data + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(element);
  }
}

template <typename To>
static void convertFrom(NpyType type, const uint8_t *data, int64_t first,
                        int64_t n, To *out) {
  switch (type) {
  case NpyType::F4:
    return convert<float>(data, first, n, out);
  case NpyType::F8:
    return convert<double>(data, first, n, out);
  case NpyType::I1:
    return convert<int8_t>(data, first, n, out);
  case NpyType::I2:
    return convert<int16_t>(data, first, n, out);
  case NpyType::I4:
    return convert<int32_t>(data, first, n, out);
  case NpyType::I8:
    return convert<int64_t>(data, first, n, out);
  case NpyType::U1:
    return convert<uint8_t>(data, first, n, out);
  case NpyType::U2:
    return convert<uint16_t>(data, first, n, out);
  case NpyType::U4:
    return convert<uint32_t>(data, first, n, out);
  }
}

void NpyFile::toDouble(int64_t first, int64_t n, double *out) const {
  convertFrom(elementType, start, first, n, out);
}
void NpyFile::toFloat(int64_t first, int64_t n, float *out) const {
  convertFrom(elementType, start, first, n, out);
}
void NpyFile::toInt64(int64_t first, int64_t n, int64_t *out) const {
  convertFrom(elementType, start, first, n, out);
}

Status writeNpy(const std::string &path, NpyType type,
                const std::vector<int64_t> &shape, const void *data) {
  std::string dimensions;
  uint64_t bytes = elementSize(type);
  for (int64_t dimension : shape) {
    dimensions += std::to_string(dimension) + (shape.size() == 1 ? "," : ", ");
    if (dimension < 0 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes))
      return Status::error("cannot write '" + path + "': the shape " +
                           shapeText(shape) + " has no size");
  }
  if (shape.size() > 1)
    dimensions.resize(dimensions.size() - 2);
  std::string header =
      std::string("{'descr': '") + (elementSize(type) == 1 ? '|' : '<') +
      std::string(toString(type)) + "', 'fortran_order': False, 'shape': (" +
      dimensions + "), }";
  // Magic, version and length take 10 bytes; the whole is padded to 64, the
  // last byte of the header being a line feed.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string start(magic, 6);
  start += '\x01';
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  MIXLE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  MIXLE_RETURN_IF_ERROR(file.write(start + header));
  MIXLE_RETURN_IF_ERROR(file.write(data, bytes));
  return file.commit();
}

} // namespace mixle::runtime
