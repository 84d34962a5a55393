// SPDX-License-Identifier: Apache-2.0
#include "instance/run/line_splitter.h"

#include <gtest/gtest.h>

#include "base/encoding.h"

namespace trainyard::instance {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

Lines lines_of(std::string_view text, std::size_t piece = std::string_view::npos) {
  LineSplitter splitter;
  Lines lines;
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size())) {
    splitter.push(text.substr(at, piece), SteadyTime{}, lines);
  }
  splitter.flush(lines);
  return lines;
}

struct Case {
  std::string name;
  std::string bytes;
  Lines lines;
};

class LineSplitterTable : public testing::TestWithParam<Case> {};

TEST_P(LineSplitterTable, GivesTheSameLinesWhateverThePieces) {
  EXPECT_EQ(lines_of(GetParam().bytes), GetParam().lines);
  EXPECT_EQ(lines_of(GetParam().bytes, 1), GetParam().lines);
  EXPECT_EQ(lines_of(GetParam().bytes, 3), GetParam().lines);
}

using std::string_literals::operator""s;

INSTANTIATE_TEST_SUITE_P(
    Cases, LineSplitterTable,
    testing::Values(Case{"Plain", "a\nb\n", {"a", "b"}}, Case{"Empty", "\n\na\n", {"", "", "a"}},
                    Case{"WindowsLineEnds", "a\r\nb\r\n", {"a", "b"}},
                    Case{"TailOfACrash", "a\nb", {"a", "b"}},
                    Case{"Japanese", "日本語😀\n", {"日本語😀"}},
                    Case{"InvalidBytes", "\xFF\xFE!\n", {"\uFFFD\uFFFD!"}},
                    Case{"Nul", "a\0b\n"s, {"a\uFFFDb"}},
                    Case{"Colours", "\x1b[1;32mloss\x1b[0m=0.5\n", {"loss=0.5"}},
                    Case{"Title", "\x1b]0;train\x07go\x1b]2;x\x1b\\!\n", {"go!"}},
                    Case{"EscapeAtLineEnd", "a\x1b\nb\n", {"a", "b"}},
                    Case{"Tabs", "a\tb\n", {"a\tb"}},
                    Case{"DoubleReturn", "a\r\r\nb\n", {"a", "b"}}),
    [](const auto& test) { return test.param.name; });

TEST(LineSplitter, ShowsAProgressBarOnceASecondAndItsFinalState) {
  LineSplitter splitter;
  Lines lines;
  SteadyTime now{std::chrono::hours(1)};
  for (int step = 1; step <= 2000; ++step) {
    splitter.push("\r" + std::to_string(step) + "/2000", now, lines);
    now += milliseconds(15);
  }
  splitter.push("\nloss=0.25\n", now, lines);
  EXPECT_LE(lines.size(), 33u);
  EXPECT_GE(lines.size(), 28u);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines[lines.size() - 2], "2000/2000");
  EXPECT_EQ(lines.back(), "loss=0.25");
}

TEST(LineSplitter, ShowsABarThatStandsStillAtTheNextTick) {
  LineSplitter splitter;
  Lines lines;
  const SteadyTime start{std::chrono::hours(1)};
  splitter.push("\r10%\r20%\r30%", start, lines);
  EXPECT_EQ(lines, (Lines{"10%"}));
  splitter.tick(start + milliseconds(500), lines);
  EXPECT_EQ(lines.size(), 1u);
  splitter.tick(start + milliseconds(1500), lines);
  EXPECT_EQ(lines, (Lines{"10%", "30%"}));
  splitter.push("\n", start + milliseconds(1600), lines);
  EXPECT_EQ(lines.size(), 2u) << "the final state is out already";
}

TEST(LineSplitter, CutsAMebibyteIntoEventsOfTheLongestSize) {
  const Lines lines = lines_of(std::string(std::size_t{1} << 20, 'x') + "\nend\n", 65536);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].size(), LineSplitter::kMaxEvent);
  EXPECT_EQ(lines[3].size(), LineSplitter::kMaxEvent);
  EXPECT_EQ(lines[4], "end");
}

TEST(LineSplitter, NeverCutsInsideACharacter) {
  std::string text;
  while (text.size() < 600'000) {
    text += "語";
  }
  std::string joined;
  for (const std::string& line : lines_of(text, 1000)) {
    EXPECT_TRUE(is_utf8(line));
    EXPECT_LE(line.size(), LineSplitter::kMaxEvent);
    EXPECT_EQ(line.find("\uFFFD"), std::string::npos);
    joined += line;
  }
  EXPECT_EQ(joined, text);
}

TEST(LineSplitter, BoundsLinesOfInvalidBytesToo) {
  for (const std::string& line : lines_of(std::string(300'000, '\xFF'))) {
    EXPECT_LE(line.size(), LineSplitter::kMaxEvent);
  }
}

TEST(LineSplitter, PutsThePrefixBeforeEveryEvent) {
  LineSplitter splitter("[rank 1] ");
  Lines lines;
  splitter.push("a\n" + std::string(300'000, 'x') + "\n", SteadyTime{}, lines);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "[rank 1] a");
  EXPECT_EQ(lines[1].substr(0, 10), "[rank 1] x");
  EXPECT_EQ(lines[1].size(), LineSplitter::kMaxEvent);
  EXPECT_EQ(lines[2].substr(0, 10), "[rank 1] x");
}

}  // namespace
}  // namespace trainyard::instance
