// SPDX-License-Identifier: Apache-2.0
// Where the verbs print, and in which dress: plain text and aligned tables, colours only on a
// terminal that wants them. Text from jobs is made safe for a terminal first.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/settings.h"

namespace trainyard::cli {

struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool is_tty = false;  // of `out`
  bool color = false;
};

// Sends out what was printed. An error when it did not arrive: a full disk, a reader that has gone.
Result<void> flush(const Terminal& terminal);

// Colours on a terminal, unless NO_COLOR is set or TERM is "dumb" (no-color.org).
bool wants_color(bool is_tty, const Environment& environment);

enum class Color { kPlain, kDim, kBold, kRed, kGreen, kYellow, kCyan };
Color color_of_status(std::string_view status);  // "Completed" is green, ...

// The text in its colour; as it is when `on` is false.
std::string paint(std::string_view text, Color color, bool on);

// Control characters other than tabs become '?'; colour sequences stay when `keep_colors`. For text
// of others on a terminal, which would obey it.
std::string printable(std::string_view text, bool keep_colors);

struct Cell {
  std::string text;
  Color color = Color::kPlain;
};

// Columns as wide as their widest cell, two blanks between them, none at the end of a line. Wide
// characters count as one column.
std::string render_table(const std::vector<std::string>& heads,
                         const std::vector<std::vector<Cell>>& rows, bool color);

// "2026-11-29 20:12:05Z", "2 h 05 min", "1 min 03 s", "12 s".
std::string show_time(WallTime time);
std::string show_duration(std::chrono::seconds time);

}  // namespace trainyard::cli
