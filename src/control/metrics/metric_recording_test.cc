// SPDX-License-Identifier: Apache-2.0
// Points on their way from reports of instances to what clients are shown, through Control.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/validate.h"
#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

class MetricRecording : public ::testing::Test {
 protected:
  MetricRecording() {
    json request = job_request(2);
    request["AlgorithmSpecification"]["MetricDefinitions"] = {
        {{"Name", "loss"}, {"Regex", "loss=(\\S+)"}},
        {{"Name", "acc"}, {"Regex", "acc=(\\S+)"}},
        {{"Name", "loss"}, {"Regex", "final loss (\\S+)"}}};
    EXPECT_TRUE(harness_.create("demo", 2, request));
    for (int i = 0; i < 2; ++i) {
      speakers_.push_back(std::make_unique<Speaker>(harness_, "demo", host_name(i)));
      speakers_.back()->begin_epoch(1);
    }
  }

  static wire::MetricPoint point(const std::string& metric, std::int64_t seconds, double value) {
    return {.metric = metric, .at = kTestTime + std::chrono::seconds(seconds), .value = value};
  }
  static json report(std::int64_t seq, const std::vector<wire::MetricPoint>& points) {
    return wire::to_json(wire::Report{.seq = seq, .points = points});
  }
  void send(int instance, const std::vector<json>& reports) {
    const auto answer = harness_.control().reports(
        speakers_[static_cast<std::size_t>(instance)]->caller(), json(reports));
    EXPECT_TRUE(answer) << answer.error().message;
  }
  // Every value of a metric, as the averages of its seconds.
  std::vector<double> values(const std::string& metric) {
    const auto answer =
        harness_.control().call("cloudwatch", "GetMetricStatistics",
                                {{"Namespace", "/aws/sagemaker/TrainingJobs"},
                                 {"MetricName", metric},
                                 {"Dimensions", {{{"Name", "TrainingJobName"}, {"Value", "demo"}}}},
                                 {"StartTime", 1'796'000'000},
                                 {"EndTime", 1'796'000'100},
                                 {"Period", 1},
                                 {"Statistics", {"Sum"}}},
                                {});
    EXPECT_TRUE(answer) << answer.error().message;
    std::vector<double> values;
    for (const json& sample : answer->at("Datapoints")) {
      values.push_back(sample.at("Sum").get<double>());
    }
    return values;
  }

  Harness harness_;
  std::vector<std::unique_ptr<Speaker>> speakers_;
};

TEST_F(MetricRecording, ShowsTheLastValueOfEachMetric) {
  send(0, {report(1, {point("loss", 1, 3), point("acc", 1, 0.5), point("loss", 2, 2)})});
  send(1, {report(1, {point("loss", 3, 1.5)})});
  const json job = harness_.describe("demo");
  const auto checked = api::check_output("sagemaker", "DescribeTrainingJob", job);
  EXPECT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(job["FinalMetricDataList"],
            json::array({{{"MetricName", "loss"}, {"Value", 1.5}, {"Timestamp", 1'796'000'003}},
                         {{"MetricName", "acc"}, {"Value", 0.5}, {"Timestamp", 1'796'000'001}}}));
}

TEST_F(MetricRecording, ShowsNothingBeforeThereIsAValue) {
  EXPECT_FALSE(harness_.describe("demo").contains("FinalMetricDataList"));
}

TEST_F(MetricRecording, KeepsNotANumberAsAWordThatJsonCanHold) {  // case 174
  send(0, {report(1, {point("loss", 1, 3), point("loss", 2, std::nan(""))})});
  const json job = harness_.describe("demo");
  EXPECT_EQ(job["FinalMetricDataList"][0]["Value"], "NaN");
  EXPECT_TRUE(json::accept(job.dump()));
  EXPECT_TRUE(api::check_output("sagemaker", "DescribeTrainingJob", job));
  EXPECT_THAT(values("loss"), ElementsAre(3));
}

TEST_F(MetricRecording, CountsAPointOnceHoweverOftenItsReportComes) {
  const json first = report(1, {point("loss", 1, 3)});
  send(0, {first});
  send(0, {first, report(2, {point("loss", 2, 2)})});
  send(0, {first, report(2, {point("loss", 2, 2)})});
  harness_.close();
  harness_.open();
  send(0, {report(2, {point("loss", 2, 2)}), report(3, {point("loss", 3, 1)})});
  EXPECT_THAT(values("loss"), ElementsAre(3, 2, 1));
}

TEST_F(MetricRecording, GoesOnOverAttemptsWithoutLossOrRepetition) {
  send(0, {report(1, {point("loss", 1, 4)})});
  send(1, {report(1, {point("acc", 1, 0.1)})});
  harness_.engine().kill("demo", "algo-2");
  const wire::Exit stopped{.stopped = true, .at = harness_.clock().now()};
  send(0, {report(2, {point("loss", 2, 3)}),
           wire::to_json(wire::Report{.seq = 3, .phase = wire::Phase::kEnded, .exit = stopped})});
  const std::string before = speakers_[1]->token();
  const Speaker replaced(harness_, "demo", "algo-2", before);
  send(0, {report(4, {point("loss", 3, 99)})});  // of the attempt that is over
  speakers_[0]->begin_epoch(2);
  send(0, {report(1, {point("loss", 4, 2)})});  // numbered anew
  EXPECT_THAT(values("loss"), ElementsAre(4, 3, 2));
  EXPECT_THAT(values("acc"), ElementsAre(0.1));
}

TEST_F(MetricRecording, ForgetsTheSeriesOfADeletedJob) {
  send(0, {report(1, {point("loss", 1, 4)})});
  ASSERT_TRUE(harness_.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  for (const auto& speaker : speakers_) {
    ASSERT_TRUE(speaker->end({.stopped = true}));
    ASSERT_TRUE(speaker->say(wire::Phase::kFinished));
  }
  ASSERT_TRUE(harness_.reaches("demo", "Stopped"));
  ASSERT_TRUE(harness_.call("DeleteTrainingJob", {{"TrainingJobName", "demo"}}));
  EXPECT_THAT(values("loss"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
