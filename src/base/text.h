// SPDX-License-Identifier: Apache-2.0
// Small string operations that the standard library lacks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard {

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);  // blanks, tabs, CR and LF at both ends
std::string lower(std::string_view text);      // ASCII only
std::string upper(std::string_view text);      // ASCII only
bool equal_ignoring_case(std::string_view a, std::string_view b);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The whole text must be the number.
Result<std::int64_t> parse_int(std::string_view text);
Result<double> parse_double(std::string_view text);

// "1.5 GiB", "12 KiB", "7 B".
std::string human_bytes(std::uint64_t bytes);

}  // namespace trainyard
