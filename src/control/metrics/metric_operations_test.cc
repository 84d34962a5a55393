// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/metric_operations.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/validate.h"
#include "control/tables/job_table.h"
#include "control/tables/metric_table.h"
#include "control/tables/schema.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kStart = 1'796'000'040;  // a whole minute, in seconds

// One job, "demo", with a point of "loss" every half second for five minutes: 0, 1, 2, ...
class MetricOperationsTest : public testing::Test {
 protected:
  MetricOperationsTest() {
    Job job = new_job("demo");
    std::vector<wire::MetricPoint> points;
    points.reserve(602);
    for (int i = 0; i < 600; ++i) {
      points.push_back({.metric = "loss", .at = at(500LL * i), .value = static_cast<double>(i)});
    }
    points.push_back({.metric = "loss", .at = at(1'000'000), .value = std::nan("")});
    points.push_back({.metric = "acc", .at = at(60'000), .value = 0.5});
    EXPECT_TRUE(database_->write([&](Connection& connection) -> Result<void> {
      YARD_TRY(insert_job(connection, job));
      return add_points(connection, "demo", points);
    }));
  }

  static WallTime at(std::int64_t milliseconds) {
    return WallTime(Duration(kStart * 1000 + milliseconds));
  }

  Result<json> call(const std::string& operation, const json& input) {
    const auto valid = api::validate("cloudwatch", operation, input);
    EXPECT_TRUE(valid) << valid.error().message;
    auto answer = call_metrics(*database_, at(3'600'000), operation, input);
    if (answer) {
      const auto checked = api::check_output("cloudwatch", operation, *answer);
      EXPECT_TRUE(checked) << checked.error().message;
    }
    return answer;
  }
  static json dimensions(const std::string& job = "demo") {
    return json::array({{{"Name", "TrainingJobName"}, {"Value", job}}});
  }
  static json statistics(const json& changes = json::object()) {
    json input = {{"Namespace", "/aws/sagemaker/TrainingJobs"},
                  {"MetricName", "loss"},
                  {"Dimensions", dimensions()},
                  {"StartTime", kStart},
                  {"EndTime", kStart + 300},
                  {"Period", 60},
                  {"Statistics", {"Average"}}};
    input.update(changes);
    return input;
  }
  std::vector<double> averages(const json& changes = json::object()) {
    const auto answer = call("GetMetricStatistics", statistics(changes));
    EXPECT_TRUE(answer) << answer.error().message;
    std::vector<double> values;
    for (const json& point : answer->at("Datapoints")) {
      values.push_back(point.at("Average").get<double>());
    }
    return values;
  }

  static json query(const std::string& id, const std::string& metric, int period) {
    return {{"Id", id},
            {"MetricStat",
             {{"Metric",
               {{"Namespace", "/aws/sagemaker/TrainingJobs"},
                {"MetricName", metric},
                {"Dimensions", dimensions()}}},
              {"Period", period},
              {"Stat", "Maximum"}}}};
  }

  TempDir directory_ = *TempDir::make();
  std::unique_ptr<Database> database_ =
      *Database::open(directory_.path() / "test.db", schema_migrations());
};

TEST_F(MetricOperationsTest, AveragesEachMinute) {
  EXPECT_THAT(averages(), ElementsAre(59.5, 179.5, 299.5, 419.5, 539.5));
  EXPECT_THAT(averages({{"Period", 120}, {"EndTime", kStart + 240}}), ElementsAre(119.5, 359.5));
}

TEST_F(MetricOperationsTest, AveragesSecondsFromThePointsThemselves) {
  EXPECT_THAT(averages({{"Period", 1}, {"EndTime", kStart + 3}}), ElementsAre(0.5, 2.5, 4.5));
  EXPECT_THAT(averages({{"Period", 10}, {"StartTime", kStart + 60}, {"EndTime", kStart + 80}}),
              ElementsAre(129.5, 149.5));
}

TEST_F(MetricOperationsTest, GivesEveryStatisticThatWasAskedFor) {
  const json answer =
      *call("GetMetricStatistics",
            statistics({{"EndTime", kStart + 60},
                        {"Statistics", {"Average", "Sum", "Minimum", "Maximum", "SampleCount"}}}));
  EXPECT_EQ(answer.at("Label"), "loss");
  EXPECT_EQ(answer.at("Datapoints"), json::array({{{"Timestamp", kStart},
                                                   {"Unit", "None"},
                                                   {"Average", 59.5},
                                                   {"Sum", 7140.0},
                                                   {"Minimum", 0.0},
                                                   {"Maximum", 119.0},
                                                   {"SampleCount", 120.0}}}));
}

TEST_F(MetricOperationsTest, CountsThePeriodInWhichTheRangeBeginsAndEnds) {
  EXPECT_THAT(averages({{"StartTime", kStart + 90.5}, {"EndTime", kStart + 120.5}}),
              ElementsAre(179.5, 299.5));
}

TEST_F(MetricOperationsTest, LeavesOutWhatIsNotFinite) {  // case 174
  EXPECT_THAT(averages({{"StartTime", kStart + 960}, {"EndTime", kStart + 1080}}), IsEmpty());
}

TEST_F(MetricOperationsTest, HasNothingOfMetricsThatAreNotOurs) {
  for (const json& other :
       {json{{"Namespace", "AWS/EC2"}}, json{{"MetricName", "none"}},
        json{{"Dimensions", dimensions("other")}}, json{{"Dimensions", json::array()}},
        json{{"Dimensions", {{{"Name", "Host"}, {"Value", "demo"}}}}}, json{{"Unit", "Seconds"}}}) {
    EXPECT_THAT(averages(other), IsEmpty()) << other;
  }
}

TEST_F(MetricOperationsTest, SaysWhatIsWrongWithAQuestion) {
  const auto refused = [&](const json& changes, bool without_statistics = false) {
    json input = statistics(changes);
    if (without_statistics) {
      input.erase("Statistics");
    }
    const auto answer = call("GetMetricStatistics", input);
    return answer ? Error{Code::kInternal, "was answered"} : answer.error();
  };
  EXPECT_THAT(refused({{"Period", 7}}).message, HasSubstr("Period must be 1, 5, 10, 20, 30 or"));
  EXPECT_THAT(refused({{"EndTime", kStart}}).message, HasSubstr("StartTime must be less than"));
  EXPECT_EQ(refused(json::object(), true).subject, "missing");
  EXPECT_THAT(refused({{"ExtendedStatistics", {"p50"}}}).message, HasSubstr("not supported"));
  const Error many = refused({{"Period", 1}, {"EndTime", kStart + 1'441}});
  EXPECT_EQ(many.subject, "combination");
  EXPECT_THAT(many.message, HasSubstr("up to 1441 datapoints, which exceeds the limit of 1440"));
}

TEST_F(MetricOperationsTest, ReadsSeveralMetricsAtOnce) {
  json hidden = query("hidden", "loss", 60);
  hidden["ReturnData"] = false;
  json labelled = query("b", "acc", 60);
  labelled["Label"] = "accuracy";
  const json answer =
      *call("GetMetricData", {{"MetricDataQueries", {query("a", "loss", 60), hidden, labelled}},
                              {"StartTime", kStart},
                              {"EndTime", kStart + 180}});
  const json& results = answer.at("MetricDataResults");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0], (json{{"Id", "a"},
                              {"Label", "loss"},
                              {"StatusCode", "Complete"},
                              {"Timestamps", {kStart + 120, kStart + 60, kStart}},  // newest first
                              {"Values", {359.0, 239.0, 119.0}}}));
  EXPECT_EQ(results[1].at("Label"), "accuracy");
  EXPECT_EQ(results[1].at("Values"), json::array({0.5}));
  EXPECT_FALSE(answer.contains("NextToken"));
}

// Names have a length, and no pattern that only text would fit.
TEST_F(MetricOperationsTest, AnswersWhoAsksForBytesThatAreNoText) {
  const auto ask = [&](const std::string& operation, const json& input) {
    return call_metrics(*database_, at(3'600'000), operation, input);
  };
  const auto listed = ask("ListMetrics", {{"MetricName", "\xff"}});
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->at("Metrics"), json::array());
  const auto read =
      ask("GetMetricData", {{"MetricDataQueries", json::array({query("\xff", "loss", 60)})},
                            {"StartTime", kStart},
                            {"EndTime", kStart + 60}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->at("MetricDataResults").size(), 1U);
}

TEST_F(MetricOperationsTest, PagesWithoutLossOrRepetition) {
  for (const bool descending : {false, true}) {
    json input = {{"MetricDataQueries", {query("a", "loss", 10), query("b", "acc", 60)}},
                  {"StartTime", kStart},
                  {"EndTime", kStart + 300},
                  {"MaxDatapoints", 7},
                  {"ScanBy", descending ? "TimestampDescending" : "TimestampAscending"}};
    std::map<std::string, std::vector<double>> values;
    int pages = 0;
    do {
      const auto answer = call("GetMetricData", input);
      ASSERT_TRUE(answer) << answer.error().message;
      for (const json& result : answer->at("MetricDataResults")) {
        for (const json& value : result.at("Values")) {
          values[result.at("Id").get<std::string>()].push_back(value.get<double>());
        }
      }
      input["NextToken"] = answer->value("NextToken", json());
      ++pages;
    } while (!input["NextToken"].is_null() && pages < 100);
    EXPECT_EQ(pages, 5);
    EXPECT_THAT(values["b"], ElementsAre(0.5));
    ASSERT_EQ(values["a"].size(), 30U);
    EXPECT_EQ(values["a"].front(), descending ? 599 : 19);
    EXPECT_TRUE(std::ranges::is_sorted(
        values["a"], [&](double a, double b) { return descending ? a > b : a < b; }));
  }
}

TEST_F(MetricOperationsTest, RefusesQueriesThatItCannotAnswer) {
  const auto refused = [&](const json& queries) {
    const auto answer =
        call("GetMetricData",
             {{"MetricDataQueries", queries}, {"StartTime", kStart}, {"EndTime", kStart + 180}});
    return answer ? std::string("was answered") : answer.error().message;
  };
  EXPECT_THAT(refused(json::array({{{"Id", "e"}, {"Expression", "a*2"}}})),
              HasSubstr("The query 'e' has no MetricStat"));
  json percentile = query("p", "loss", 60);
  percentile["MetricStat"]["Stat"] = "p99";
  EXPECT_THAT(refused(json::array({percentile})),
              HasSubstr("statistic 'p99' of the query 'p' is not supported"));
  EXPECT_THAT(refused({query("a", "loss", 60), query("a", "acc", 60)}),
              HasSubstr("The Id 'a' is used twice"));
}

TEST_F(MetricOperationsTest, RefusesTokensOfOtherQuestions) {
  const auto answer = call("GetMetricData", {{"MetricDataQueries", {query("a", "loss", 60)}},
                                             {"StartTime", kStart},
                                             {"EndTime", kStart + 180},
                                             {"NextToken", "garbage"}});
  EXPECT_EQ(answer.error().subject, "token");
  EXPECT_EQ(call("ListMetrics", {{"NextToken", "garbage"}}).error().subject, "token");
}

TEST_F(MetricOperationsTest, ListsMetricsWithTheirJobs) {
  const auto list = [&](const json& input) {
    std::vector<std::string> names;
    const json answer = *call("ListMetrics", input);
    for (const json& metric : answer.at("Metrics")) {
      EXPECT_EQ(metric.at("Namespace"), "/aws/sagemaker/TrainingJobs");
      EXPECT_EQ(metric.at("Dimensions"), dimensions());
      names.push_back(metric.at("MetricName").get<std::string>());
    }
    return names;
  };
  EXPECT_THAT(list(json::object()), ElementsAre("acc", "loss"));
  EXPECT_THAT(list({{"Namespace", "/aws/sagemaker/TrainingJobs"}, {"MetricName", "loss"}}),
              ElementsAre("loss"));
  EXPECT_THAT(list({{"Dimensions", {{{"Name", "TrainingJobName"}}}}}), ElementsAre("acc", "loss"));
  EXPECT_THAT(list({{"Dimensions", dimensions("other")}}), IsEmpty());
  EXPECT_THAT(list({{"Dimensions", {{{"Name", "Host"}}}}}), IsEmpty());
  EXPECT_THAT(list({{"Namespace", "AWS/EC2"}}), IsEmpty());
  EXPECT_THAT(list({{"RecentlyActive", "PT3H"}}), ElementsAre("acc", "loss"));
}

TEST_F(MetricOperationsTest, ListsFiveHundredMetricsAPage) {
  std::vector<wire::MetricPoint> points;
  points.reserve(700);
  for (int i = 0; i < 700; ++i) {
    points.push_back({.metric = "m" + std::to_string(i), .at = at(0), .value = 1});
  }
  ASSERT_TRUE(database_->write(
      [&](Connection& connection) { return add_points(connection, "demo", points); }));
  const json first = *call("ListMetrics", json::object());
  EXPECT_EQ(first.at("Metrics").size(), 500U);
  const json second = *call("ListMetrics", {{"NextToken", first.at("NextToken")}});
  EXPECT_EQ(second.at("Metrics").size(), 202U);
  EXPECT_FALSE(second.contains("NextToken"));
}

}  // namespace
}  // namespace trainyard::control
