// SPDX-License-Identifier: Apache-2.0
#include "control/operations/update_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json rule(const std::string& name, const std::string& image = "image") {
  return {{"RuleConfigurationName", name}, {"RuleEvaluatorImage", image}};
}

TEST(UpdatedRequest, ReplacesTheMembersThatAreGiven) {
  Job job = running_job(Secondary::kTraining);
  job.request["ProfilerConfig"] = {{"S3OutputPath", "s3://bucket/p"}, {"DisableProfiler", false}};
  const auto request =
      updated_request(job, {{"TrainingJobName", "demo"},
                            {"ProfilerConfig", {{"DisableProfiler", true}}},
                            {"ResourceConfig", {{"KeepAlivePeriodInSeconds", 600}}},
                            {"RemoteDebugConfig", {{"EnableRemoteDebug", false}}}});
  ASSERT_TRUE(request) << request.error().message;
  json expected = job.request;
  expected["ProfilerConfig"] = {{"S3OutputPath", "s3://bucket/p"}, {"DisableProfiler", true}};
  expected["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 600;
  expected["RemoteDebugConfig"] = {{"EnableRemoteDebug", false}};
  EXPECT_EQ(*request, expected);
}

TEST(UpdatedRequest, ReplacesRulesByName) {
  Job job = running_job(Secondary::kTraining);
  job.request["ProfilerRuleConfigurations"] = {rule("a"), rule("b")};
  const auto request =
      updated_request(job, {{"ProfilerRuleConfigurations", {rule("b", "newer"), rule("c")}}});
  EXPECT_EQ((*request)["ProfilerRuleConfigurations"],
            json::array({rule("a"), rule("b", "newer"), rule("c")}));
}

TEST(UpdatedRequest, RefusesMoreThanTwentyRules) {
  const Job job = running_job(Secondary::kTraining);
  std::vector<json> rules;
  rules.reserve(21);
  for (int i = 0; i < 21; ++i) {
    rules.push_back(rule("r" + std::to_string(i)));
  }
  EXPECT_THAT(updated_request(job, {{"ProfilerRuleConfigurations", rules}}).error().message,
              HasSubstr("would have 21 rules"));
}

TEST(UpdatedRequest, RefusesJobsThatHaveEndedOrAreAboutTo) {
  const json input = {{"ProfilerConfig", {{"DisableProfiler", true}}}};
  Job job = running_job(Secondary::kTraining);
  set_status(job, Secondary::kStopping, "Stopping", kTestTime);
  const auto stopping = updated_request(job, input);
  EXPECT_EQ(stopping.error().code, Code::kConflict);
  EXPECT_THAT(stopping.error().message, HasSubstr("it is Stopping already"));
  set_status(job, Secondary::kStopped, "Stopped", kTestTime);
  EXPECT_THAT(updated_request(job, input).error().message, HasSubstr("it is Stopped already"));
}

TEST(UpdatedRequest, ChangesRemoteDebuggingOnlyWhileTheProgramCanBeMet) {
  const json input = {{"RemoteDebugConfig", {{"EnableRemoteDebug", false}}}};
  EXPECT_THAT(updated_request(running_job(Secondary::kStarting), input).error().message,
              HasSubstr("Downloading or Training, and it is Starting"));
  EXPECT_TRUE(updated_request(running_job(Secondary::kDownloading), input));
  EXPECT_TRUE(updated_request(running_job(Secondary::kStarting),
                              {{"ResourceConfig", {{"KeepAlivePeriodInSeconds", 1}}}}));
}

TEST(UpdateTrainingJob, ShowsInDescribeAndOutlivesARestart) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  harness.clock().advance(std::chrono::seconds(5));
  const auto answer = harness.call(
      "UpdateTrainingJob",
      {{"TrainingJobName", "demo"}, {"ResourceConfig", {{"KeepAlivePeriodInSeconds", 900}}}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ((*answer)["TrainingJobArn"], harness.describe("demo")["TrainingJobArn"]);
  harness.close();
  harness.open();
  const json job = harness.describe("demo");
  EXPECT_EQ(job["ResourceConfig"]["KeepAlivePeriodInSeconds"], 900);
  EXPECT_EQ(job["ResourceConfig"]["InstanceCount"], 1);
  EXPECT_GE(job["LastModifiedTime"].get<double>(), 1'796'000'005);
}

TEST(UpdateTrainingJob, KnowsNoUnknownJob) {
  Harness harness;
  EXPECT_EQ(harness
                .call("UpdateTrainingJob", {{"TrainingJobName", "none"},
                                            {"ResourceConfig", {{"KeepAlivePeriodInSeconds", 1}}}})
                .error()
                .code,
            Code::kNotFound);
}

}  // namespace
}  // namespace trainyard::control
