// SPDX-License-Identifier: Apache-2.0
#include "control/operations/requests.h"

#include <fmt/format.h>

#include "api/paging.h"
#include "api/timestamps.h"
#include "formats/json.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultPage = 10;
constexpr std::int64_t kLargestPage = 100;

const json* at(const json& input, std::initializer_list<std::string_view> path) {
  const json* value = &input;
  for (const std::string_view name : path) {
    if (!value->is_object()) {
      return nullptr;
    }
    const auto found = value->find(name);
    if (found == value->end() || found->is_null()) {
      return nullptr;
    }
    value = &*found;
  }
  return value;
}

Result<std::optional<WallTime>> time_in(const json& input, std::string_view name) {
  const json* value = at(input, {name});
  if (value == nullptr) {
    return std::optional<WallTime>();
  }
  YARD_TRY(const WallTime time, api::from_timestamp(*value));
  return std::optional(time);
}

// Everything that decides which jobs come in which order.
std::string scope_of(const json& input) {
  json scope = input;
  if (scope.is_object()) {
    scope.erase("NextToken");
    scope.erase("MaxResults");
  }
  return "ListTrainingJobs " + dump_json(scope);
}

JobQuery::SortBy sort_by(std::string_view name) {
  if (name == "Name") {
    return JobQuery::SortBy::kName;
  }
  return name == "Status" ? JobQuery::SortBy::kStatus : JobQuery::SortBy::kCreation;
}

}  // namespace

std::string text_in(const json& input, std::initializer_list<std::string_view> path) {
  const json* value = at(input, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::int64_t number_in(const json& input, std::initializer_list<std::string_view> path,
                       std::int64_t fallback) {
  const json* value = at(input, path);
  return value != nullptr && value->is_number() ? value->get<std::int64_t>() : fallback;
}

std::vector<Tag> tags_in(const json& input) {
  std::vector<Tag> tags;
  if (const json* list = at(input, {"Tags"}); list != nullptr && list->is_array()) {
    for (const json& item : *list) {
      tags.push_back({.key = text_in(item, {"Key"}), .value = text_in(item, {"Value"})});
    }
  }
  return tags;
}

std::vector<std::string> tag_keys_in(const json& input) {
  std::vector<std::string> keys;
  if (const json* list = at(input, {"TagKeys"}); list != nullptr && list->is_array()) {
    for (const json& item : *list) {
      if (item.is_string()) {
        keys.push_back(item.get<std::string>());
      }
    }
  }
  return keys;
}

std::vector<std::string> metric_names(const json& request) {
  std::vector<std::string> names;
  if (const json* list = at(request, {"AlgorithmSpecification", "MetricDefinitions"});
      list != nullptr && list->is_array()) {
    for (const json& definition : *list) {
      names.push_back(text_in(definition, {"Name"}));
    }
  }
  return names;
}

std::vector<std::string> input_prefixes(const json& request) {
  std::vector<std::string> uris;
  if (const json* list = at(request, {"InputDataConfig"}); list != nullptr && list->is_array()) {
    for (const json& channel : *list) {
      std::string uri = text_in(channel, {"DataSource", "S3DataSource", "S3Uri"});
      if (!uri.empty()) {
        uris.push_back(std::move(uri));
      }
    }
  }
  return uris;
}

Result<JobQuery> list_query(const json& input) {
  JobQuery query;
  query.sort_by = sort_by(text_in(input, {"SortBy"}));
  query.descending = text_in(input, {"SortOrder"}) == "Descending";
  query.limit = std::min(number_in(input, {"MaxResults"}, kDefaultPage), kLargestPage);
  query.name_contains = text_in(input, {"NameContains"});
  query.status = text_in(input, {"StatusEquals"});
  YARD_TRY(query.created_after, time_in(input, "CreationTimeAfter"));
  YARD_TRY(query.created_before, time_in(input, "CreationTimeBefore"));
  YARD_TRY(query.modified_after, time_in(input, "LastModifiedTimeAfter"));
  YARD_TRY(query.modified_before, time_in(input, "LastModifiedTimeBefore"));
  if (const std::string token = text_in(input, {"NextToken"}); !token.empty()) {
    YARD_TRY(const json state, api::decode_token(scope_of(input), token));
    query.after_name = text_in(state, {"name"});
    query.after_status = text_in(state, {"status"});
    query.after_created = number_in(state, {"created"}, 0);
  }
  return query;
}

std::string list_token(const json& input, const JobSummary& last) {
  return api::encode_token(scope_of(input), {{"name", last.name},
                                             {"status", last.status},
                                             {"created", last.created.time_since_epoch().count()}});
}

}  // namespace trainyard::control
