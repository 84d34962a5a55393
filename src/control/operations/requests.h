// SPDX-License-Identifier: Apache-2.0
// Reads validated requests: members that may be absent or null, lists, filters and page tokens.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "control/tables/job_table.h"

namespace trainyard::control {

// The member at the end of a path; empty or `fallback` when a step is absent.
std::string text_in(const nlohmann::json& input, std::initializer_list<std::string_view> path);
std::int64_t number_in(const nlohmann::json& input, std::initializer_list<std::string_view> path,
                       std::int64_t fallback);

std::vector<Tag> tags_in(const nlohmann::json& input);  // "Tags"
std::vector<std::string> tag_keys_in(const nlohmann::json& input);

// Names in AlgorithmSpecification.MetricDefinitions, in order; one may come twice.
std::vector<std::string> metric_names(const nlohmann::json& request);

// The S3 URIs of all channels, in order.
std::vector<std::string> input_prefixes(const nlohmann::json& request);

// ListTrainingJobs. A token is valid only with the filters and order that it came from.
Result<JobQuery> list_query(const nlohmann::json& input);
std::string list_token(const nlohmann::json& input, const JobSummary& last);

}  // namespace trainyard::control
