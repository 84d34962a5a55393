// SPDX-License-Identifier: Apache-2.0
// The translation of Python's syntax (library reference, "re") into PCRE2's (pcre2pattern(3)).
#include <algorithm>
#include <optional>

#include "formats/python_regex.h"

namespace trainyard {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  Result<Pcre2Form> run() {
    while (at_ < in_.size()) {
      YARD_TRY(take());
    }
    return std::move(form_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }
  void put(std::string_view text) { form_.expression += text; }
  void copy(std::size_t count) {
    put(in_.substr(at_, count));
    at_ += std::min(count, in_.size() - at_);
  }
  Error fault(std::string_view what) const {
    return {Code::kInvalidArgument, std::string(what) + " at offset " + std::to_string(at_)};
  }

  Result<void> take() {
    switch (peek()) {
      case '\\':
        return take_escape();
      case '[':
        return take_class();
      case '(':
        return take_group();
      case '{':
        take_brace();
        return {};
      case '#':
        copy(is_verbose_ ? std::min(in_.find('\n', at_), in_.size()) - at_ : 1);
        return {};
      default:
        copy(1);
        return {};
    }
  }

  Result<void> take_escape() {
    switch (peek(1)) {
      case 'Z':  // the very end; PCRE2's own \Z also matches before a last line end
        put("\\z");
        at_ += 2;
        return {};
      case 'v':  // a character; to PCRE2 a class
        put("\\x0b");
        at_ += 2;
        return {};
      case 'u':
        return take_code_point(4);
      case 'U':
        return take_code_point(8);
      case 'Q':
      case 'E':
      case 'C':
      case 'c':
        return fault(std::string("bad escape \\") + peek(1));
      default:
        copy(2);
        return {};
    }
  }

  Result<void> take_code_point(std::size_t digits) {
    const std::string_view hex = in_.substr(at_).substr(2, digits);
    if (hex.size() < digits || !std::ranges::all_of(hex, is_hex)) {
      return fault(std::string("incomplete escape \\") + peek(1));
    }
    put("\\x{" + std::string(hex) + "}");
    at_ += 2 + digits;
    return {};
  }

  // In Python [ has no meaning inside a class; in PCRE2 it may begin [:alpha:].
  Result<void> take_class() {
    copy(1);
    if (peek() == '^') {
      copy(1);
    }
    if (peek() == ']') {
      put("\\");
      copy(1);
    }
    while (at_ < in_.size()) {
      if (peek() == '\\') {
        YARD_TRY(take_escape());
        continue;
      }
      if (peek() == '[') {
        put("\\");
      }
      const bool is_end = peek() == ']';
      copy(1);
      if (is_end) {
        return {};
      }
    }
    return {};  // PCRE2 says what is missing
  }

  // {,n} means {0,n}; to this PCRE2 it is text.
  void take_brace() {
    std::size_t end = 2;
    while (peek(1) == ',' && is_digit(peek(end))) {
      ++end;
    }
    if (peek(1) == ',' && peek(end) == '}') {
      put("{0");
      at_ += 1;
      return;
    }
    copy(1);
  }

  Result<void> take_group() {
    if (peek(1) == '*') {
      return fault("nothing to repeat");
    }
    if (peek(1) == '?' && peek(2) == '#') {
      copy(std::min(in_.find(')', at_), in_.size()) - at_);
      return {};
    }
    if (peek(1) == '?' && take_flags()) {
      return {};
    }
    copy(1);
    return {};
  }

  // "(?im-s)" and "(?im-s:". False when it is no group of flags.
  bool take_flags() {
    constexpr std::string_view kFlags = "aimsux-";
    const std::size_t end = std::min(in_.find_first_not_of(kFlags, at_ + 2), in_.size());
    const std::string_view flags = in_.substr(at_ + 2, end - at_ - 2);
    if (flags.empty() || end == in_.size() || (in_[end] != ')' && in_[end] != ':')) {
      return false;
    }
    const std::string_view set = flags.substr(0, flags.find('-'));
    form_.is_ascii = form_.is_ascii || set.find('a') != std::string_view::npos;
    is_verbose_ = is_verbose_ || set.find('x') != std::string_view::npos;
    std::string kept(flags);
    std::erase_if(kept, [](char c) { return c == 'a' || c == 'u'; });
    at_ = end + 1;
    if (in_[end] == ':' || !kept.empty()) {
      put("(?" + kept + in_[end]);
    }
    return true;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  bool is_verbose_ = false;  // (?x) was seen: # begins a comment
  Pcre2Form form_;
};

}  // namespace

Result<Pcre2Form> python_to_pcre2(std::string_view expression) {
  return Translator(expression).run();
}

}  // namespace trainyard
