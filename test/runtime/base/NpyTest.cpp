//===- NpyTest.cpp
//----------------------------------------------------------===//

#include "runtime/base/Npy.h"
#include "test/runtime/base/TestFiles.h"

#include <cstring>

using namespace mixle::runtime;
using mixle::test::bytesOf;
using mixle::test::Folder;

/// A .npy image with the given dictionary, as NumPy would lay it out.
static std::string image(const std::string &dictionary, const std::string &data,
                         int version = 1) {
  size_t lengthBytes = version == 1 ? 2 : 4;
  std::string header = dictionary;
  while ((8 + lengthBytes + header.size() + 1) % 64 != 0)
    header += ' ';
  header += '\n';
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (size_t i = 0; i < lengthBytes; ++i)
    text += static_cast<char>(header.size() >> (8 * i));
  return text + header + data;
}

static std::string dictionary(const std::string &descr,
                              const std::string &shape,
                              const std::string &order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }";
}

static std::string errorOf(const std::string &content) {
  Folder folder;
  auto file = NpyFile::open(folder.put("a.npy", content));
  if (file)
    return "read";
  std::string message = file.status().message();
  EXPECT_EQ(message.rfind(folder / "a.npy", 0), 0u) << message;
  return message;
}

template <typename T>
static void roundTrip(NpyType type, std::vector<T> values,
                      std::vector<int64_t> shape) {
  Folder folder;
  std::string path = folder / "a.npy";
  ASSERT_TRUE(writeNpy(path, type, shape, values.data()));
  auto file = NpyFile::open(path);
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_EQ(file->type(), type);
  EXPECT_EQ(file->shape(), shape);
  ASSERT_EQ(file->elements(), static_cast<int64_t>(values.size()));
  EXPECT_EQ((file->data() - reinterpret_cast<const uint8_t *>(0)) % 64, 0);
  if (!values.empty()) {
    EXPECT_EQ(
        std::memcmp(file->data(), values.data(), values.size() * sizeof(T)), 0);
  }
  std::vector<double> reals(values.size());
  std::vector<float> floats(values.size());
  std::vector<int64_t> integers(values.size());
  file->toDouble(0, file->elements(), reals.data());
  file->toFloat(0, file->elements(), floats.data());
  if (!isReal(type))
    file->toInt64(0, file->elements(), integers.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(reals[i], static_cast<double>(values[i]));
    EXPECT_EQ(floats[i], static_cast<float>(values[i]));
    if (!isReal(type)) {
      EXPECT_EQ(integers[i], static_cast<int64_t>(values[i]));
    }
  }
}

TEST(Npy, RoundTripsEveryType) {
  roundTrip<float>(NpyType::F4, {1.5f, -0.0f, 3e38f}, {3});
  roundTrip<double>(NpyType::F8, {1.1, -2e300, 5e-324, 4}, {2, 2});
  roundTrip<int8_t>(NpyType::I1, {-128, 127}, {2, 1, 1});
  roundTrip<int16_t>(NpyType::I2, {-32768, 32767}, {1, 1, 1, 2});
  roundTrip<int32_t>(NpyType::I4, {INT32_MIN, INT32_MAX, 0}, {1, 3});
  roundTrip<int64_t>(NpyType::I8, {INT64_MIN, INT64_MAX}, {2});
  roundTrip<uint8_t>(NpyType::U1, {0, 255}, {2});
  roundTrip<uint16_t>(NpyType::U2, {0, 65535}, {2});
  roundTrip<uint32_t>(NpyType::U4, {0, UINT32_MAX}, {2});
  roundTrip<double>(NpyType::F8, {}, {0, 3});
}

TEST(Npy, WritesWhatNumPyWrites) {
  Folder folder;
  int32_t values[] = {1, 2, 3};
  ASSERT_TRUE(writeNpy(folder / "a.npy", NpyType::I4, {3}, values));
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': "
                       "(3,), }";
  EXPECT_EQ(folder.get("a.npy"), image(header, bytesOf(values)));
  uint8_t bytes[] = {1, 2};
  ASSERT_TRUE(writeNpy(folder / "b.npy", NpyType::U1, {2, 1}, bytes));
  EXPECT_EQ(folder.get("b.npy"),
            image("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1), }",
                  bytesOf(bytes)));
  EXPECT_FALSE(writeNpy(folder / "c.npy", NpyType::U1, {-1}, bytes));
  EXPECT_EQ(folder.count(), 2u);
}

TEST(Npy, ReadsAllVersionsAndKeyOrders) {
  std::string data = bytesOf(2.5f);
  for (int version : {1, 2, 3})
    EXPECT_EQ(errorOf(image(dictionary("<f4", "(1,)"), data, version)), "read");
  EXPECT_EQ(errorOf(image("{\"shape\": (1, 1), \"descr\": \"<f4\", "
                          "\"fortran_order\": False}",
                          data)),
            "read");
  // One dimension has no order.
  EXPECT_EQ(errorOf(image(dictionary("<f4", "(1,)", "True"), data)), "read");
}

TEST(Npy, PartsOfAnArray) {
  Folder folder;
  int16_t values[] = {1, 2, 3, 4, 5};
  ASSERT_TRUE(writeNpy(folder / "a.npy", NpyType::I2, {5}, values));
  auto file = NpyFile::open(folder / "a.npy");
  ASSERT_TRUE(file);
  int64_t part[2];
  file->toInt64(3, 2, part);
  EXPECT_EQ(part[0], 4);
  EXPECT_EQ(part[1], 5);
}

TEST(Npy, WaysOutOfWhatIsNotRead) {
  std::string eight(8, '\0');
  EXPECT_NE(errorOf(image(dictionary("<f8", "(1, 1)", "True"), eight))
                .find("Fortran order; save numpy.ascontiguousarray(array)"),
            std::string::npos);
  EXPECT_NE(errorOf(image(dictionary(">f8", "(1,)"), eight))
                .find("big endian ('>f8'); save array.astype('<f8')"),
            std::string::npos);
  for (const char *type : {"<u8", "<f2", "<c8", "|b1", "<U2", "|O", "f8", "",
                           "|f8", "=f8", "<f80"})
    EXPECT_NE(errorOf(image(dictionary(type, "(1,)"), eight))
                  .find("its elements have type '" + std::string(type) + "'"),
              std::string::npos)
        << type;
  EXPECT_NE(errorOf(image(dictionary("<f8", "()"), eight))
                .find("0 dimensions, expected 1 to 4"),
            std::string::npos);
  EXPECT_NE(errorOf(image(dictionary("<f8", "(1, 1, 1, 1, 1)"), eight))
                .find("5 dimensions"),
            std::string::npos);
  EXPECT_NE(errorOf(image("{'descr': [('a', '<f4')], 'fortran_order': False, "
                          "'shape': (1,), }",
                          eight))
                .find("records of several fields"),
            std::string::npos);
}

TEST(Npy, HostileHeaders) {
  std::string eight(8, '\0');
  EXPECT_NE(errorOf("").find("the file is empty"), std::string::npos);
  EXPECT_NE(errorOf("PK\x03\x04 not an array").find("magic"),
            std::string::npos);
  std::string good = image(dictionary("<f8", "(1,)"), eight);
  // Every truncation is refused, and one byte too many.
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(errorOf(good.substr(0, size)), "read") << size;
  EXPECT_NE(errorOf(good + "x"), "read");
  EXPECT_NE(errorOf(good.substr(0, good.size() - 1)).find("cut short"),
            std::string::npos);
  // Lengths that lie.
  std::string wild = good;
  wild[8] = wild[9] = '\xff';
  EXPECT_NE(errorOf(wild).find("claims 65535 bytes"), std::string::npos);
  std::string version2 = image(dictionary("<f8", "(1,)"), eight, 2);
  version2.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_NE(errorOf(version2).find("claims 4294967295 bytes"),
            std::string::npos);
  std::string version9 = good;
  version9[6] = 9;
  EXPECT_NE(errorOf(version9).find("version 9"), std::string::npos);
  // Shapes that lie.
  for (const char *shape :
       {"(2,)", "(0,)", "(-1,)", "(1000000, 1000000)",
        "(4611686018427387904, 4611686018427387904)", "(2305843009213693952,)",
        "(99999999999999999999,)", "(1.0,)", "(1", "1", "[1]", "(,)", "(1,,)",
        "('1',)"})
    EXPECT_NE(errorOf(image(dictionary("<f8", shape), eight)), "read") << shape;
  // Dictionaries that lie.
  for (const char *text :
       {"", "{", "}", "{}", "{'descr': '<f8'}", "{'descr': '<f8', }",
        "{'descr': '<f8', 'fortran_order': False}",
        "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': "
        "(1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f8' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} + {}",
        "__import__('os').system('true')"})
    EXPECT_NE(errorOf(image(text, eight)), "read") << text;
}

TEST(Npy, EveryFlippedHeaderBitIsReadOrRefusedInOrder) {
  std::string good = image(dictionary("<f8", "(1,)"), std::string(8, '\0'));
  size_t header = good.size() - 8;
  for (size_t bit = 0; bit < 8 * header; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    auto parsed = parseNpy(reinterpret_cast<const uint8_t *>(flipped.data()),
                           flipped.size(), "flipped");
    if (parsed) {
      EXPECT_EQ(parsed->dataOffset +
                    parsed->elements * elementSize(parsed->type),
                flipped.size());
    }
  }
}
