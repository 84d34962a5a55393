// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/request.h"

namespace trainyard::instance {

using nlohmann::json;

const json& member(const json& object, std::string_view name) {
  static const json kNull;
  if (!object.is_object()) {
    return kNull;
  }
  const auto found = object.find(std::string(name));
  return found == object.end() ? kNull : *found;
}

const json& member(const json& object, std::string_view outer, std::string_view inner) {
  return member(member(object, outer), inner);
}

std::string text_at(const json& object, std::string_view name, std::string_view otherwise) {
  const json& found = member(object, name);
  return found.is_string() ? found.get<std::string>() : std::string(otherwise);
}

bool flag_at(const json& object, std::string_view name) {
  const json& found = member(object, name);
  return found.is_boolean() && found.get<bool>();
}

std::map<std::string, std::string> texts_at(const json& object, std::string_view name) {
  std::map<std::string, std::string> texts;
  const json& found = member(object, name);
  if (!found.is_object()) {
    return texts;
  }
  for (const auto& [key, value] : found.items()) {
    if (value.is_string()) {
      texts.emplace(key, value.get<std::string>());
    }
  }
  return texts;
}

std::vector<std::string> strings_in(const json& list) {
  std::vector<std::string> strings;
  for (const json& item : list) {
    if (item.is_string()) {
      strings.push_back(item.get<std::string>());
    }
  }
  return strings;
}

std::string instance_type(const json& request) {
  const json& resources = member(request, "ResourceConfig");
  const json& groups = member(resources, "InstanceGroups");
  if (groups.is_array() && !groups.empty()) {
    return text_at(groups[0], "InstanceType");
  }
  return text_at(resources, "InstanceType");
}

}  // namespace trainyard::instance
