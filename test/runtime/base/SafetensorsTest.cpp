//===- SafetensorsTest.cpp
//--------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "test/runtime/base/TestFiles.h"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <malloc.h>
#include <new>

using namespace mixle::runtime;
using mixle::test::bytesOf;
using mixle::test::Folder;

//===----------------------------------------------------------------------===//
// How much memory a refusal takes
//===----------------------------------------------------------------------===//

static std::atomic<size_t> allocated{0}, highest{0};

void *operator new(size_t size) {
  void *memory = std::malloc(size);
  if (!memory)
    throw std::bad_alloc();
  size_t now = allocated += malloc_usable_size(memory);
  if (now > highest)
    highest = now;
  return memory;
}
void operator delete(void *memory) noexcept {
  if (memory)
    allocated -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

static std::string length(uint64_t value) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(value >> (8 * i));
  return text;
}

static std::string image(const std::string &header, size_t dataBytes) {
  return length(header.size()) + header + std::string(dataBytes, '\0');
}

/// A tensor's header entry.
static std::string entry(const std::string &name, const std::string &shape,
                         const std::string &offsets,
                         const std::string &type = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

/// The message after the path, or "read"; less than 1 MB may be in use on the
/// way.
static std::string errorOf(const std::string &content) {
  Folder folder;
  std::string path = folder.put("a.safetensors", content);
  size_t before = allocated;
  highest = before;
  auto file = SafetensorsFile::open(path);
  EXPECT_LT(highest - before, 1u << 20);
  if (file)
    return "read";
  std::string message = file.status().message();
  std::string start = path + ": not a valid safetensors file: ";
  EXPECT_EQ(message.rfind(start, 0), 0u) << message;
  return message.substr(start.size());
}

static void expectRefused(const std::string &content,
                          const std::vector<std::string> &parts) {
  std::string message = errorOf(content);
  EXPECT_NE(message, "read");
  for (const std::string &part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "'" << part << "' is not in: " << message;
}

//===----------------------------------------------------------------------===//
// The cases of the hostile-file collection
//===----------------------------------------------------------------------===//

TEST(Safetensors, B105HeaderLengthBombs) {
  expectRefused(std::string(8, '\xff') + "{}",
                {"header claims 18446744073709551615 bytes", "only 2"});
  expectRefused(length(uint64_t(1) << 40) + "{}",
                {"header claims 1099511627776 bytes"});
  expectRefused(std::string(7, '\0'), {"7 bytes, expected at least 8"});
  expectRefused(length(2) + "{}" + std::string(9, '\0'),
                {"9 bytes of data are left over"});
  expectRefused(image("{" + entry("t", "[1000,1000]", "[0,4]") + "}", 4),
                {"'t'", "4 bytes", "needs 4000000"});
  expectRefused(
      image(
          "{" +
              entry("t", "[4611686018427387904,4611686018427387904]", "[0,0]") +
              "}",
          0),
      {"'t'", "overflows"});
  expectRefused(image("{" + entry("t", "[-1]", "[0,0]") + "}", 0),
                {"'t'", "dimension -1"});
}

TEST(Safetensors, B106Offsets) {
  expectRefused(image("{" + entry("a", "[2]", "[0,8]") + "," +
                          entry("b", "[2]", "[4,12]") + "}",
                      12),
                {"'b' overlaps tensor 'a'"});
  expectRefused(image("{" + entry("a", "[1]", "[0,4]") + "," +
                          entry("b", "[1]", "[8,12]") + "}",
                      12),
                {"'b' leaves a hole", "begins at byte 8, expected 4"});
  expectRefused(image("{" + entry("t", "[1]", "[4,0]") + "}", 4),
                {"'t'", "[4, 0] are reversed"});
  expectRefused(image("{" + entry("t", "[2]", "[0,8]") + "}", 4),
                {"'t'", "past the end of the data (4 bytes)"});
  expectRefused(image("{" + entry("t", "[1]", "[0,4]") + "}", 9),
                {"'t'", "5 bytes of data are left over"});
  expectRefused(image("{" + entry("t", "[2]", "[0,8]") + "}", 7),
                {"'t'", "past the end of the data (7 bytes)"});
}

TEST(Safetensors, B108EmptyAndScalarTensors) {
  Folder folder;
  std::string header = "{" + entry("a", "[0,3]", "[0,0]") + "," +
                       entry("b", "[]", "[0,4]") + "}";
  std::string path =
      folder.put("a", length(header.size()) + header + bytesOf(1.5f));
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.status().message();
  const TensorView *a = file->find("a"), *b = file->find("b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->elements(), 0);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(b->shape, std::vector<int64_t>());
  float value = 0;
  ASSERT_TRUE(toFloat(*b, &value));
  EXPECT_EQ(value, 1.5f);
  EXPECT_EQ(file->find("c"), nullptr);
}

//===----------------------------------------------------------------------===//
// More hostile headers
//===----------------------------------------------------------------------===//

TEST(Safetensors, AnEmptyHeaderIsAFileWithoutTensors) {
  EXPECT_EQ(errorOf(image("{}", 0)), "read");
  EXPECT_EQ(errorOf(image("{}    ", 0)), "read");
  EXPECT_EQ(errorOf(image("{\"__metadata__\":{}}", 0)), "read");
}

TEST(Safetensors, HeadersThatAreNoHeaders) {
  expectRefused("", {"it has 0 bytes"});
  for (const char *header : {"", " {}", "\xef\xbb\xbf{}", "[]", "1", "\"a\""})
    expectRefused(image(header, 0), {"does not begin with '{'"});
  for (const char *header : {"{", "{}}", "{} {}", "{\"a\"}", "{\"a\":}", "{,}",
                             "{\"\xff\":1}", "{}\n//x"})
    expectRefused(image(header, 0), {"malformed JSON at byte"});
  expectRefused(image(std::string("{}\0\0", 4), 0), {"malformed JSON"});
  expectRefused(image("{\"a\":1}", 0), {"tensor 'a'", "a number"});
  expectRefused(image("{\"a\":null}", 0), {"tensor 'a'", "null"});
  expectRefused(image("{\"a\":[]}", 0), {"tensor 'a'", "an array"});
  expectRefused(image("{\"__metadata__\":{\"a\":1}}", 0), {"a number"});
  expectRefused(image("{\"__metadata__\":{\"a\":{}}}", 0), {"an object"});
  expectRefused(image("{\"__metadata__\":{},\"__metadata__\":{}}", 0),
                {"__metadata__ is given twice"});
  expectRefused(image("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0),
                {"'a' twice"});
}

TEST(Safetensors, EntriesThatAreNoTensors) {
  auto refuse = [](const std::string &body, const std::string &part) {
    expectRefused(image("{\"t\":" + body + "}", 4), {"tensor 't'", part});
  };
  refuse("{}", "no dtype");
  refuse(R"({"dtype":"F32"})", "no shape");
  refuse(R"({"dtype":"F32","shape":[1]})", "no data_offsets");
  refuse(R"({"shape":[1],"data_offsets":[0,4]})", "no dtype");
  refuse(R"({"dtype":"F32","dtype":"F32"})", "dtype is given twice");
  refuse(R"({"dtype":"F32","strides":[1]})", "unknown field 'strides'");
  refuse(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})",
         "dtype 'F8_E4M3' is not supported; expected one of F64, F32");
  refuse(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})",
         "dtype 'f32' is not supported");
  refuse(R"({"dtype":7})", "a number");
  refuse(R"({"shape":"[1]"})", "a string");
  refuse(R"({"shape":[1.0]})", "dimension 1.0 is not");
  refuse(R"({"shape":[1e3]})", "dimension 1e3 is not");
  refuse(R"({"shape":[-0]})", "dimension 0 is not");
  refuse(R"({"shape":[true]})", "a boolean");
  refuse(R"({"shape":[[1]]})", "an array");
  refuse(R"({"shape":[18446744073709551615]})", "is too large");
  refuse(R"({"shape":[99999999999999999999]})", "99999999999999999999");
  refuse(R"({"data_offsets":[0]})", "no dtype");
  refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})",
         "data_offsets has 1 numbers");
  refuse(R"({"data_offsets":[0,4,8]})", "more than 2 numbers");
  refuse(R"({"data_offsets":[-4,4]})", "offset -4 is not");
  refuse(R"({"data_offsets":[0,99999999999999999999]})", "offset");
  refuse(
      R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})",
      "past the end");
  refuse(
      R"({"dtype":"F32","shape":[2305843009213693952,2],"data_offsets":[0,0]})",
      "overflows");
  expectRefused(image("{" + entry("t", "[1]", "[0,4]") + "," +
                          entry("t", "[1]", "[4,8]") + "}",
                      8),
                {"tensor 't' is given twice"});
  expectRefused(image("{" + entry("t", "[1]", "[4,8]") + "}", 8),
                {"'t' leaves a hole before it"});
}

TEST(Safetensors, AHeaderOfMoreThan100MegabytesIsRefused) {
  // A sparse file: it has the size that its header claims and no content.
  Folder folder;
  std::string path = folder.put("a", length(100'000'001) + "{");
  std::filesystem::resize_file(path, 100'000'009);
  auto file = SafetensorsFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_NE(file.status().message().find("claims 100000001 bytes, expected at "
                                         "most 100000000"),
            std::string::npos);
}

TEST(Safetensors, ALongHostileHeaderIsLeftAtItsFirstOffence) {
  expectRefused(image("{\"a\":" + std::string(20 << 20, '['), 0),
                {"tensor 'a'", "an array"});
}

TEST(Safetensors, DamagedFilesAreReadOrRefusedInOrder) {
  Folder folder;
  float values[] = {1, 2, 3};
  std::string path = folder / "a";
  TensorView view = {"weight",
                     TensorType::F32,
                     {3},
                     reinterpret_cast<const uint8_t *>(values),
                     12};
  TensorView empty = {"empty", TensorType::I8, {0}, nullptr, 0};
  ASSERT_TRUE(writeSafetensors(path, {view, empty}, {{"k", "v"}}));
  std::string good = folder.get("a");
  auto parse = [](const std::string &bytes) {
    std::vector<TensorView> tensors;
    std::map<std::string, std::string> metadata;
    const uint8_t *data = reinterpret_cast<const uint8_t *>(bytes.data());
    Status status =
        parseSafetensors(data, bytes.size(), "damaged", tensors, metadata);
    if (status) {
      for (const TensorView &tensor : tensors) {
        EXPECT_GE(tensor.data, data);
        EXPECT_LE(tensor.data + tensor.bytes, data + bytes.size());
      }
    }
    return status.ok();
  };
  ASSERT_TRUE(parse(good));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse(good.substr(0, size))) << size;
  EXPECT_FALSE(parse(good + '\0'));
  for (size_t bit = 0; bit < 8 * (good.size() - 12); ++bit) {
    std::string flipped = good;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    (void)parse(flipped);
  }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

TEST(Safetensors, RoundTripInTheGivenOrder) {
  Folder folder;
  std::string path = folder / "a.safetensors";
  double doubles[] = {1.25, -0.0};
  float floats[] = {1, 2, 3, 4, 5, 6};
  uint8_t flags[] = {1, 0, 1};
  auto writer =
      SafetensorsWriter::create(path,
                                {{"z", TensorType::F32, {2, 3}},
                                 {"flags", TensorType::Bool, {3}},
                                 {"none", TensorType::F32, {0, 4}},
                                 {"a \"quoted\" \u00e9", TensorType::F64, {2}},
                                 {"scalar", TensorType::F64, {}}},
                                {{"format", "pt"}});
  ASSERT_TRUE(writer) << writer.status().message();
  EXPECT_TRUE(writer->write("z", floats, 8)); // in pieces
  EXPECT_TRUE(writer->write("z", floats + 2, 16));
  EXPECT_TRUE(writer->write("flags", flags, 3));
  EXPECT_TRUE(writer->write("none", nullptr, 0));
  EXPECT_TRUE(writer->write("a \"quoted\" \u00e9", doubles, 16));
  EXPECT_TRUE(writer->write("scalar", doubles, 8));
  EXPECT_FALSE(isRegularFile(path));
  ASSERT_TRUE(writer->finish());

  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 5u);
  EXPECT_EQ(file->tensors()[0].name, "z");
  EXPECT_EQ(file->tensors()[2].name, "none");
  EXPECT_EQ(file->tensors()[3].name, "a \"quoted\" \u00e9");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(std::memcmp(file->find("z")->data, floats, sizeof(floats)), 0);
  EXPECT_EQ(std::memcmp(file->find("flags")->data, flags, 3), 0);
  double back[2];
  ASSERT_TRUE(toDouble(file->tensors()[3], back)); // not aligned: 27 bytes in
  EXPECT_EQ(std::memcmp(back, doubles, sizeof(back)), 0);

  std::string bytes = folder.get("a.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(bytes.substr(8, 16), "{\"__metadata__\":");
  // A moved file keeps its views.
  SafetensorsFile moved = file.take();
  EXPECT_EQ(std::memcmp(moved.find("z")->data, floats, sizeof(floats)), 0);
}

TEST(Safetensors, TheWriterRefusesWhatDoesNotFit) {
  Folder folder;
  std::string path = folder / "a";
  float values[4] = {};
  auto create = [&](std::vector<TensorSpec> specs) {
    auto writer = SafetensorsWriter::create(path, std::move(specs));
    return writer ? std::string("created") : writer.status().message();
  };
  EXPECT_NE(create({{"", TensorType::F32, {}}}).find("no name for a tensor"),
            std::string::npos);
  EXPECT_NE(create({{"__metadata__", TensorType::F32, {}}}).find("no name"),
            std::string::npos);
  EXPECT_NE(create({{"a", TensorType::F32, {}}, {"a", TensorType::F32, {}}})
                .find("tensor 'a' is given twice"),
            std::string::npos);
  EXPECT_NE(create({{"a", TensorType::F32, {-1}}}).find("has shape [-1]"),
            std::string::npos);
  EXPECT_NE(create({{"a", TensorType::F64, {INT64_MAX, 2}}}).find("overflows"),
            std::string::npos);
  EXPECT_NE(create({{"\xff", TensorType::F32, {}}}).find("UTF-8"),
            std::string::npos);

  auto writer = SafetensorsWriter::create(
      path, {{"a", TensorType::F32, {2}}, {"b", TensorType::F32, {1}}});
  ASSERT_TRUE(writer);
  EXPECT_NE(writer->write("b", values, 4)
                .message()
                .find("'b' come where tensor 'a' is expected"),
            std::string::npos);
  EXPECT_NE(
      writer->write("a", values, 12).message().find("'a' of 8 bytes gets more"),
      std::string::npos);
  EXPECT_TRUE(writer->write("a", values, 4));
  EXPECT_NE(writer->finish().message().find("tensor 'a' has 4 of 8 bytes"),
            std::string::npos);
  EXPECT_TRUE(writer->write("a", values, 4));
  EXPECT_TRUE(writer->write("b", values, 4));
  EXPECT_NE(writer->write("b", values, 4).message().find("after the last"),
            std::string::npos);
  EXPECT_FALSE(isRegularFile(path));
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(folder.count(), 1u);
}

TEST(Safetensors, AFullDiskLeavesNothing) {
  FileCalls full = FileCalls::system();
  full.write = [](int, const void *, size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  Folder folder;
  folder.put("a", "before");
  {
    auto writer = SafetensorsWriter::create(
        folder / "a", {{"t", TensorType::U8, {4 << 20}}}, {}, full);
    ASSERT_TRUE(writer);
    std::string data(4 << 20, 'x');
    EXPECT_EQ(writer->write("t", data.data(), data.size()).message(),
              "cannot write '" + folder / "a" + "': No space left on device");
    EXPECT_FALSE(writer->finish());
  }
  EXPECT_EQ(folder.get("a"), "before");
  EXPECT_EQ(folder.count(), 1u);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

TEST(Safetensors, HalvesAreExact) {
  // Every half: sign, exponent and fraction say what its value is.
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    float value = halfToFloat(static_cast<uint16_t>(bits));
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
      continue;
    }
    double expected = exponent ? std::ldexp(1024 + fraction, exponent - 25)
                               : std::ldexp(fraction, -24);
    ASSERT_EQ(std::fabs(value), expected) << bits;
  }
}

TEST(Safetensors, ConvertsEveryFloatingType) {
  uint16_t halves[] = {0x3c00, 0xc000, 0x0001};
  uint16_t bfloats[] = {0x3f80, 0xc040, 0x0001};
  double doubles[] = {0.1, 1e300, -1e-300};
  float floats[] = {0.1f, 3e38f, -0.0f};
  auto view = [](TensorType type, const void *data, uint64_t bytes) {
    return TensorView{
        "t", type, {3}, static_cast<const uint8_t *>(data), bytes};
  };
  float f[3];
  double d[3];
  ASSERT_TRUE(toFloat(view(TensorType::F16, halves, 6), f));
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_EQ(f[1], -2.0f);
  EXPECT_EQ(f[2], 0x1p-24f);
  ASSERT_TRUE(toDouble(view(TensorType::BF16, bfloats, 6), d));
  EXPECT_EQ(d[0], 1.0);
  EXPECT_EQ(d[1], -3.0);
  EXPECT_EQ(d[2], 0x1p-133);
  ASSERT_TRUE(toFloat(view(TensorType::F64, doubles, 24), f));
  EXPECT_EQ(f[0], 0.1f);
  EXPECT_EQ(f[1], std::numeric_limits<float>::infinity());
  EXPECT_EQ(f[2], 0.0f);
  EXPECT_TRUE(std::signbit(f[2]));
  ASSERT_TRUE(toDouble(view(TensorType::F32, floats, 12), d));
  EXPECT_EQ(d[0], static_cast<double>(0.1f));
  EXPECT_TRUE(std::signbit(d[2]));
  EXPECT_EQ(toFloat(view(TensorType::I8, floats, 3), f).message(),
            "tensor 't' has dtype I8, expected a floating-point type (F64, "
            "F32, F16 or BF16)");
}

TEST(Safetensors, ConvertsEveryIntegerType) {
  int64_t i64[] = {INT64_MIN, 0, INT64_MAX};
  int32_t i32[] = {INT32_MIN, 0, INT32_MAX};
  int16_t i16[] = {-32768, 0, 32767};
  int8_t i8[] = {-128, 0, 127};
  uint8_t u8[] = {0, 1, 255};
  int64_t out[3];
  auto check = [&](TensorType type, const auto &values) {
    TensorView view = {"t",
                       type,
                       {3},
                       reinterpret_cast<const uint8_t *>(values),
                       sizeof(values)};
    ASSERT_TRUE(toInt64(view, out));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(out[i], static_cast<int64_t>(values[i]));
  };
  check(TensorType::I64, i64);
  check(TensorType::I32, i32);
  check(TensorType::I16, i16);
  check(TensorType::I8, i8);
  check(TensorType::U8, u8);
  check(TensorType::Bool, u8);
  TensorView real = {"t", TensorType::F32, {0}, nullptr, 0};
  EXPECT_FALSE(toInt64(real, out));
}

TEST(Safetensors, TypeNames) {
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(*parseTensorType(toString(TensorType(i))), TensorType(i));
  EXPECT_EQ(elementSize(TensorType::BF16), 2u);
  EXPECT_EQ(elementSize(TensorType::Bool), 1u);
  EXPECT_EQ(toString(TensorType::Bool), "BOOL");
  EXPECT_EQ(shapeText({}), "[]");
  EXPECT_EQ(shapeText({2, 0}), "[2, 0]");
}
