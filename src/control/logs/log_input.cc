// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_input.h"

#include <fmt/format.h>

namespace trainyard::control {
namespace {

Error wrong_type(std::string_view name, std::string_view must_be) {
  return {Code::kInvalidArgument, fmt::format("{} must be {}", name, must_be), "serialization"};
}

}  // namespace

Error bad_parameter(std::string message) {
  return {Code::kInvalidArgument, std::move(message), "parameter"};
}

std::int64_t to_millis(WallTime time) {
  return time.time_since_epoch().count();
}

const nlohmann::json* LogInput::find(std::string_view name) const {
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<std::string>> LogInput::text(std::string_view name) const {
  const nlohmann::json* member = find(name);
  if (member == nullptr) {
    return std::optional<std::string>();
  }
  if (!member->is_string()) {
    return wrong_type(name, "a string");
  }
  return std::optional(member->get<std::string>());
}

Result<std::optional<std::int64_t>> LogInput::integer(std::string_view name) const {
  const nlohmann::json* member = find(name);
  if (member == nullptr) {
    return std::optional<std::int64_t>();
  }
  if (!member->is_number_integer()) {
    return wrong_type(name, "an integer");
  }
  return std::optional(member->get<std::int64_t>());
}

Result<std::optional<WallTime>> LogInput::time(std::string_view name) const {
  YARD_TRY(const std::optional<std::int64_t> millis, integer(name));
  if (!millis) {
    return std::optional<WallTime>();
  }
  if (*millis < 0) {
    return bad_parameter(fmt::format("{} must not be negative", name));
  }
  return std::optional(WallTime{Duration{*millis}});
}

Result<bool> LogInput::flag(std::string_view name) const {
  const nlohmann::json* member = find(name);
  if (member == nullptr) {
    return false;
  }
  if (!member->is_boolean()) {
    return wrong_type(name, "true or false");
  }
  return member->get<bool>();
}

Result<std::vector<std::string>> LogInput::texts(std::string_view name) const {
  std::vector<std::string> out;
  const nlohmann::json* member = find(name);
  if (member == nullptr) {
    return out;
  }
  if (!member->is_array()) {
    return wrong_type(name, "a list of strings");
  }
  for (const nlohmann::json& one : *member) {
    if (!one.is_string()) {
      return wrong_type(name, "a list of strings");
    }
    out.push_back(one.get<std::string>());
  }
  return out;
}

Result<std::size_t> LogInput::limit(std::size_t most) const {
  YARD_TRY(const std::optional<std::int64_t> asked, integer("limit"));
  if (asked && (*asked < 1 || *asked > static_cast<std::int64_t>(most))) {
    return bad_parameter(fmt::format("limit must be between 1 and {}", most));
  }
  return asked ? static_cast<std::size_t>(*asked) : most;
}

Result<std::string> LogInput::group() const {
  YARD_TRY(const std::optional<std::string> name, text("logGroupName"));
  YARD_TRY(const std::optional<std::string> identifier, text("logGroupIdentifier"));
  if (name && identifier) {
    return bad_parameter("only one of logGroupName and logGroupIdentifier may be given");
  }
  if (name) {
    return *name;
  }
  if (!identifier) {
    return bad_parameter("logGroupName is missing");
  }
  constexpr std::string_view kResource = ":log-group:";
  const std::size_t at = identifier->find(kResource);
  if (!identifier->starts_with("arn:") || at == std::string::npos) {
    return *identifier;
  }
  std::string from_arn = identifier->substr(at + kResource.size());
  if (from_arn.ends_with(":*")) {
    from_arn.resize(from_arn.size() - 2);
  }
  return from_arn;
}

}  // namespace trainyard::control
