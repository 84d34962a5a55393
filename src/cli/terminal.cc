// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <ostream>

#include "base/encoding.h"

namespace trainyard::cli {
namespace {

std::string_view code_of(Color color) {
  switch (color) {
    case Color::kPlain:
      return "";
    case Color::kDim:
      return "\x1b[2m";
    case Color::kBold:
      return "\x1b[1m";
    case Color::kRed:
      return "\x1b[31m";
    case Color::kGreen:
      return "\x1b[32m";
    case Color::kYellow:
      return "\x1b[33m";
    case Color::kCyan:
      return "\x1b[36m";
  }
  return "";
}

// The length of a colour sequence (ESC [ digits and ; m) at the start of `text`; 0: none.
std::size_t color_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) {
    return 0;
  }
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::size_t width_of(std::string_view text) {
  return utf8_length(text);
}

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

}  // namespace

Result<void> flush(const Terminal& terminal) {
  errno = 0;
  terminal.out.flush();
  if (terminal.out.good()) {
    return {};
  }
  constexpr std::string_view kWhat = "cannot write the output";
  const int why = errno;
  return Error{.code = Code::kInternal,
               .message = why == 0 ? std::string(kWhat) : errno_error(kWhat, why).message,
               .subject = "output"};
}

bool wants_color(bool is_tty, const Environment& environment) {
  return is_tty && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

Color color_of_status(std::string_view status) {
  if (status == "Completed") {
    return Color::kGreen;
  }
  if (status == "Failed") {
    return Color::kRed;
  }
  if (status == "InProgress") {
    return Color::kCyan;
  }
  return status == "Stopped" || status == "Stopping" ? Color::kYellow : Color::kPlain;
}

std::string paint(std::string_view text, Color color, bool on) {
  if (!on || color == Color::kPlain || text.empty()) {
    return std::string(text);
  }
  return std::string(code_of(color)) + std::string(text) + "\x1b[0m";
}

std::string printable(std::string_view text, bool keep_colors) {
  const std::string valid = to_valid_utf8(text);
  const std::string_view all = valid;
  std::string out;
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t sequence = keep_colors ? color_sequence(all.substr(i)) : 0;
    if (sequence > 0) {
      out += all.substr(i, sequence);
      i += sequence;
      continue;
    }
    const auto c = static_cast<unsigned char>(all[i]);
    // U+0080 to U+009F are controls too; in UTF-8 they are C2 80 to C2 9F.
    const bool is_c1 =
        c == 0xC2 && i + 1 < all.size() && static_cast<unsigned char>(all[i + 1]) < 0xA0;
    if (is_c1) {
      out += '?';
      i += 2;
      continue;
    }
    out += (c < 0x20 && c != '\t') || c == 0x7F ? '?' : all[i];
    ++i;
  }
  return out;
}

std::string render_table(const std::vector<std::string>& heads,
                         const std::vector<std::vector<Cell>>& rows, bool color) {
  std::vector<std::size_t> widths;
  widths.reserve(heads.size());
  for (const std::string& head : heads) {
    widths.push_back(width_of(head));
  }
  for (const std::vector<Cell>& row : rows) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i].text));
    }
  }
  std::string out;
  const auto add_line = [&](const std::vector<Cell>& cells) {
    std::string line;
    std::size_t blanks = 0;
    for (std::size_t i = 0; i < cells.size() && i < widths.size(); ++i) {
      if (!cells[i].text.empty()) {
        line += std::string(blanks, ' ') + paint(cells[i].text, cells[i].color, color);
        blanks = 0;
      }
      blanks += widths[i] - width_of(cells[i].text) + 2;
    }
    out += line + "\n";
  };
  std::vector<Cell> head_cells;
  head_cells.reserve(heads.size());
  for (const std::string& head : heads) {
    head_cells.push_back({.text = head, .color = Color::kBold});
  }
  add_line(head_cells);
  for (const std::vector<Cell>& row : rows) {
    add_line(row);
  }
  return out;
}

std::string show_time(WallTime time) {
  std::string text = to_iso8601(time);
  text.erase(std::min<std::size_t>(text.size(), 19));
  std::ranges::replace(text, 'T', ' ');
  return text + "Z";
}

std::string show_duration(std::chrono::seconds time) {
  const std::int64_t seconds = std::max<std::int64_t>(time.count(), 0);
  if (seconds < 60) {
    return std::to_string(seconds) + " s";
  }
  if (seconds < 3'600) {
    return std::to_string(seconds / 60) + " min " + two_digits(seconds % 60) + " s";
  }
  return std::to_string(seconds / 3'600) + " h " + two_digits(seconds / 60 % 60) + " min";
}

}  // namespace trainyard::cli
