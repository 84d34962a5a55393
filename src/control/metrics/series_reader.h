// SPDX-License-Identifier: Apache-2.0
// Reads statistics of one metric of one job for a time range, in slices, so that no reader waits
// long for the database and no range is held in memory as points. Periods of whole minutes come
// from the stored minutes, shorter ones from the points themselves.
#pragma once

#include <optional>
#include <string>

#include "control/metrics/points.h"
#include "control/tables/database.h"
#include "control/tables/metric_table.h"

namespace trainyard::control {

struct StatisticsQuery {
  std::string job;
  std::string metric;
  Duration period{60'000};
  TimeRange range = {};  // of the starts of periods
};

// Those of the range that hold finite values. The caller bounds how many there can be.
Result<Buckets> read_buckets(Database& database, const StatisticsQuery& query);

// The part of the range that can hold anything: between the first and the last point.
Result<std::optional<TimeRange>> occupied(Database& database, const StatisticsQuery& query);

}  // namespace trainyard::control
