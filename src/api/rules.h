// SPDX-License-Identifier: Apache-2.0
// Rules between members, and what this server does not do yet: all that AWS's model cannot say.
// Each rule is a small named function of the request alone; validate() adds what they find to its
// own violations. To add one, write the function and put it into the list of its file: rules.cc for
// tags, searches and logs, training_rules.cc for CreateTrainingJob and UpdateTrainingJob.
//
// Rules run on input whose types may be wrong (the walker has reported that): they look at members
// through at() and the readers below, which answer "absent" for anything of another type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "api/model.h"

namespace trainyard::api {

// Appends one message for each way in which the request breaks the rule.
using Rule = void (*)(const nlohmann::json& input, std::vector<std::string>& broken);

std::vector<std::string> broken_rules(const Operation& operation, const nlohmann::json& input);

std::span<const Rule> training_job_rules();         // of CreateTrainingJob
std::span<const Rule> training_job_update_rules();  // of UpdateTrainingJob
void tags_are_legal(const nlohmann::json& input, std::vector<std::string>& broken);

// The member at the end of a path of names; nullptr when a step is absent, null or not an object.
const nlohmann::json* at(const nlohmann::json& value, std::initializer_list<std::string_view> path);
// The same for a member that must be an object; nullptr when it is none: what is missing in it is
// not the fault then.
const nlohmann::json* object_at(const nlohmann::json& value,
                                std::initializer_list<std::string_view> path);
std::optional<std::string> text_at(const nlohmann::json& value,
                                   std::initializer_list<std::string_view> path);
std::optional<std::int64_t> number_at(const nlohmann::json& value,
                                      std::initializer_list<std::string_view> path);
bool true_at(const nlohmann::json& value, std::initializer_list<std::string_view> path);
// The objects of a list, with their position counted from 1; others are left out.
struct Entry {
  std::size_t number;
  const nlohmann::json* value;
};
std::vector<Entry> entries_at(const nlohmann::json& value,
                              std::initializer_list<std::string_view> path);

}  // namespace trainyard::api
