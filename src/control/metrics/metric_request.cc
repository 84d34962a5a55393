// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/metric_request.h"

#include <algorithm>
#include <array>

#include "api/paging.h"
#include "api/timestamps.h"
#include "control/metrics/metric_operations.h"
#include "control/operations/requests.h"
#include "formats/json.h"

namespace trainyard::control {

using nlohmann::json;

Result<Duration> period_in(const json& input) {
  constexpr std::array<std::int64_t, 5> kShort = {1, 5, 10, 20, 30};
  const std::int64_t seconds = number_in(input, {"Period"}, 60);
  if (std::ranges::find(kShort, seconds) == kShort.end() && (seconds < 60 || seconds % 60 != 0)) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "The parameter Period must be 1, 5, 10, 20, 30 or a multiple of 60."};
  }
  return Duration(seconds * 1000);
}

Result<TimeRange> range_in(const json& input, Duration period) {
  YARD_TRY(const WallTime from, api::from_timestamp(input.at("StartTime")));
  YARD_TRY(const WallTime to, api::from_timestamp(input.at("EndTime")));
  if (from >= to) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "The parameter StartTime must be less than the parameter EndTime."};
  }
  return TimeRange{.from = start_of(from, period), .to = to};
}

std::optional<std::string> job_of_metric(const json& metric) {
  const auto dimensions = metric.find("Dimensions");
  if (text_in(metric, {"Namespace"}) != kMetricNamespace || dimensions == metric.end() ||
      !dimensions->is_array() || dimensions->size() != 1 ||
      text_in(dimensions->at(0), {"Name"}) != kMetricDimension) {
    return std::nullopt;
  }
  return text_in(dimensions->at(0), {"Value"});
}

bool is_unitless(const json& input) {
  const std::string unit = text_in(input, {"Unit"});
  return unit.empty() || unit == "None";
}

std::optional<double> statistic(std::string_view name, const Aggregate& values) {
  if (name == "Average") {
    return values.sum / static_cast<double>(values.count);
  }
  if (name == "Sum") {
    return values.sum;
  }
  if (name == "Minimum") {
    return values.least;
  }
  if (name == "Maximum") {
    return values.most;
  }
  return name == "SampleCount" ? std::optional(static_cast<double>(values.count)) : std::nullopt;
}

std::string page_scope(std::string_view operation, const json& input) {
  json scope = input;
  scope.erase("NextToken");
  scope.erase("MaxDatapoints");
  return std::string(operation) + " " + dump_json(scope);
}

Result<json> page_state(const std::string& scope, const std::string& token) {
  Result<json> state = api::decode_token(scope, token);
  if (!state) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "The parameter NextToken is not one of this request.",
                 .subject = "token"};
  }
  return state;
}

}  // namespace trainyard::control
