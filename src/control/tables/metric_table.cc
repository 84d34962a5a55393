// SPDX-License-Identifier: Apache-2.0
#include "control/tables/metric_table.h"

#include <algorithm>
#include <limits>
#include <map>

namespace trainyard::control {
namespace {

constexpr Duration kMinute{60'000};
constexpr std::int64_t kPiecesOfAPage = 64;
constexpr std::int64_t kPiecesOfADelete = 1'000;
constexpr std::int64_t kMinutesOfADelete = 10'000;  // a row of them is small

std::int64_t millis(WallTime time) {
  return time.time_since_epoch().count();
}
WallTime time_of(std::int64_t value) {
  return WallTime(Duration(value));
}

// SQLite keeps infinities, and stores what is not a number as NULL.
double number_of(const Statement& row, int column) {
  return row.is_null(column) ? std::numeric_limits<double>::quiet_NaN() : row.real(column);
}

constexpr std::string_view kColumns = "id, job, metric, first_at, last_at, last_value";

Series series_at(const Statement& row) {
  return {.id = row.integer(0),
          .job = row.text(1),
          .metric = row.text(2),
          .first_at = time_of(row.integer(3)),
          .last = {.at = time_of(row.integer(4)), .value = number_of(row, 5)}};
}

Result<std::vector<Series>> all_series(Statement& statement) {
  std::vector<Series> all;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return all;
    }
    all.push_back(series_at(statement));
  }
}

Result<Series> make_series(Connection& connection, const Series& wanted) {
  YARD_TRY(Statement statement,
           connection.prepare("INSERT INTO metric_series (job, metric, first_at, last_at, "
                              "last_value) VALUES (:job, :metric, :first_at, :last_at, :value)"));
  YARD_TRY(statement.bind_text("job", wanted.job)
               .bind_text("metric", wanted.metric)
               .bind("first_at", millis(wanted.first_at))
               .bind("last_at", millis(wanted.last.at))
               .bind_real("value", wanted.last.value)
               .run());
  Series made = wanted;
  made.id = connection.last_row();
  return made;
}

Result<void> save_ends(Connection& connection, const Series& series) {
  YARD_TRY(Statement statement,
           connection.prepare("UPDATE metric_series SET first_at = :first_at, last_at = :last_at, "
                              "last_value = :value WHERE id = :id"));
  return statement.bind("first_at", millis(series.first_at))
      .bind("last_at", millis(series.last.at))
      .bind_real("value", series.last.value)
      .bind("id", series.id)
      .run();
}

Result<void> add_pieces(Connection& connection, std::int64_t series,
                        const std::vector<Point>& points) {
  const auto earlier = [](const Point& a, const Point& b) { return a.at < b.at; };
  for (const std::span<const Point> piece : cut(points)) {
    const auto [first, last] = std::minmax_element(piece.begin(), piece.end(), earlier);
    YARD_TRY(Statement statement,
             connection.prepare("INSERT INTO metric_points (series, first_at, last_at, points) "
                                "VALUES (:series, :first_at, :last_at, :points)"));
    YARD_TRY(statement.bind("series", series)
                 .bind("first_at", millis(first->at))
                 .bind("last_at", millis(last->at))
                 .bind_bytes("points", pack(piece))
                 .run());
  }
  return {};
}

Result<void> add_minutes(Connection& connection, std::int64_t series,
                         const std::vector<Point>& points) {
  Buckets minutes;
  add(points, kMinute, minutes);
  for (const auto& [start, values] : minutes) {
    YARD_TRY(
        Statement statement,
        connection.prepare(
            "INSERT INTO metric_minute (series, start, count, sum, least, most) VALUES (:series, "
            ":start, :count, :sum, :least, :most) ON CONFLICT (series, start) DO UPDATE SET "
            "count = metric_minute.count + excluded.count, "
            "sum = metric_minute.sum + excluded.sum, "
            "least = CASE WHEN excluded.least < metric_minute.least "
            "THEN excluded.least ELSE metric_minute.least END, "
            "most = CASE WHEN excluded.most > metric_minute.most "
            "THEN excluded.most ELSE metric_minute.most END"));
    YARD_TRY(statement.bind("series", series)
                 .bind("start", millis(start))
                 .bind("count", values.count)
                 .bind_real("sum", values.sum)
                 .bind_real("least", values.least)
                 .bind_real("most", values.most)
                 .run());
  }
  return {};
}

Result<void> add_to_series(Connection& connection, Series series,
                           const std::vector<Point>& points) {
  YARD_TRY(const auto known, find_series(connection, series.job, series.metric));
  if (known) {
    series = *known;
  } else {
    series.first_at = points[0].at;
    series.last = points[0];
    YARD_TRY(series, make_series(connection, series));
  }
  for (const Point& point : points) {
    series.first_at = std::min(series.first_at, point.at);
    if (point.at >= series.last.at) {
      series.last = point;
    }
  }
  YARD_TRY(save_ends(connection, series));
  YARD_TRY(add_pieces(connection, series.id, points));
  return add_minutes(connection, series.id, points);
}

// `rows`: a DELETE of the rows of :job, :limit of them at most. False when there was none.
Result<bool> delete_some(Connection& connection, std::string_view rows, const std::string& job,
                         std::int64_t limit) {
  YARD_TRY(Statement statement, connection.prepare(rows));
  YARD_TRY(statement.bind_text("job", job).bind("limit", limit).run());
  return connection.changes() > 0;
}

}  // namespace

Result<void> add_points(Connection& connection, const std::string& job,
                        const std::vector<wire::MetricPoint>& points) {
  std::map<std::string, std::vector<Point>> by_metric;
  for (const wire::MetricPoint& point : points) {
    by_metric[point.metric].push_back({.at = point.at, .value = point.value});
  }
  for (const auto& [metric, its_points] : by_metric) {
    YARD_TRY(add_to_series(connection, {.job = job, .metric = metric}, its_points));
  }
  return {};
}

Result<std::vector<Series>> series_of(Connection& connection, const std::string& job) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT " + std::string(kColumns) +
                              " FROM metric_series WHERE job = :job ORDER BY metric"));
  statement.bind_text("job", job);
  return all_series(statement);
}

Result<std::optional<Series>> find_series(Connection& connection, const std::string& job,
                                          const std::string& metric) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT " + std::string(kColumns) +
                              " FROM metric_series WHERE job = :job AND metric = :metric"));
  statement.bind_text("job", job).bind_text("metric", metric);
  YARD_TRY(const bool found, statement.step());
  return found ? std::optional(series_at(statement)) : std::nullopt;
}

Result<bool> delete_some_points(Connection& connection, const std::string& job) {
  YARD_TRY(const bool has_deleted,
           delete_some(connection,
                       "DELETE FROM metric_points WHERE id IN (SELECT metric_points.id FROM "
                       "metric_points JOIN metric_series ON metric_series.id = "
                       "metric_points.series WHERE job = :job LIMIT :limit)",
                       job, kPiecesOfADelete));
  if (has_deleted) {
    return true;
  }
  return delete_some(connection,
                     "DELETE FROM metric_minute WHERE (series, start) IN (SELECT series, start "
                     "FROM metric_minute JOIN metric_series ON metric_series.id = "
                     "metric_minute.series WHERE job = :job LIMIT :limit)",
                     job, kMinutesOfADelete);
}

Result<std::vector<Series>> list_series(Connection& connection, const SeriesQuery& query) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT " + std::string(kColumns) +
                              " FROM metric_series WHERE (:job = '' OR job = :job) AND "
                              "(:metric = '' OR metric = :metric) AND "
                              "(:active_after IS NULL OR last_at > :active_after) AND "
                              "(job > :after_job OR (job = :after_job AND metric > :after_metric)) "
                              "ORDER BY job, metric LIMIT :limit"));
  statement.bind_text("job", query.job)
      .bind_text("metric", query.metric)
      .bind("active_after",
            query.active_after ? std::optional(millis(*query.active_after)) : std::nullopt)
      .bind_text("after_job", query.after_job)
      .bind_text("after_metric", query.after_metric)
      .bind("limit", query.limit);
  return all_series(statement);
}

Result<Buckets> minutes_of(Connection& connection, std::int64_t series, const TimeRange& range) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT start, count, sum, least, most FROM metric_minute WHERE "
                              "series = :series AND start >= :from AND start < :to"));
  statement.bind("series", series).bind("from", millis(range.from)).bind("to", millis(range.to));
  Buckets minutes;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return minutes;
    }
    minutes[time_of(statement.integer(0))] = {.count = statement.integer(1),
                                              .sum = number_of(statement, 2),
                                              .least = number_of(statement, 3),
                                              .most = number_of(statement, 4)};
  }
}

Result<PointPage> points_of(Connection& connection, std::int64_t series, const TimeRange& range,
                            const std::optional<PointPage::Place>& from) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "SELECT first_at, id, points FROM metric_points WHERE series = :series AND "
               "first_at >= :first AND first_at < :to AND last_at >= :from AND "
               "(first_at > :after_at OR (first_at = :after_at AND id > :after_id)) "
               "ORDER BY first_at, id LIMIT :limit"));
  const WallTime first = range.from - kMostSpan;
  const PointPage::Place after = from.value_or(PointPage::Place{.first_at = first, .id = -1});
  statement.bind("series", series)
      .bind("first", millis(first))
      .bind("from", millis(range.from))
      .bind("to", millis(range.to))
      .bind("after_at", millis(after.first_at))
      .bind("after_id", after.id)
      .bind("limit", kPiecesOfAPage);
  PointPage page;
  for (std::int64_t count = 1;; ++count) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return page;
    }
    YARD_TRY(const std::vector<Point> points, unpack(statement.text(2)));
    std::copy_if(points.begin(), points.end(), std::back_inserter(page.points),
                 [&](const Point& point) { return point.at >= range.from && point.at < range.to; });
    if (count == kPiecesOfAPage) {
      page.next = {.first_at = time_of(statement.integer(0)), .id = statement.integer(1)};
      return page;
    }
  }
}

}  // namespace trainyard::control
