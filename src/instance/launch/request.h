// SPDX-License-Identifier: Apache-2.0
// Reading an accepted CreateTrainingJob request without surprises: absent members and members of
// another type read as empty. The server has validated the request; an instance of an older version
// may still meet members that it does not know.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainyard::instance {

// The member `name` of an object, or JSON null.
const nlohmann::json& member(const nlohmann::json& object, std::string_view name);
// member(member(object, outer), inner).
const nlohmann::json& member(const nlohmann::json& object, std::string_view outer,
                             std::string_view inner);

std::string text_at(const nlohmann::json& object, std::string_view name,
                    std::string_view otherwise = {});
bool flag_at(const nlohmann::json& object, std::string_view name);
// The string members of an object.
std::map<std::string, std::string> texts_at(const nlohmann::json& object, std::string_view name);

// The strings of a list.
std::vector<std::string> strings_in(const nlohmann::json& list);

// ResourceConfig.InstanceType, or that of the first instance group.
std::string instance_type(const nlohmann::json& request);

}  // namespace trainyard::instance
