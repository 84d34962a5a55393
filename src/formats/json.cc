// SPDX-License-Identifier: Apache-2.0
#include "formats/json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace trainyard {
namespace {

// Looked at before parsing: the library has no limit, and its own recursion over a deep value would
// run out of stack later.
std::size_t nesting_of(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return Error{Code::kExhausted, "JSON text is larger than " + human_bytes(limits.bytes)};
  }
  if (nesting_of(text) > limits.depth) {
    return Error{Code::kInvalidArgument,
                 "JSON is nested deeper than " + std::to_string(limits.depth) + " levels"};
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& failure) {
    return Error{Code::kInvalidArgument, "not valid JSON at byte " + std::to_string(failure.byte)};
  } catch (const nlohmann::json::exception&) {
    return Error{Code::kInvalidArgument, "not valid JSON: a number is out of range"};
  }
}

std::string dump_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace trainyard
