// SPDX-License-Identifier: Apache-2.0
#include "api/violations.h"

#include <cctype>

#include <nlohmann/json.hpp>

#include "base/encoding.h"

namespace trainyard::api {
namespace {

constexpr std::size_t kShownCharacters = 100;
constexpr std::size_t kMessageBytes = 32'768;

// As many parts as fit, then how many were left out.
std::string join_capped(const std::vector<std::string>& parts) {
  std::string text;
  std::size_t taken = 0;
  while (taken < parts.size() && text.size() + parts[taken].size() < kMessageBytes) {
    text += (taken == 0 ? "" : "; ") + parts[taken];
    ++taken;
  }
  if (taken < parts.size()) {
    text += "; and " + std::to_string(parts.size() - taken) + " more";
  }
  return text;
}

}  // namespace

std::string violation(std::optional<std::string_view> shown, std::string_view path,
                      std::string_view constraint) {
  std::string text = "Value ";
  if (shown.has_value()) {
    text.append("'").append(*shown).append("' ");
  }
  text.append("at '").append(path).append("' failed to satisfy constraint: ");
  return text.append(constraint);
}

std::string missing(std::string_view path) {
  return "Value null at '" + std::string(path) +
         "' failed to satisfy constraint: Member must not be null";
}

std::string shown_value(const nlohmann::json& value) {
  if (value.is_structured()) {
    return "[" + std::to_string(value.size()) + " entries]";
  }
  const std::string text =
      value.is_string() ? to_valid_utf8(value.get_ref<const std::string&>()) : value.dump();
  const std::string_view cut = utf8_prefix(text, kShownCharacters);
  return cut.size() < text.size() ? std::string(cut) + "..." : text;
}

std::string camel_case(std::string_view member) {
  std::string name(member);
  if (!name.empty()) {
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  }
  return name;
}

Error to_error(const Violations& violations) {
  std::string message;
  if (!violations.constraints.empty()) {
    const std::size_t count = violations.constraints.size();
    message = std::to_string(count) + " validation error" + (count == 1 ? "" : "s") +
              " detected: " + join_capped(violations.constraints);
  }
  if (violations.types.empty()) {
    return {.code = Code::kInvalidArgument, .message = std::move(message)};
  }
  std::string types = join_capped(violations.types);
  if (!message.empty()) {
    types += "; " + message;
  }
  return {.code = Code::kInvalidArgument, .message = std::move(types), .subject = "serialization"};
}

}  // namespace trainyard::api
