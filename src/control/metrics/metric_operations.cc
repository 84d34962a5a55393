// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/metric_operations.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/floats.h"
#include "api/paging.h"
#include "api/timestamps.h"
#include "control/metrics/metric_data.h"
#include "control/metrics/metric_request.h"
#include "control/metrics/series_reader.h"
#include "control/operations/requests.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostDatapoints = 1'440;
constexpr std::int64_t kListPage = 500;
constexpr Duration kRecently{3 * 3'600'000};

// Every statistic that was asked for, by its name.
json datapoint(WallTime start, const Aggregate& values, const json& statistics) {
  json out = {{"Timestamp", api::to_timestamp(start)}, {"Unit", "None"}};
  for (const json& name : statistics) {
    const auto text = name.get<std::string>();
    out[text] = api::to_float(statistic(text, values).value_or(0));
  }
  return out;
}

Result<void> statistics_are_served(const json& input) {
  if (input.contains("ExtendedStatistics") && !input.at("ExtendedStatistics").is_null()) {
    return Error{.code = Code::kInvalidArgument,
                 .message =
                     "ExtendedStatistics are not supported by this server yet: use "
                     "Statistics"};
  }
  if (!input.contains("Statistics") || input.at("Statistics").is_null()) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "The parameter Statistics is required.",
                 .subject = "missing"};
  }
  return {};
}

Result<json> get_metric_statistics(Database& database, const json& input) {
  YARD_TRY(statistics_are_served(input));
  YARD_TRY(const Duration period, period_in(input));
  YARD_TRY(const TimeRange range, range_in(input, period));
  const std::int64_t count = (range.to - range.from + period - Duration(1)) / period;
  if (count > kMostDatapoints) {
    return Error{.code = Code::kInvalidArgument,
                 .message = fmt::format("You have requested up to {} datapoints, which exceeds the "
                                        "limit of {}. You may reduce the datapoints requested by "
                                        "increasing Period, or decreasing the time range.",
                                        count, kMostDatapoints),
                 .subject = "combination"};
  }
  json out = {{"Label", input.at("MetricName")}, {"Datapoints", json::array()}};
  const std::optional<std::string> job = job_of_metric(input);
  if (!job || !is_unitless(input)) {
    return out;
  }
  YARD_TRY(const Buckets buckets, read_buckets(database, {.job = *job,
                                                          .metric = text_in(input, {"MetricName"}),
                                                          .period = period,
                                                          .range = range}));
  for (const auto& [start, values] : buckets) {
    out["Datapoints"].push_back(datapoint(start, values, input.at("Statistics")));
  }
  return out;
}

json metric_json(const Series& series) {
  return {{"Namespace", std::string(kMetricNamespace)},
          {"MetricName", series.metric},
          {"Dimensions", {{{"Name", std::string(kMetricDimension)}, {"Value", series.job}}}}};
}

// False when no metric of ours can pass the filters.
bool read_filters(const json& input, SeriesQuery& query) {
  const std::string space = text_in(input, {"Namespace"});
  query.metric = text_in(input, {"MetricName"});
  bool possible = space.empty() || space == kMetricNamespace;
  if (input.contains("Dimensions") && input.at("Dimensions").is_array()) {
    for (const json& filter : input.at("Dimensions")) {
      const std::string value = text_in(filter, {"Value"});
      possible = possible && text_in(filter, {"Name"}) == kMetricDimension &&
                 (query.job.empty() || value.empty() || query.job == value);
      query.job = value.empty() ? query.job : value;
    }
  }
  return possible;
}

Result<json> list_metrics(Database& database, WallTime now, const json& input) {
  SeriesQuery query{.limit = kListPage + 1};
  json out = {{"Metrics", json::array()}};
  if (!read_filters(input, query)) {
    return out;
  }
  if (!text_in(input, {"RecentlyActive"}).empty()) {
    query.active_after = now - kRecently;
  }
  const std::string scope = page_scope("ListMetrics", input);
  if (const std::string token = text_in(input, {"NextToken"}); !token.empty()) {
    YARD_TRY(const json state, page_state(scope, token));
    query.after_job = text_in(state, {"job"});
    query.after_metric = text_in(state, {"metric"});
  }
  YARD_TRY(std::vector<Series> found,
           database.read([&](Connection& connection) { return list_series(connection, query); }));
  if (static_cast<std::int64_t>(found.size()) > kListPage) {
    found.pop_back();
    out["NextToken"] =
        api::encode_token(scope, {{"job", found.back().job}, {"metric", found.back().metric}});
  }
  for (const Series& series : found) {
    out["Metrics"].push_back(metric_json(series));
  }
  return out;
}

}  // namespace

Result<json> call_metrics(Database& database, WallTime now, std::string_view operation,
                          const json& input) {
  if (operation == "GetMetricStatistics") {
    return get_metric_statistics(database, input);
  }
  if (operation == "GetMetricData") {
    return get_metric_data(database, input);
  }
  if (operation == "ListMetrics") {
    return list_metrics(database, now, input);
  }
  return Error{.code = Code::kUnimplemented,
               .message = fmt::format("The operation {} is not served by Trainyard.", operation),
               .subject = "operation"};
}

}  // namespace trainyard::control
