// SPDX-License-Identifier: Apache-2.0
// Every SQL statement about the points of metrics. A series is what one metric of one job has said,
// over all attempts and instances: its points in packed pieces, a row of statistics for each
// minute, so that a long range is not read point by point, and its last point. Deleting a job
// deletes its series. Functions take the connection of a running transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/metrics/points.h"
#include "control/tables/database.h"
#include "wire/messages.h"

namespace trainyard::control {

struct Series {
  std::int64_t id = 0;
  std::string job;
  std::string metric;
  WallTime first_at{};
  Point last = {};  // the latest; of several at that time the one that came last
};

// In their order. Called once for each point, by the transaction that acknowledges its report.
Result<void> add_points(Connection& connection, const std::string& job,
                        const std::vector<wire::MetricPoint>& points);

Result<std::vector<Series>> series_of(Connection& connection, const std::string& job);
Result<std::optional<Series>> find_series(Connection& connection, const std::string& job,
                                          const std::string& metric);

// Takes a part of a job's points, or of its minutes, away; false when none is left. Before a job is
// deleted, so that millions of them do not keep everyone else from writing for long.
Result<bool> delete_some_points(Connection& connection, const std::string& job);

struct SeriesQuery {
  std::string job = {};                       // empty: any
  std::string metric = {};                    // empty: any
  std::optional<WallTime> active_after = {};  // has a point after this
  std::string after_job = {};                 // begins after this job and metric
  std::string after_metric = {};
  std::int64_t limit = 500;
};
Result<std::vector<Series>> list_series(Connection& connection, const SeriesQuery& query);

struct TimeRange {
  WallTime from{};
  WallTime to{};  // exclusive
};
// The minutes of a series whose start lies in the range.
Result<Buckets> minutes_of(Connection& connection, std::int64_t series, const TimeRange& range);

// A part of the points of a range, in the order in which they are stored. `next` is where to go on;
// none at the end.
struct PointPage {
  struct Place {
    WallTime first_at{};
    std::int64_t id = 0;
  };
  std::vector<Point> points;
  std::optional<Place> next = {};
};
Result<PointPage> points_of(Connection& connection, std::int64_t series, const TimeRange& range,
                            const std::optional<PointPage::Place>& from);

}  // namespace trainyard::control
