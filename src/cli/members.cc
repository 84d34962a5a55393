// SPDX-License-Identifier: Apache-2.0
#include "cli/members.h"

#include <nlohmann/json.hpp>

#include "api/timestamps.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

const Json* find(const Json& object, std::string_view member) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(member);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::string text_of(const Json& object, std::string_view member) {
  const Json* found = find(object, member);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> number_of(const Json& object, std::string_view member) {
  const Json* found = find(object, member);
  if (found == nullptr || !found->is_number_integer()) {
    return std::nullopt;
  }
  return found->get<std::int64_t>();
}

std::optional<bool> flag_of(const Json& object, std::string_view member) {
  const Json* found = find(object, member);
  return found != nullptr && found->is_boolean() ? std::optional(found->get<bool>()) : std::nullopt;
}

std::optional<WallTime> time_of(const Json& object, std::string_view member) {
  const Json* found = find(object, member);
  if (found == nullptr) {
    return std::nullopt;
  }
  const Result<WallTime> time = api::from_timestamp(*found);
  return time ? std::optional(*time) : std::nullopt;
}

const Json& list_of(const Json& object, std::string_view member) {
  static const Json none = Json::array();
  const Json* found = find(object, member);
  return found != nullptr && found->is_array() ? *found : none;
}

const Json& object_of(const Json& object, std::string_view member) {
  static const Json none = Json::object();
  const Json* found = find(object, member);
  return found != nullptr && found->is_object() ? *found : none;
}

}  // namespace trainyard::cli
