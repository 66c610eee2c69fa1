//===- JsonTest.cpp
//---------------------------------------------------------===//

#include "runtime/base/Json.h"

#include <gtest/gtest.h>

using namespace mixle::runtime;

TEST(Json, KeepsTheOrderOfKeys) {
  auto value = parseJson(R"({"b": 1, "a": {"z": [1, 2], "y": null}})", "x");
  ASSERT_TRUE(value) << value.status().message();
  EXPECT_EQ(value->dump(), R"({"b":1,"a":{"z":[1,2],"y":null}})");
}

TEST(Json, RefusesRepeatedKeysAtAnyDepth) {
  auto flat = parseJson(R"({"a": 1, "b": 2, "a": 3})", "file.json");
  ASSERT_FALSE(flat);
  EXPECT_EQ(flat.status().message(),
            "file.json: key 'a' is given twice in one JSON object");
  auto deep = parseJson(R"([{"a": {"c": 1, "c": 2}}])", "file.json");
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.status().message(),
            "file.json: key 'c' is given twice in one JSON object");
  // The same key in two objects is no repetition.
  EXPECT_TRUE(parseJson(R"({"a": {"a": 1}, "b": {"a": 2}})", "x"));
}

TEST(Json, SaysWhereTheTextIsMalformed) {
  for (const char *text :
       {"", "{", "{\"a\":}", "[1,]", "{} {}", "nul", "\"\xff\"", "1e999999"}) {
    auto value = parseJson(text, "file.json");
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.status().message().rfind("file.json: not valid JSON: ", 0),
              0u)
        << value.status().message();
  }
  auto value = parseJson("{\n\"a\": ]", "file.json");
  EXPECT_NE(value.status().message().find("line 2, column 6"),
            std::string::npos)
      << value.status().message();
}

TEST(Json, AZeroByteDoesNotEndTheText) {
  auto value = parseJson(std::string_view("{}\0]", 4), "file.json");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.status().message(),
            "file.json: not valid JSON: byte 2 is zero");
}

TEST(Json, DeepNestingNeedsNoStack) {
  EXPECT_FALSE(parseJson(std::string(1 << 20, '['), "deep"));
}
