// SPDX-License-Identifier: Apache-2.0
// Regular expressions of AWS's model, run by PCRE2 with limits on matching steps, depth and memory,
// so that a hostile text costs bounded time. A limit that is hit counts as "does not match". PCRE2
// stays inside pattern.cc and formats/pcre2.h. Those of users are another matter:
// formats/python_regex.h.
#pragma once

#include <memory>
#include <string_view>

#include "api/model.h"
#include "base/result.h"

namespace trainyard::api {

// Compiled once, then used from any number of threads.
class Pattern {
 public:
  // Of a whole value, with Java's meaning of the classes: \d, \w and \s are ASCII, \p{L} is not.
  static Result<Pattern> compile_whole(std::string_view expression);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  bool matches(std::string_view text) const;  // false for text that is not UTF-8

 private:
  struct Program;
  explicit Pattern(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

// The shape's own pattern, compiled at its first use and kept. True for a shape without one.
bool matches_pattern(const Shape& shape, std::string_view text);

}  // namespace trainyard::api
