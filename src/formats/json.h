// SPDX-License-Identifier: Apache-2.0
// JSON text from outside into values and back, without the library's exceptions. Whoever looks into
// a value includes <nlohmann/json.hpp> in its own source file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard {

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20;  // more is kExhausted
  std::size_t depth = 64;                     // of objects and arrays; more is kInvalidArgument
};

// The whole text must be one JSON value in UTF-8 (kInvalidArgument, with the place, otherwise). Of
// a key that comes twice the last value stays, as in Python and JavaScript.
Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Compact for indent < 0. Bytes that are not UTF-8 become U+FFFD, and infinities and not-a-number
// become null: a bad string in a value never costs the answer.
std::string dump_json(const nlohmann::json& value, int indent = -1);

}  // namespace trainyard
