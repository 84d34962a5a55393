// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/series_reader.h"

#include <algorithm>

namespace trainyard::control {
namespace {

constexpr Duration kMinute{60'000};

Result<std::optional<Series>> find(Database& database, const StatisticsQuery& query) {
  return database.read(
      [&](Connection& connection) { return find_series(connection, query.job, query.metric); });
}

// Whole periods whose start lies in the range.
TimeRange whole_periods(const StatisticsQuery& query) {
  const auto up = [&](WallTime time) {
    const WallTime start = start_of(time, query.period);
    return start == time ? start : start + query.period;
  };
  return {.from = up(query.range.from), .to = up(query.range.to)};
}

Result<Buckets> from_minutes(Database& database, std::int64_t series,
                             const StatisticsQuery& query) {
  YARD_TRY(const Buckets minutes, database.read([&](Connection& connection) {
    return minutes_of(connection, series, whole_periods(query));
  }));
  Buckets buckets;
  for (const auto& [start, values] : minutes) {
    buckets[start_of(start, query.period)].merge(values);
  }
  return buckets;
}

Result<Buckets> from_points(Database& database, std::int64_t series, const StatisticsQuery& query) {
  Buckets buckets;
  std::optional<PointPage::Place> place;
  do {
    YARD_TRY(const PointPage page, database.read([&](Connection& connection) {
      return points_of(connection, series, whole_periods(query), place);
    }));
    add(page.points, query.period, buckets);
    place = page.next;
  } while (place);
  return buckets;
}

}  // namespace

Result<Buckets> read_buckets(Database& database, const StatisticsQuery& query) {
  YARD_TRY(const auto series, find(database, query));
  if (!series) {
    return Buckets();
  }
  return query.period % kMinute == Duration(0) ? from_minutes(database, series->id, query)
                                               : from_points(database, series->id, query);
}

Result<std::optional<TimeRange>> occupied(Database& database, const StatisticsQuery& query) {
  YARD_TRY(const auto series, find(database, query));
  if (!series) {
    return std::optional<TimeRange>();
  }
  const TimeRange both{.from = std::max(query.range.from, start_of(series->first_at, query.period)),
                       .to = std::min(query.range.to, series->last.at + Duration(1))};
  return both.from < both.to ? std::optional(both) : std::nullopt;
}

}  // namespace trainyard::control
