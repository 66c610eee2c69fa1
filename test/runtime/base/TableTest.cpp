//===- TableTest.cpp
//--------------------------------------------------------===//

#include "runtime/base/Table.h"
#include "runtime/base/Npy.h"
#include "test/runtime/base/TestFiles.h"

#include <cmath>
#include <limits>

using namespace mixle::runtime;
using mixle::test::Folder;

static Expected<Table> read(const std::string &content) {
  Folder folder;
  return readCsv(folder.put("rows.csv", content));
}

/// The message after the folder's name.
static std::string errorOf(const std::string &content) {
  auto table = read(content);
  if (table)
    return "read";
  std::string message = table.status().message();
  return message.substr(message.find("rows.csv"));
}

TEST(Csv, RowsWithAndWithoutHeader) {
  auto plain = read("1,2.5\n-3e2, 4 \n");
  ASSERT_TRUE(plain) << plain.status().message();
  EXPECT_EQ(plain->rows, 2);
  EXPECT_EQ(plain->columns, 2);
  EXPECT_EQ(plain->values, (std::vector<double>{1, 2.5, -300, 4}));
  EXPECT_TRUE(plain->header.empty());
  auto named = read("\xef\xbb\xbf\"alcohol\", hue\r\n\r\n1,+2\r\n \n3,.5");
  ASSERT_TRUE(named) << named.status().message();
  EXPECT_EQ(named->header, (std::vector<std::string>{"\"alcohol\"", "hue"}));
  EXPECT_EQ(named->values, (std::vector<double>{1, 2, 3, 0.5}));
}

TEST(Csv, ReadsDoublesExactly) {
  auto table = read("0.1,1e308,5e-324,-0.0,9007199254740993\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->values[0], 0.1);
  EXPECT_EQ(table->values[1], 1e308);
  EXPECT_EQ(table->values[2], 5e-324);
  EXPECT_TRUE(std::signbit(table->values[3]));
  EXPECT_EQ(table->values[4], 9007199254740992.0);
}

TEST(Csv, NonFiniteNumbersAreFoundByPlace) {
  auto table = read("1,2\n3,nan\ninf,4\n1e999,1\n");
  ASSERT_TRUE(table) << table.status().message();
  auto cell = findNonFinite(table->values.data(), table->rows, table->columns);
  ASSERT_TRUE(cell);
  EXPECT_EQ(cell->row, 1);
  EXPECT_EQ(cell->column, 1);
  EXPECT_FALSE(findNonFinite(table->values.data(), 1, 2));
  float floats[] = {1, 2, -std::numeric_limits<float>::infinity()};
  auto single = findNonFinite(floats, 3, 1);
  ASSERT_TRUE(single);
  EXPECT_EQ(single->row, 2);
  EXPECT_EQ(single->column, 0);
  EXPECT_FALSE(findNonFinite(floats, 0, 3));
}

TEST(Csv, Errors) {
  EXPECT_EQ(errorOf(""), "rows.csv: the file is empty; expected rows of "
                         "numbers separated by commas");
  EXPECT_EQ(errorOf("\n \r\n"), "rows.csv: the file is empty; expected rows of "
                                "numbers separated by commas");
  EXPECT_EQ(errorOf("a,b\n"), "rows.csv: the file has a header but no rows; "
                              "expected rows of numbers separated by commas");
  EXPECT_EQ(errorOf("1,2\n\n3,x\n"),
            "rows.csv: line 3, column 2: 'x' is not a number");
  EXPECT_EQ(errorOf("1,2\n3\n"),
            "rows.csv: line 2 has 1 fields, expected 2 as in the first row");
  EXPECT_EQ(errorOf("a,b\n1,2,3\n"),
            "rows.csv: line 2 has 3 fields, expected 2 as in the first row");
  EXPECT_EQ(errorOf("178,13,class_0\n1,2,3\n"),
            "rows.csv: line 1, column 3: 'class_0' is not a number");
  EXPECT_EQ(errorOf("1,2,\n"), "rows.csv: line 1, column 3: '' is not a "
                               "number");
  EXPECT_EQ(errorOf("1;2\n3;4\n"),
            "rows.csv: line 2, column 1: '3;4' is not a number");
  EXPECT_EQ(errorOf("1\n" + std::string(1000, 'y')),
            "rows.csv: line 2, column 1: '" + std::string(40, 'y') +
                "...' is not a number");
  EXPECT_EQ(errorOf("1\n0x10\n"),
            "rows.csv: line 2, column 1: '0x10' is not a number");
  EXPECT_FALSE(readCsv("no-such-file.csv"));
}

TEST(Csv, BinaryRubbishIsAnError) {
  std::string rubbish;
  for (int i = 0; i < 4096; ++i)
    rubbish += static_cast<char>(i * 37 + (i >> 3));
  EXPECT_NE(errorOf("1\n" + rubbish), "read");
}

TEST(NpyTable, OneAndTwoDimensions) {
  Folder folder;
  float values[] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(writeNpy(folder / "a.npy", NpyType::F4, {3, 2}, values));
  auto table = readTable(folder / "a.npy");
  ASSERT_TRUE(table) << table.status().message();
  EXPECT_EQ(table->rows, 3);
  EXPECT_EQ(table->columns, 2);
  EXPECT_EQ(table->values, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(writeNpy(folder / "b.npy", NpyType::F4, {6}, values));
  EXPECT_EQ(readTable(folder / "b.npy")->columns, 1);
  EXPECT_EQ(readTable(folder / "b.npy")->rows, 6);
  ASSERT_TRUE(writeNpy(folder / "c.npy", NpyType::F4, {1, 2, 3}, values));
  EXPECT_NE(readTable(folder / "c.npy")
                .status()
                .message()
                .find("shape [1, 2, 3], expected [rows, columns]"),
            std::string::npos);
  ASSERT_TRUE(writeNpy(folder / "d.npy", NpyType::F4, {0, 2}, values));
  EXPECT_NE(readTable(folder / "d.npy").status().message().find("is empty"),
            std::string::npos);
  EXPECT_EQ(readTable(folder.put("e.csv", "7\n"))->values,
            std::vector<double>{7});
}
