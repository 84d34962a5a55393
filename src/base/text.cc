// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace trainyard {
namespace {

char lower_char(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

char upper_char(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

template <typename T>
Result<T> parse_number(std::string_view text, std::string_view kind) {
  T value{};
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the end says the size.
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || stop != text.data() + text.size()) {
    return Error{Code::kInvalidArgument, fmt::format("\"{}\" is not {}", text.substr(0, 64), kind)};
  }
  return value;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower_char);
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), upper_char);
  return result;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower_char(x) == lower_char(y); });
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (const std::string& part : parts) {
    if (&part != parts.data()) {
      result += separator;
    }
    result += part;
  }
  return result;
}

Result<std::int64_t> parse_int(std::string_view text) {
  return parse_number<std::int64_t>(text, "a whole number of 64 bits");
}

Result<double> parse_double(std::string_view text) {
  return parse_number<double>(text, "a number");
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  // 1023.95 would be shown as 1024.0.
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) {
    value /= 1024.0;
  }
  std::string digits = fmt::format("{:.1f}", value);
  if (digits.ends_with(".0")) {
    digits.resize(digits.size() - 2);
  }
  return fmt::format("{} {}", digits, kUnits[unit]);
}

}  // namespace trainyard
