// SPDX-License-Identifier: Apache-2.0
// YARD_CHECK(condition, "what", values...): a broken invariant is a bug; it is printed with its
// place and values, and the process aborts. Never for input and never for I/O.
#pragma once

#include <source_location>
#include <string_view>

namespace trainyard {

[[noreturn]] void check_failed(std::string_view condition, std::string_view what,
                               std::source_location where = std::source_location::current());

}  // namespace trainyard

#define YARD_CHECK(condition, what)                  \
  do {                                               \
    if (!(condition)) {                              \
      ::trainyard::check_failed(#condition, (what)); \
    }                                                \
  } while (false)
