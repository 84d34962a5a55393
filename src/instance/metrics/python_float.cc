// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/python_float.h"

#include <charconv>
#include <limits>
#include <string>

#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Without the underscores; nothing when one stands elsewhere than between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) {
    ++end;
  }
  return end - at;
}

// Digits, perhaps a point and more digits, perhaps an exponent; at least one digit before that.
bool is_decimal(std::string_view text) {
  const std::size_t whole = digits_at(text, 0);
  std::size_t at = whole;
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    fraction = digits_at(text, at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    at += at < text.size() && (text[at] == '+' || text[at] == '-') ? 1 : 0;
    const std::size_t exponent = digits_at(text, at);
    return exponent > 0 && at + exponent == text.size();
  }
  return at == text.size();
}

// Of a decimal beyond what a double can hold: whether it is too large, not too small.
bool is_large(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, e);
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    const bool negative = text[e + 1] == '-';
    std::string_view digits = text.substr(e + 1);
    digits.remove_prefix(negative || digits[0] == '+' ? 1 : 0);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) {
      return !negative;
    }
    exponent = negative ? -exponent : exponent;
  }
  const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first = static_cast<std::int64_t>(mantissa.find_first_of("123456789"));
  return point - first + exponent > 0;
}

std::optional<double> magnitude(std::string_view text) {
  const std::string word = lower(text);
  if (word == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (word == "inf" || word == "infinity") {
    return kInfinity;
  }
  if (!is_decimal(text)) {
    return std::nullopt;
  }
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::result_out_of_range) {
    return is_large(text) ? kInfinity : 0.0;
  }
  return value;
}

}  // namespace

std::optional<double> python_float(std::string_view text) {
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const std::optional<std::string> plain = without_underscores(text);
  const std::optional<double> value = plain ? magnitude(*plain) : std::nullopt;
  return value && negative ? std::optional(-*value) : value;
}

}  // namespace trainyard::instance
