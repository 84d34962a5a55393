// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace trainyard::cli {
namespace {

Environment only(const std::string& wanted, const std::string& value) {
  return [=](const char* name) { return wanted == name ? value : std::string(); };
}

TEST(Table, AlignsColumnsAndLeavesNoBlanksAtTheEnd) {
  EXPECT_EQ(
      render_table({"NAME", "STATUS"}, {{{"a"}, {"Completed"}}, {{"longer-name"}, {""}}}, false),
      "NAME         STATUS\n"
      "a            Completed\n"
      "longer-name\n");
}

TEST(Table, CountsCharactersNotBytes) {
  EXPECT_EQ(render_table({"A", "B"}, {{{"\u00e4\u00f6"}, {"x"}}, {{"ab"}, {"y"}}}, false),
            "A   B\n\u00e4\u00f6  x\nab  y\n");
}

TEST(Table, PaintsWithoutMovingColumns) {
  EXPECT_EQ(render_table({"A", "B"}, {{{"x", Color::kRed}, {"y"}}}, true),
            "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[31mx\x1b[0m  y\n");
}

TEST(Colors, AreForWillingTerminalsOnly) {
  EXPECT_TRUE(wants_color(true, only("TERM", "xterm")));
  EXPECT_FALSE(wants_color(false, only("TERM", "xterm")));
  EXPECT_FALSE(wants_color(true, only("NO_COLOR", "1")));
  EXPECT_FALSE(wants_color(true, only("TERM", "dumb")));
}

TEST(Printable, KeepsATerminalFromObeyingAJob) {
  EXPECT_EQ(printable("a\tb\x1b[31mc\x1b[0m", true), "a\tb\x1b[31mc\x1b[0m");
  EXPECT_EQ(printable("\x1b[31mc", false), "?[31mc");
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J\r\x7f\xc2\x9b\x31m", true), "?]0;title??[2J???1m");
  EXPECT_EQ(printable("\u65e5\u672c\u00e4", true), "\u65e5\u672c\u00e4");
  EXPECT_EQ(printable("\xff", true), "\uFFFD");
}

TEST(Times, AreShort) {
  EXPECT_EQ(show_time(WallTime(std::chrono::seconds(1'796'069'525))), "2026-11-30 20:12:05Z");
  EXPECT_EQ(show_duration(std::chrono::seconds(12)), "12 s");
  EXPECT_EQ(show_duration(std::chrono::seconds(63)), "1 min 03 s");
  EXPECT_EQ(show_duration(std::chrono::seconds(7'500)), "2 h 05 min");
  EXPECT_EQ(show_duration(std::chrono::seconds(-5)), "0 s");
}

}  // namespace
}  // namespace trainyard::cli
