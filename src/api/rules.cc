// SPDX-License-Identifier: Apache-2.0
#include "api/rules.h"

#include <set>

#include <nlohmann/json.hpp>

#include "api/violations.h"
#include "base/text.h"

namespace trainyard::api {
namespace {

using Json = nlohmann::json;
using Broken = std::vector<std::string>;

void one_log_group_is_named(const Json& input, Broken& broken) {
  const bool name = at(input, {"logGroupName"}) != nullptr;
  const bool identifier = at(input, {"logGroupIdentifier"}) != nullptr;
  if (name == identifier) {
    broken.emplace_back("Exactly one of logGroupName and logGroupIdentifier must be given");
  }
}

void streams_by_time_have_no_prefix(const Json& input, Broken& broken) {
  if (text_at(input, {"orderBy"}) == "LastEventTime" &&
      at(input, {"logStreamNamePrefix"}) != nullptr) {
    broken.emplace_back("Cannot order by LastEventTime with a logStreamNamePrefix.");
  }
}

void streams_are_named_one_way(const Json& input, Broken& broken) {
  if (at(input, {"logStreamNames"}) != nullptr && at(input, {"logStreamNamePrefix"}) != nullptr) {
    broken.emplace_back("logStreamNames and logStreamNamePrefix exclude each other");
  }
}

void group_prefix_or_pattern(const Json& input, Broken& broken) {
  if (at(input, {"logGroupNamePrefix"}) != nullptr &&
      at(input, {"logGroupNamePattern"}) != nullptr) {
    broken.emplace_back("logGroupNamePrefix and logGroupNamePattern exclude each other");
  }
}

void only_training_jobs_are_searched(const Json& input, Broken& broken) {
  const std::optional<std::string> resource = text_at(input, {"Resource"});
  if (resource.has_value() && resource != "TrainingJob") {
    broken.push_back(shown_value(Json(*resource)) +
                     " at 'resource' cannot be searched on this server: it serves TrainingJob");
  }
}

struct RuleFor {
  std::string_view service;
  std::string_view operation;
  Rule rule;
};

constexpr RuleFor kRules[] = {
    {"sagemaker", "AddTags", tags_are_legal},
    {"sagemaker", "Search", only_training_jobs_are_searched},
    {"logs", "DescribeLogGroups", group_prefix_or_pattern},
    {"logs", "DescribeLogStreams", one_log_group_is_named},
    {"logs", "DescribeLogStreams", streams_by_time_have_no_prefix},
    {"logs", "GetLogEvents", one_log_group_is_named},
    {"logs", "FilterLogEvents", one_log_group_is_named},
    {"logs", "FilterLogEvents", streams_are_named_one_way},
};

}  // namespace

void tags_are_legal(const Json& input, Broken& broken) {
  std::set<std::string> seen;
  for (const auto& [number, tag] : entries_at(input, {"Tags"})) {
    const std::optional<std::string> key = text_at(*tag, {"Key"});
    if (!key.has_value()) {
      continue;
    }
    const std::string path = "tags." + std::to_string(number) + ".member.key";
    if (lower(*key).starts_with("aws:")) {
      broken.push_back(violation(shown_value(Json(*key)), path,
                                 "The prefix aws: is reserved for AWS's own tags"));
    }
    if (!seen.insert(*key).second) {
      broken.push_back(violation(shown_value(Json(*key)), path, "Tag keys must be unique"));
    }
  }
}

Broken broken_rules(const Operation& operation, const Json& input) {
  Broken broken;
  for (const RuleFor& entry : kRules) {
    if (entry.service == operation.service && entry.operation == operation.name) {
      entry.rule(input, broken);
    }
  }
  if (operation.name == "CreateTrainingJob" || operation.name == "UpdateTrainingJob") {
    const bool is_new = operation.name == "CreateTrainingJob";
    for (const Rule rule : is_new ? training_job_rules() : training_job_update_rules()) {
      rule(input, broken);
    }
  }
  return broken;
}

const Json* at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* here = &value;
  for (const std::string_view name : path) {
    if (!here->is_object()) {
      return nullptr;
    }
    const auto found = here->find(name);
    if (found == here->end() || found->is_null()) {
      return nullptr;
    }
    here = &*found;
  }
  return here;
}

const Json* object_at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* found = at(value, path);
  return found != nullptr && found->is_object() ? found : nullptr;
}

std::optional<std::string> text_at(const Json& value,
                                   std::initializer_list<std::string_view> path) {
  const Json* found = at(value, path);
  if (found == nullptr || !found->is_string()) {
    return std::nullopt;
  }
  return found->get<std::string>();
}

std::optional<std::int64_t> number_at(const Json& value,
                                      std::initializer_list<std::string_view> path) {
  const Json* found = at(value, path);
  if (found == nullptr || !found->is_number_integer()) {
    return std::nullopt;
  }
  return found->get<std::int64_t>();
}

bool true_at(const Json& value, std::initializer_list<std::string_view> path) {
  const Json* found = at(value, path);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

std::vector<Entry> entries_at(const Json& value, std::initializer_list<std::string_view> path) {
  std::vector<Entry> entries;
  const Json* list = at(value, path);
  if (list == nullptr || !list->is_array()) {
    return entries;
  }
  // Beyond this the walker has already refused the list for its length.
  constexpr std::size_t kMostEntries = 100;
  for (std::size_t i = 0; i < list->size() && i < kMostEntries; ++i) {
    if ((*list)[i].is_object()) {
      entries.push_back({.number = i + 1, .value = &(*list)[i]});
    }
  }
  return entries;
}

}  // namespace trainyard::api
