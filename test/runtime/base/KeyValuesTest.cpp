//===- KeyValuesTest.cpp
//----------------------------------------------------===//

#include "runtime/base/KeyValues.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace mixle::runtime;

static std::string errorOf(std::string_view text) {
  auto parsed = parseKeyValues(text, "--option");
  return parsed ? "parsed" : parsed.status().message();
}

TEST(KeyValues, HeadAndPairsInOrder) {
  auto parsed =
      parseKeyValues(" adamw , lr = 1e-3,weight_decay=0.1 ", "--optimizer");
  ASSERT_TRUE(parsed) << parsed.status().message();
  EXPECT_EQ(parsed->head, "adamw");
  ASSERT_EQ(parsed->pairs.size(), 2u);
  EXPECT_EQ(parsed->pairs[0].first, "lr");
  EXPECT_EQ(parsed->pairs[0].second, "1e-3");
  EXPECT_EQ(*parsed->find("weight_decay"), "0.1");
  EXPECT_EQ(parsed->find("adamw"), nullptr);
}

TEST(KeyValues, PairsWithoutHead) {
  auto parsed = parseKeyValues("dp_replicate=2,tp=a=b", "--plan");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->head, "");
  EXPECT_EQ(*parsed->find("tp"), "a=b");
}

TEST(KeyValues, Errors) {
  EXPECT_EQ(errorOf("tp=2,tp=3"),
            "--option: key 'tp' is given twice in 'tp=2,tp=3'");
  EXPECT_EQ(errorOf("=2"), "--option: an empty key before '=' in '=2'");
  EXPECT_EQ(errorOf("tp="), "--option: key 'tp' has no value in 'tp='");
  EXPECT_EQ(errorOf("tp= ,pp=2"),
            "--option: key 'tp' has no value in 'tp= ,pp=2'");
  EXPECT_EQ(errorOf("a=1,b"),
            "--option: 'b' has no value; expected key=value in 'a=1,b'");
  EXPECT_EQ(errorOf("adamw,sgd"),
            "--option: 'sgd' has no value; expected key=value in 'adamw,sgd'");
  for (const char *text : {",", "a=1,", ",a=1", "a=1,,b=2"})
    EXPECT_NE(errorOf(text).find("an empty element"), std::string::npos)
        << text;
  for (const char *text : {"", "  "})
    EXPECT_NE(errorOf(text).find("the text is empty"), std::string::npos);
}

TEST(KeyValues, UnknownKeysAreRefusedByName) {
  auto parsed = parseKeyValues("adamw,lr=1,lrr=2", "--optimizer");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->requireKnown("--optimizer", {"lrr", "lr"}));
  EXPECT_EQ(
      parsed->requireKnown("--optimizer", {"lr", "weight_decay"}).message(),
      "--optimizer: unknown key 'lrr'; known keys: lr, weight_decay");
}

TEST(KeyValues, Integers) {
  EXPECT_EQ(*parseInteger("-12", "x"), -12);
  EXPECT_EQ(*parseInteger("+12", "x"), 12);
  EXPECT_EQ(*parseInteger("9223372036854775807", "x"),
            std::numeric_limits<int64_t>::max());
  for (const char *text : {"", "+", "+-1", "1.0", "1e3", "0x10", "1 ", " 1",
                           "one", "--1", "1_000"})
    EXPECT_FALSE(parseInteger(text, "x")) << text;
  EXPECT_EQ(parseInteger("2.0", "tp").status().message(),
            "tp: '2.0' is not an integer");
  EXPECT_EQ(parseInteger("9223372036854775808", "tp").status().message(),
            "tp: 9223372036854775808 does not fit in a 64-bit integer");
}

TEST(KeyValues, Reals) {
  EXPECT_EQ(*parseReal("1e-3", "x"), 1e-3);
  EXPECT_EQ(*parseReal("+.5", "x"), 0.5);
  EXPECT_EQ(*parseReal("-0", "x"), 0.0);
  EXPECT_TRUE(std::signbit(*parseReal("-0", "x")));
  EXPECT_EQ(*parseReal("5e-324", "x"), 5e-324);
  for (const char *text : {"", "+", "1,5", "1.0f", "0x1", "1 ", "e5", "nan",
                           "inf", "-inf", "1e999", "--1", "+-1"})
    EXPECT_FALSE(parseReal(text, "x")) << text;
}

TEST(KeyValues, NumbersBeyondTheRange) {
  double value = 7;
  EXPECT_TRUE(parseNumber("1e999", value));
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(parseNumber("-1" + std::string(400, '0'), value));
  EXPECT_EQ(value, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(parseNumber("-1e-999", value));
  EXPECT_EQ(value, 0.0);
  EXPECT_TRUE(std::signbit(value));
  EXPECT_TRUE(parseNumber("0." + std::string(400, '0') + "1e401", value));
  EXPECT_EQ(value, 1.0);
  EXPECT_TRUE(parseNumber("nan", value));
  EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(parseNumber("-inf", value));
  EXPECT_TRUE(std::isinf(value));
}
