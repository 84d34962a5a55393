// SPDX-License-Identifier: Apache-2.0
#include "control/operations/update_job.h"

#include <algorithm>

#include <fmt/format.h>

#include "control/operations/requests.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRules = 20;

bool is_given(const json& input, const char* member) {
  const auto found = input.find(member);
  return found != input.end() && !found->is_null();
}

Error refused(const Job& job, std::string_view why) {
  return {.code = Code::kConflict,
          .message = fmt::format("The training job '{}' cannot be updated: {}.", job.name, why)};
}

Result<void> check_state(const Job& job, const json& input) {
  if (is_terminal(job.secondary) || job.secondary == Secondary::kStopping) {
    return refused(job, fmt::format("it is {} already", status_name(job.secondary)));
  }
  const bool is_at_work =
      job.secondary == Secondary::kDownloading || job.secondary == Secondary::kTraining;
  if (is_given(input, "RemoteDebugConfig") && !is_at_work) {
    return refused(job, fmt::format("RemoteDebugConfig changes while a job is Downloading or "
                                    "Training, and it is {}",
                                    name_of(job.secondary)));
  }
  return {};
}

// Members that are given replace those that were.
void merge(const json& changes, json& target) {
  if (!target.is_object()) {
    target = json::object();
  }
  for (const auto& [name, value] : changes.items()) {
    if (!value.is_null()) {
      target[name] = value;
    }
  }
}

void merge_rules(const json& changes, json& rules) {
  if (!rules.is_array()) {
    rules = json::array();
  }
  for (const json& rule : changes) {
    const std::string name = text_in(rule, {"RuleConfigurationName"});
    const auto same = std::find_if(rules.begin(), rules.end(), [&](const json& known) {
      return text_in(known, {"RuleConfigurationName"}) == name;
    });
    if (same == rules.end()) {
      rules.push_back(rule);
    } else {
      *same = rule;
    }
  }
}

}  // namespace

Result<json> updated_request(const Job& job, const json& input) {
  YARD_TRY(check_state(job, input));
  json request = job.request;
  for (const char* part : {"ProfilerConfig", "RemoteDebugConfig", "ResourceConfig"}) {
    if (is_given(input, part)) {
      merge(input.at(part), request[part]);
    }
  }
  if (is_given(input, "ProfilerRuleConfigurations")) {
    json& rules = request["ProfilerRuleConfigurations"];
    merge_rules(input.at("ProfilerRuleConfigurations"), rules);
    if (rules.size() > kMostRules) {
      return Error{.code = Code::kInvalidArgument,
                   .message = fmt::format("The training job '{}' would have {} rules of the "
                                          "profiler; the limit is {}.",
                                          job.name, rules.size(), kMostRules)};
    }
  }
  return request;
}

}  // namespace trainyard::control
