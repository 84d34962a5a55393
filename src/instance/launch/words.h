// SPDX-License-Identifier: Apache-2.0
// Splits a text into words as a POSIX shell reads quotes and backslashes, and does nothing else
// that a shell does: no variables, no commands, no patterns. The rules are those of Python's
// shlex.split(), with which the SageMaker training toolkit reads custom MPI options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::instance {

// kInvalidArgument for a quotation without an end, or a backslash at the end.
Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace trainyard::instance
