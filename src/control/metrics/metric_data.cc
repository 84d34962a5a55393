// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/metric_data.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/floats.h"
#include "api/paging.h"
#include "api/timestamps.h"
#include "control/metrics/metric_request.h"
#include "control/metrics/series_reader.h"
#include "control/operations/requests.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostDatapoints = 100'800;  // of an answer
constexpr std::size_t kMostQueries = 500;
constexpr std::int64_t kSlice = 10'000;  // periods that are held at a time

struct DataQuery {
  std::string id;
  std::string label = {};
  std::string statistic = {};
  bool is_returned = true;
  bool is_ours = true;  // otherwise it has no data
  StatisticsQuery what = {};
};

Error invalid(std::string message) {
  return {.code = Code::kInvalidArgument, .message = std::move(message)};
}

Result<DataQuery> query_of(const json& item, const json& input) {
  DataQuery query{.id = text_in(item, {"Id"})};
  if (!item.contains("MetricStat") || item.at("MetricStat").is_null()) {
    return invalid(
        fmt::format("The query '{}' has no MetricStat: expressions are not supported "
                    "by this server.",
                    query.id));
  }
  const json& wanted = item.at("MetricStat");
  const json& metric = wanted.at("Metric");
  YARD_TRY(query.what.period, period_in(wanted));
  YARD_TRY(query.what.range, range_in(input, query.what.period));
  query.statistic = text_in(wanted, {"Stat"});
  if (!statistic(query.statistic, {.count = 1})) {
    return invalid(
        fmt::format("The statistic '{}' of the query '{}' is not supported by this "
                    "server: use Average, Sum, Minimum, Maximum or SampleCount.",
                    query.statistic, query.id));
  }
  query.what.metric = text_in(metric, {"MetricName"});
  query.label = text_in(item, {"Label"});
  if (query.label.empty()) {
    query.label = query.what.metric;
  }
  const auto returned = item.find("ReturnData");
  query.is_returned = returned == item.end() || *returned != false;
  const std::optional<std::string> job = job_of_metric(metric);
  query.is_ours = job.has_value() && is_unitless(wanted);
  query.what.job = job.value_or("");
  return query;
}

Result<std::vector<DataQuery>> queries_of(const json& input) {
  const json& items = input.at("MetricDataQueries");
  if (items.size() > kMostQueries) {
    return invalid(fmt::format("{} queries are more than {}.", items.size(), kMostQueries));
  }
  std::vector<DataQuery> queries;
  std::set<std::string> ids;
  for (const json& item : items) {
    YARD_TRY(DataQuery query, query_of(item, input));
    if (!ids.insert(query.id).second) {
      return invalid(fmt::format("The Id '{}' is used twice.", query.id));
    }
    if (query.is_returned) {
      queries.push_back(std::move(query));
    }
  }
  return queries;
}

// In which order, and how many at most.
struct Scan {
  bool descending = true;
  std::size_t most = 0;
};

struct Collected {
  std::vector<std::pair<WallTime, Aggregate>> values;
  std::optional<WallTime> edge = {};  // the rest of the range begins (descending: ends) here
};

// Adds the values of one slice. True when not all have room.
bool take(const Buckets& slice, Duration period, const Scan& scan, Collected& out) {
  std::vector<std::pair<WallTime, Aggregate>> values(slice.begin(), slice.end());
  if (scan.descending) {
    std::reverse(values.begin(), values.end());
  }
  for (const auto& value : values) {
    if (out.values.size() == scan.most) {
      out.edge = scan.descending ? value.first + period : value.first;
      return true;
    }
    out.values.push_back(value);
  }
  return false;
}

Result<Collected> collect(Database& database, const DataQuery& query, const Scan& scan) {
  Collected out;
  YARD_TRY(const auto occupied_range, occupied(database, query.what));
  if (!occupied_range || !query.is_ours) {
    return out;
  }
  StatisticsQuery slice = query.what;
  TimeRange rest = *occupied_range;
  const Duration step = slice.period * kSlice;
  while (rest.from < rest.to) {
    slice.range = scan.descending
                      ? TimeRange{.from = std::max(rest.from, rest.to - step), .to = rest.to}
                      : TimeRange{.from = rest.from, .to = std::min(rest.to, rest.from + step)};
    YARD_TRY(const Buckets buckets, read_buckets(database, slice));
    if (take(buckets, slice.period, scan, out)) {
      return out;
    }
    (scan.descending ? rest.to : rest.from) = scan.descending ? slice.range.from : slice.range.to;
  }
  return out;
}

json result_json(const DataQuery& query, const Collected& found) {
  json out = {{"Id", query.id},
              {"Label", query.label},
              {"Timestamps", json::array()},
              {"Values", json::array()},
              {"StatusCode", found.edge ? "PartialData" : "Complete"}};
  for (const auto& [start, values] : found.values) {
    out["Timestamps"].push_back(api::to_timestamp(start));
    out["Values"].push_back(api::to_float(statistic(query.statistic, values).value_or(0)));
  }
  return out;
}

// Where a page begins: at a query, and inside its range.
struct Place {
  std::size_t query = 0;
  std::optional<WallTime> edge = {};
};

Result<Place> place_in(const json& input, const std::string& scope) {
  const std::string token = text_in(input, {"NextToken"});
  if (token.empty()) {
    return Place();
  }
  YARD_TRY(const json state, page_state(scope, token));
  return Place{.query = static_cast<std::size_t>(number_in(state, {"query"}, 0)),
               .edge = WallTime(Duration(number_in(state, {"edge"}, 0)))};
}

}  // namespace

Result<json> get_metric_data(Database& database, const json& input) {
  YARD_TRY(std::vector<DataQuery> queries, queries_of(input));
  const std::string scope = page_scope("GetMetricData", input);
  YARD_TRY(const Place place, place_in(input, scope));
  const std::int64_t most = number_in(input, {"MaxDatapoints"}, kMostDatapoints);
  Scan scan{.descending = text_in(input, {"ScanBy"}) != "TimestampAscending",
            .most = static_cast<std::size_t>(std::clamp<std::int64_t>(most, 1, kMostDatapoints))};
  json out = {{"MetricDataResults", json::array()}};
  for (std::size_t i = place.query; i < queries.size(); ++i) {
    TimeRange& range = queries[i].what.range;
    if (i == place.query && place.edge) {
      (scan.descending ? range.to : range.from) = *place.edge;
    }
    YARD_TRY(const Collected found, collect(database, queries[i], scan));
    out["MetricDataResults"].push_back(result_json(queries[i], found));
    if (found.edge) {
      out["NextToken"] = api::encode_token(
          scope, {{"query", i}, {"edge", found.edge->time_since_epoch().count()}});
      break;
    }
    scan.most -= found.values.size();
  }
  return out;
}

}  // namespace trainyard::control
