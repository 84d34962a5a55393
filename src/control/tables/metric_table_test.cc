// SPDX-License-Identifier: Apache-2.0
#include "control/tables/metric_table.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/tables/job_table.h"
#include "control/tables/schema.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

WallTime at(std::int64_t milliseconds) {
  return WallTime(Duration(milliseconds));
}

class MetricTableTest : public testing::Test {
 protected:
  MetricTableTest() {
    for (const char* name : {"demo", "other"}) {
      Job job = new_job(name);
      EXPECT_TRUE(
          database_->write([&](Connection& connection) { return insert_job(connection, job); }));
    }
  }

  void add(const std::string& job, const std::vector<wire::MetricPoint>& points) {
    const auto added = database_->write(
        [&](Connection& connection) { return add_points(connection, job, points); });
    EXPECT_TRUE(added) << added.error().message;
  }
  std::vector<Series> series(const std::string& job) {
    return *database_->read([&](Connection& connection) { return series_of(connection, job); });
  }
  Buckets minutes(const TimeRange& range) {
    const std::int64_t id = series("demo").at(0).id;
    return *database_->read(
        [&](Connection& connection) { return minutes_of(connection, id, range); });
  }
  std::int64_t count(const std::string& table) {
    return *database_->read([&](Connection& connection) -> Result<std::int64_t> {
      YARD_TRY(Statement statement, connection.prepare("SELECT COUNT(*) FROM " + table));
      YARD_TRY(statement.step());
      return statement.integer(0);
    });
  }
  // All points of a range and how many pages they took.
  std::pair<std::vector<double>, int> values(const TimeRange& range) {
    const std::int64_t id = series("demo").at(0).id;
    std::vector<double> values;
    std::optional<PointPage::Place> place;
    int pages = 0;
    do {
      const PointPage page = *database_->read(
          [&](Connection& connection) { return points_of(connection, id, range, place); });
      for (const Point& point : page.points) {
        values.push_back(point.value);
      }
      place = page.next;
      ++pages;
    } while (place);
    return {values, pages};
  }

  TempDir directory_ = *TempDir::make();
  std::unique_ptr<Database> database_ =
      *Database::open(directory_.path() / "test.db", schema_migrations());
};

TEST_F(MetricTableTest, KeepsTheLatestPointOfEachMetricAndJob) {
  add("demo", {{"loss", at(10), 3}, {"acc", at(11), 0.5}, {"loss", at(20), 2}});
  add("other", {{"loss", at(90), 9}});
  add("demo", {{"loss", at(15), 7}});  // of another instance, late
  const auto found = series("demo");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].metric, "acc");
  EXPECT_EQ(found[1].last.value, 2);
  EXPECT_EQ(found[1].last.at, at(20));
  EXPECT_EQ(found[1].first_at, at(10));
}

TEST_F(MetricTableTest, TakesTheLaterOfTwoPointsOfOneTimeAsTheLast) {
  add("demo", {{"loss", at(10), 3}, {"loss", at(10), 4}});
  add("demo", {{"loss", at(10), 5}});
  EXPECT_EQ(series("demo").at(0).last.value, 5);
}

TEST_F(MetricTableTest, KeepsWhatIsNotFinite) {  // case 174
  add("demo", {{"loss", at(10), std::nan("")}});
  EXPECT_TRUE(std::isnan(series("demo").at(0).last.value));
  add("demo", {{"loss", at(11), -HUGE_VAL}});
  EXPECT_EQ(series("demo").at(0).last.value, -HUGE_VAL);
  EXPECT_THAT(values({at(0), at(100)}).first, ElementsAre(testing::IsNan(), -HUGE_VAL));
  EXPECT_THAT(minutes({at(0), at(60'000)}), IsEmpty());
}

TEST_F(MetricTableTest, AddsUpEachMinute) {
  add("demo", {{"loss", at(1), 3}, {"loss", at(59'999), 5}, {"loss", at(60'000), 1}});
  add("demo", {{"loss", at(2), -1}, {"loss", at(60'001), 4}});
  EXPECT_THAT(minutes({at(0), at(120'000)}), ElementsAre(Pair(at(0), Aggregate{3, 7, -1, 5}),
                                                         Pair(at(60'000), Aggregate{2, 5, 1, 4})));
  EXPECT_EQ(minutes({at(60'000), at(120'000)}).size(), 1U);
}

TEST_F(MetricTableTest, SurvivesSumsBeyondWhatADoubleHolds) {
  for (const double value : {1e308, 1e308, -1e308, -1e308, -1e308, -1e308}) {
    add("demo", {{"loss", at(1), value}, {"loss", at(2), value}});
  }
  EXPECT_EQ(minutes({at(0), at(60'000)}).begin()->second.count, 12);
}

TEST_F(MetricTableTest, ReadsAnyRangeInPages) {
  const auto fill = [](Connection& connection) -> Result<void> {
    for (int i = 0; i < 200; ++i) {
      YARD_TRY(add_points(
          connection, "demo",
          {{"loss", at(1000LL * i), 2.0 * i}, {"loss", at(1000LL * i + 500), 2.0 * i + 1}}));
    }
    return {};
  };
  ASSERT_TRUE(database_->write(fill));
  const auto [all, pages] = values({at(0), at(1'000'000)});
  ASSERT_EQ(all.size(), 400U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], static_cast<double>(i));
  }
  EXPECT_GT(pages, 1);
  EXPECT_THAT(values({at(10'500), at(11'001)}).first, ElementsAre(21, 22));
  EXPECT_THAT(values({at(199'501), at(1'000'000)}).first, IsEmpty());
}

TEST_F(MetricTableTest, ListsInOrderFromAPlaceOn) {
  add("demo", {{"a", at(10), 1}, {"b", at(20), 1}});
  add("other", {{"a", at(30), 1}});
  const auto list = [&](const SeriesQuery& query) {
    std::vector<std::string> names;
    const std::vector<Series> found =
        *database_->read([&](Connection& connection) { return list_series(connection, query); });
    names.reserve(found.size());
    for (const Series& one : found) {
      names.push_back(one.job + "/" + one.metric);
    }
    return names;
  };
  EXPECT_THAT(list({}), ElementsAre("demo/a", "demo/b", "other/a"));
  EXPECT_THAT(list({.metric = "a"}), ElementsAre("demo/a", "other/a"));
  EXPECT_THAT(list({.job = "demo", .limit = 1}), ElementsAre("demo/a"));
  EXPECT_THAT(list({.after_job = "demo", .after_metric = "a"}), ElementsAre("demo/b", "other/a"));
  EXPECT_THAT(list({.active_after = at(20)}), ElementsAre("other/a"));
}

TEST_F(MetricTableTest, GoesWithTheJob) {
  add("demo", {{"loss", at(10), 3}});
  add("other", {{"loss", at(10), 4}});
  ASSERT_TRUE(
      database_->write([&](Connection& connection) { return delete_job(connection, "demo"); }));
  EXPECT_THAT(series("demo"), IsEmpty());
  EXPECT_EQ(series("other").size(), 1U);
  for (const char* table : {"metric_points", "metric_minute"}) {
    EXPECT_EQ(count(table), 1) << table;
  }
}

TEST_F(MetricTableTest, TakesPointsAwayPartByPart) {
  std::vector<wire::MetricPoint> points;
  points.reserve(1'200);
  for (int i = 0; i < 1'200; ++i) {  // a piece each, for they are more than a minute apart
    points.push_back({.metric = "loss", .at = at(61'000LL * i), .value = 1});
  }
  add("demo", points);
  add("other", {{"loss", at(1), 1}});
  const auto more = [&] {
    return *database_->write(
        [&](Connection& connection) { return delete_some_points(connection, "demo"); });
  };
  EXPECT_TRUE(more());
  EXPECT_EQ(values({at(0), at(100'000'000)}).first.size(), 200U);
  EXPECT_TRUE(more());
  EXPECT_EQ(count("metric_minute"), 1'201);
  EXPECT_TRUE(more());
  EXPECT_FALSE(more());
  EXPECT_EQ(count("metric_points"), 1);  // that of the other
  EXPECT_EQ(count("metric_minute"), 1);
}

TEST_F(MetricTableTest, RefusesPointsOfAJobThatIsGone) {
  EXPECT_FALSE(database_->write([&](Connection& connection) {
    return add_points(connection, "gone", {{"loss", at(1), 1}});
  }));
}

}  // namespace
}  // namespace trainyard::control
