// SPDX-License-Identifier: Apache-2.0
#include "base/encoding.h"

#include <array>
#include <cstdint>

namespace trainyard {
namespace {

constexpr std::string_view kHexLower = "0123456789abcdef";
constexpr std::string_view kHexUpper = "0123456789ABCDEF";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::uint8_t byte_of(char c) {
  return static_cast<std::uint8_t>(c);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

constexpr std::array<std::int8_t, 256> make_base64_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<std::uint8_t>(kBase64[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}

constexpr std::array<std::int8_t, 256> kBase64Values = make_base64_values();

Error invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_blank) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return invalid("a '%' is not followed by two hexadecimal digits");
      }
      out += static_cast<char>(high << 4 | low);
      i += 2;
    }
  }
  return out;
}

struct Sequence {
  std::size_t length;  // of the character, or of the bytes that one U+FFFD stands for
  bool valid;
};

// The well-formed sequences of the Unicode standard, table 3-7: the second byte carries all the
// restrictions (no overlong forms, no surrogates, nothing above U+10FFFF).
Sequence first_sequence(std::string_view text) {
  const std::uint8_t lead = byte_of(text[0]);
  if (lead < 0x80) {
    return {1, true};
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return {1, false};
  }
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const std::uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (std::size_t i = 1; i < length; ++i) {
    const std::uint8_t from = i == 1 ? low : 0x80;
    const std::uint8_t to = i == 1 ? high : 0xbf;
    if (i >= text.size() || byte_of(text[i]) < from || byte_of(text[i]) > to) {
      return {i, false};
    }
  }
  return {length, true};
}

}  // namespace

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out += kHexLower[byte_of(c) >> 4];
    out += kHexLower[byte_of(c) & 15];
  }
  return out;
}

Result<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) {
    return invalid("hexadecimal text has an odd length");
  }
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) {
      return invalid("hexadecimal text holds another character");
    }
    out += static_cast<char>(high << 4 | low);
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t used = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < used ? byte_of(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= used ? kBase64[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return invalid("base64 text has a length that is not a multiple of four");
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t digits = 4;
    if (i + 4 == text.size() && text[i + 3] == '=') {
      digits = text[i + 2] == '=' ? 2 : 3;
    }
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int value = j < digits ? kBase64Values[byte_of(text[i + j])] : 0;
      if (value < 0) {
        return invalid("base64 text holds another character");
      }
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // One text for one value: the bits that padding leaves over are zero.
    if ((digits == 2 && (group & 0xffff) != 0) || (digits == 3 && (group & 0xff) != 0)) {
      return invalid("base64 text has bits left over");
    }
    for (std::size_t j = 0; j + 1 < digits; ++j) {
      out += static_cast<char>(group >> (16 - 8 * j) & 0xff);
    }
  }
  return out;
}

std::string uri_encode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (c == '/' && keep_slash)) {
      out += c;
    } else {
      out += '%';
      out += kHexUpper[byte_of(c) >> 4];
      out += kHexUpper[byte_of(c) & 15];
    }
  }
  return out;
}

Result<std::string> uri_decode(std::string_view text) {
  return percent_decode(text, false);
}

Result<std::string> form_decode(std::string_view text) {
  return percent_decode(text, true);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Sequence s = first_sequence(text);
    if (!s.valid) {
      return false;
    }
    text.remove_prefix(s.length);
  }
  return true;
}

std::size_t utf8_length(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    count += (byte_of(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return count;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Sequence s = first_sequence(text);
    out += s.valid && text[0] != '\0' ? text.substr(0, s.length) : kReplacement;
    text.remove_prefix(s.length);
  }
  return out;
}

std::string_view utf8_prefix(std::string_view text, std::size_t max_code_points) {
  std::size_t used = 0;
  for (std::size_t count = 0; count < max_code_points && used < text.size(); ++count) {
    used += first_sequence(text.substr(used)).length;
  }
  return text.substr(0, used);
}

}  // namespace trainyard
