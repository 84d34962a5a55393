// SPDX-License-Identifier: Apache-2.0
#include "formats/json.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace trainyard {
namespace {

using testing::HasSubstr;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJson, ReadsOneValue) {
  const auto value = parse_json(R"({"a": [1, -2.5, "x\u00e4", null, true]})");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->at("a").size(), 5u);
  EXPECT_EQ(value->at("a")[2].get<std::string>(), "x\xc3\xa4");
}

TEST(ParseJson, KeepsTheLastOfEqualKeys) {
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})")->at("a").get<int>(), 2);
}

TEST(ParseJson, KeepsLargeWholeNumbers) {
  EXPECT_EQ(parse_json("18446744073709551615")->get<std::uint64_t>(), 18446744073709551615U);
  EXPECT_EQ(parse_json("-9223372036854775808")->get<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
}

class BadJson : public testing::TestWithParam<std::string_view> {};

TEST_P(BadJson, IsRefused) {
  EXPECT_EQ(parse_json(GetParam()).error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Texts, BadJson,
                         testing::Values("", " ", "{", "{\"a\":}", "[1,]", "{} {}", "nul", "01",
                                         "NaN", "1e999", "'a'", "\"\x01\"", "\"\xff\"",
                                         "\"\xed\xa0\x80\"", "\"\\ud800\"", "\"\\", "\"", "{\"",
                                         "// c\n1"));

TEST(ParseJson, NamesThePlace) {
  EXPECT_THAT(parse_json("[1, x]").error().message, HasSubstr("byte 5"));
}

TEST(ParseJson, BoundsDepthAndSize) {
  EXPECT_TRUE(parse_json(nested(64)).has_value());
  EXPECT_EQ(parse_json(nested(65)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(parse_json(std::string(1'000'000, '[')).error().code, Code::kInvalidArgument);
  EXPECT_EQ(parse_json("[1, 2, 3]", {.bytes = 8}).error().code, Code::kExhausted);
}

TEST(ParseJson, DoesNotCountBracketsInStrings) {
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\\\"[\"").has_value());
  EXPECT_FALSE(parse_json("[\"\\\\\"" + nested(64) + "]").has_value());
}

TEST(ParseJson, SurvivesRandomText) {
  constexpr std::string_view kAlphabet = "[]{}\",:\\u0123eE+-.truefalsn \n\xc3\xa4\xff";
  SeededRandom random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random.next() % 24, ' ');
    for (char& c : text) {
      c = kAlphabet[random.next() % kAlphabet.size()];
    }
    const auto value = parse_json(text);
    if (value) {
      EXPECT_EQ(*parse_json(dump_json(*value)), *value) << text;
    }
  }
}

TEST(DumpJson, GivesTheSameValueBack) {
  const std::string text = R"({"a":[1,2.5,"x"],"b":{"c":null}})";
  EXPECT_EQ(dump_json(*parse_json(text)), text);
  EXPECT_EQ(dump_json(*parse_json("[1]"), 2), "[\n  1\n]");
}

TEST(DumpJson, RepairsWhatJsonCannotSay) {
  const nlohmann::json value = {{"text", "a\xff"},
                                {"number", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(dump_json(value), "{\"number\":null,\"text\":\"a\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace trainyard
