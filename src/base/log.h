// SPDX-License-Identifier: Apache-2.0
// The program's own log: one line a fact, "<time> <level> <text> key=value ...", to standard error
// or a file. Secrets are never passed in. Job output does not go through here.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace trainyard {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Call once, early. Empty `file` means standard error.
Result<void> start_log(LogLevel level, const Path& file = {});

void log_debug(std::string_view text);
void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

}  // namespace trainyard
