// SPDX-License-Identifier: Apache-2.0
// Users' expressions, a NUL, and a line to search: each compiles or is refused with a reason, a
// search ends, and what it finds lies inside the line.
#include <string>

#include "base/encoding.h"
#include "formats/python_regex.h"
#include "testing/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using trainyard::PythonRegex;
  std::string_view rest = trainyard::fuzz::as_text(data, size);
  const std::string_view expression = trainyard::fuzz::take_until(rest, '\0');
  const std::string line = trainyard::to_valid_utf8(rest);
  auto regex = PythonRegex::compile(expression);
  if (!regex) {
    YARD_CHECK(!regex.error().message.empty(), "refused without a reason");
    YARD_CHECK(trainyard::to_valid_utf8(regex.error().message) == regex.error().message,
               "a reason that is not UTF-8");
    return 0;
  }
  const PythonRegex::Match first = regex->search(line);
  const PythonRegex::Match again = regex->search(line);
  YARD_CHECK(first.outcome == again.outcome && first.group == again.group, "not repeatable");
  if (first.has_group) {
    YARD_CHECK(regex->group_count() > 0, "a group that the expression does not have");
    YARD_CHECK(first.group.data() >= line.data() &&
                   first.group.data() + first.group.size() <= line.data() + line.size(),
               "a group outside of the line");
  }
  return 0;
}
