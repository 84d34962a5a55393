// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace trainyard {
namespace {

using testing::ElementsAre;

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Trim, TakesBlanksOffBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Lower, TouchesAsciiOnly) {
  EXPECT_EQ(lower("AbZ-\xc3\x84"), "abz-\xc3\x84");
}

TEST(Upper, ChangesAsciiOnly) {
  EXPECT_EQ(upper("aBz-\xc3\xa4{`"), "ABZ-\xc3\xa4{`");
}

TEST(EqualIgnoringCase, ComparesWholeTexts) {
  EXPECT_TRUE(equal_ignoring_case("Content-MD5", "content-md5"));
  EXPECT_FALSE(equal_ignoring_case("content", "content-md5"));
  EXPECT_FALSE(equal_ignoring_case("[", "{"));
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
}

TEST(ParseInt, WantsTheWholeText) {
  EXPECT_EQ(*parse_int("-12"), -12);
  EXPECT_EQ(*parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* bad : {"", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(parse_int(bad).error().code, Code::kInvalidArgument) << bad;
  }
}

TEST(ParseDouble, WantsTheWholeText) {
  EXPECT_DOUBLE_EQ(*parse_double("-1.5e3"), -1500.0);
  EXPECT_DOUBLE_EQ(*parse_double("7"), 7.0);
  for (const char* bad : {"", ".", "1,5", "1.5 ", "e5", "1e999"}) {
    EXPECT_FALSE(parse_double(bad).has_value()) << bad;
  }
}

TEST(HumanBytes, ShowsOneDigitAtMost) {
  EXPECT_EQ(human_bytes(7), "7 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(12288), "12 KiB");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1 MiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16 EiB");
}

TEST(SeededRandom, GivesTheSameSequenceEverywhere) {
  SeededRandom random(1);
  EXPECT_EQ(random.hex(8), "686f68bb5fbd4522");
  EXPECT_EQ(SeededRandom(1).next(), 2469588189546311528U);  // the standard engine
}

TEST(SystemRandom, DoesNotRepeatItself) {
  SystemRandom random;
  EXPECT_EQ(random.hex(20).size(), 40u);
  EXPECT_NE(random.next(), random.next());
}

}  // namespace
}  // namespace trainyard
