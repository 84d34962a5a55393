// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace trainyard {

void check_failed(std::string_view condition, std::string_view what, std::source_location where) {
  // Straight to standard error: the log may be what is broken.
  std::fprintf(stderr, "%s:%u: %s: check failed: %.*s: %.*s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(),
               static_cast<int>(condition.size()), condition.data(), static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace trainyard
