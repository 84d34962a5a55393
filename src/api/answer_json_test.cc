// SPDX-License-Identifier: Apache-2.0
#include "api/answer_json.h"

#include <chrono>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::api {
namespace {

using Json = nlohmann::json;

std::string description(const Json& job, NonFinite form) {
  return write_answer("sagemaker", "DescribeTrainingJob", job, form);
}

TEST(AnswerJson, WritesWordsWhereTheModelHasANumber) {
  const Json job = {{"FinalMetricDataList",
                     {{{"MetricName", "NaN"}, {"Value", "NaN"}},
                      {{"MetricName", "b"}, {"Value", "-Infinity"}},
                      {{"MetricName", "c"}, {"Value", "Infinity"}},
                      {{"MetricName", "d"}, {"Value", 0.5}}}},
                    {"HyperParameters", {{"Value", "NaN"}}}};
  EXPECT_EQ(description(job, NonFinite::kWords),
            R"({"FinalMetricDataList":[{"MetricName":"NaN","Value":NaN},)"
            R"({"MetricName":"b","Value":-Infinity},{"MetricName":"c","Value":Infinity},)"
            R"({"MetricName":"d","Value":0.5}],"HyperParameters":{"Value":"NaN"}})");
  EXPECT_EQ(description(job, NonFinite::kStrings), job.dump());
}

TEST(AnswerJson, TakesNoTextOfAUserForANumber) {
  const Json job = {{"FinalMetricDataList", {{{"Value", "NaN"}}}},
                    {"HyperParameters", {{"a", "number:NaN"}, {"b", "number::NaN"}}}};
  EXPECT_EQ(description(job, NonFinite::kWords),
            R"({"FinalMetricDataList":[{"Value":NaN}],)"
            R"("HyperParameters":{"a":"number:NaN","b":"number::NaN"}})");
}

// What a user prints or asks for must not cost the server seconds, whatever the text looks like.
TEST(AnswerJson, IsWrittenAtOnceWhateverTheText) {
  const std::string text = "number" + std::string(std::size_t{1} << 20, ':');
  Json job = {{"HyperParameters", {{"a", text}}}};
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(description(job, NonFinite::kWords), job.dump());
  job["FinalMetricDataList"] = {{{"Value", "NaN"}}};
  EXPECT_EQ(description(job, NonFinite::kWords),
            R"({"FinalMetricDataList":[{"Value":NaN}],"HyperParameters":{"a":")" + text + R"("}})");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
}

TEST(AnswerJson, IsTheSameWithoutSuchNumbers) {
  const Json job = {{"HyperParameters", {{"a", "Infinity"}}}, {"TrainingJobName", "demo"}};
  EXPECT_EQ(description(job, NonFinite::kWords), job.dump());
  EXPECT_EQ(write_answer("sagemaker", "NoSuchThing", {{"Value", "NaN"}}, NonFinite::kWords),
            R"({"Value":"NaN"})");
}

TEST(AnswerJson, GivesWordsToBotocoreAlone) {
  EXPECT_EQ(non_finite_for("Boto3/1.44.8 md/Botocore#1.44.8 ua/2.1 os/linux"), NonFinite::kWords);
  EXPECT_EQ(non_finite_for("Botocore/1.44.8 ua/2.1"), NonFinite::kWords);
  EXPECT_EQ(non_finite_for("aws-cli/1.46.8 md/Botocore#1.44.8 ua/2.1"), NonFinite::kStrings);
  EXPECT_EQ(non_finite_for("aws-sdk-go-v2/1.30.0"), NonFinite::kStrings);
  EXPECT_EQ(non_finite_for(""), NonFinite::kStrings);
}

}  // namespace
}  // namespace trainyard::api
