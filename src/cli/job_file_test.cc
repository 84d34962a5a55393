// SPDX-License-Identifier: Apache-2.0
#include "cli/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/validate.h"

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kJob = R"(
TrainingJobName: demo-1
RoleArn: arn:aws:iam::123456789012:role/Demo
AlgorithmSpecification: {TrainingImage: "trainyard/pytorch:2", TrainingInputMode: File}
InputDataConfig:
  - ChannelName: train
    DataSource: {S3DataSource: {S3DataType: S3Prefix, S3Uri: s3://data/train/}}
OutputDataConfig: {S3OutputPath: s3://data/out/}
ResourceConfig: {InstanceType: ml.m5.large, InstanceCount: 2, VolumeSizeInGB: 10}
StoppingCondition: {MaxRuntimeInSeconds: 600}
EnableNetworkIsolation: true
Environment: {COUNTRY: no, VERSION: 1.10}
)";

std::string hyperparameter(const std::string& yaml) {
  const auto job = parse_job("HyperParameters: {k: " + yaml + "}", false);
  return job ? (*job)["HyperParameters"]["k"].get<std::string>() : job.error().message;
}

TEST(JobFile, GivesARequestThatTheServerAccepts) {
  const auto job = parse_job(kJob, false);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  const auto valid = api::validate("sagemaker", "CreateTrainingJob", *job);
  EXPECT_TRUE(valid.has_value()) << valid.error().message;
  EXPECT_EQ((*job)["ResourceConfig"]["InstanceCount"], 2);
  EXPECT_EQ((*job)["EnableNetworkIsolation"], true);
  EXPECT_EQ((*job)["Environment"], Json({{"COUNTRY", "no"}, {"VERSION", "1.10"}}));
}

TEST(JobFile, OfTheHelpIsAcceptedByTheServer) {
  const auto job = parse_job(sample_job(), false);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  const auto valid = api::validate("sagemaker", "CreateTrainingJob", *job);
  EXPECT_TRUE(valid.has_value()) << valid.error().message;
  EXPECT_TRUE(api::unknown_members("sagemaker", "CreateTrainingJob", *job).empty());
  EXPECT_EQ((*job)["HyperParameters"]["lr"], "0.001");
}

class KeptText : public ::testing::TestWithParam<const char*> {};
TEST_P(KeptText, StaysAsItStands) {
  EXPECT_EQ(hyperparameter(GetParam()), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, KeptText,
                         ::testing::Values("0.10", "1e3", "012", "0x1F", "yes", "no", "on", "True",
                                           "1_000", "12:30", "2026-11-29", ".5", "-1", "+1", ".inf",
                                           "9223372036854775808", "$(id)", "\u65e5\u672c"));

TEST(JobFile, TakesQuotedAndStructuredHyperparameters) {
  EXPECT_EQ(hyperparameter("\"a\\nb\""), "a\nb");
  EXPECT_EQ(hyperparameter("''"), "");
  EXPECT_EQ(hyperparameter("[1, 2.5, true, \"7\", yes]"), R"([1,2.5,true,"7","yes"])");
  EXPECT_EQ(hyperparameter("{a: [1, {b: ~}]}"), R"({"a":[1,{"b":null}]})");
}

TEST(JobFile, AsksWhatAnEmptyHyperparameterMeans) {
  EXPECT_THAT(hyperparameter(""), HasSubstr("HyperParameters.k has no value: write \"\""));
}

TEST(JobFile, NamesThePlaceOfAFault) {
  EXPECT_THAT(parse_job("a: [1, 2", false).error().message, HasSubstr("line 1"));
  EXPECT_THAT(parse_job("TrainingJobName: a\nTrainingJobName: b\n", false).error().message,
              HasSubstr("line 2: TrainingJobName is given twice"));
  EXPECT_THAT(parse_job("{\"a\": }", true).error().message, HasSubstr("line 1, column 7"));
  EXPECT_FALSE(parse_job("just text", false).has_value());
  EXPECT_FALSE(parse_job("[]", true).has_value());
  EXPECT_FALSE(parse_job("", false).has_value());
}

TEST(JobFile, PassesWrongTypesToTheServer) {
  const auto job = parse_job("ResourceConfig: {InstanceCount: two}\n", false);
  EXPECT_EQ((*job)["ResourceConfig"]["InstanceCount"], "two");
}

struct Misspelt {
  const char* text;
  bool is_json;
  const char* message;
};
class MisspeltMember : public ::testing::TestWithParam<Misspelt> {};
TEST_P(MisspeltMember, IsRefusedWithTheRightName) {
  const auto job = parse_job(GetParam().text, GetParam().is_json);
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, Code::kInvalidArgument);
  EXPECT_THAT(job.error().message, HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(
    Table, MisspeltMember,
    ::testing::Values(
        Misspelt{"RoleArn: r\nCheckpointConfg: {S3Uri: s3://b/c}\n", false,
                 "line 2: CheckpointConfg is unknown; did you mean 'CheckpointConfig'?"},
        Misspelt{"StopingCondition: {MaxRuntimeInSeconds: 5}", false,
                 "StopingCondition is unknown; did you mean 'StoppingCondition'?"},
        Misspelt{"CheckpointConfg:\n", false,
                 "line 1: CheckpointConfg is unknown; did you mean 'CheckpointConfig'?"},
        Misspelt{"hyperparameters: {lr: 1}", false, "did you mean 'HyperParameters'?"},
        Misspelt{"CheckpointConfig:\n  S3Url: s3://b/c\n", false,
                 "line 2: CheckpointConfig.S3Url is unknown; did you mean 'S3Uri'?"},
        Misspelt{"InputDataConfig:\n  - ChannelName: a\n    DataSource: {S3DataSrc: {}}\n", false,
                 "line 3: InputDataConfig[0].DataSource.S3DataSrc is unknown; did you mean "
                 "'S3DataSource'?"},
        Misspelt{"CheckpointConfig: {Whatever: 1}", false,
                 "CheckpointConfig.Whatever is unknown; known are S3Uri, LocalPath"},
        Misspelt{R"({"StopingCondition": {}})", true,
                 "StopingCondition is unknown; did you mean 'StoppingCondition'?"},
        Misspelt{R"({"InputDataConfig": [{}, {"ChanelName": "a"}]})", true,
                 "InputDataConfig[1].ChanelName is unknown; did you mean 'ChannelName'?"}));

TEST(JobFile, TakesAnyHyperparameterAndVariable) {
  EXPECT_TRUE(parse_job("HyperParameters: {CheckpointConfg: 1}\nEnvironment: {x: y}", false));
  EXPECT_TRUE(parse_job(R"({"HyperParameters": {"a.b": "1"}, "Environment": {"x": "y"}})", true));
}

TEST(JobFile, RefusesEndlessNesting) {
  EXPECT_FALSE(parse_job("a: " + std::string(200, '[') + std::string(200, ']'), false).has_value());
}

TEST(Hyperparameters, AreSplitAtTheFirstEqualsSign) {
  Json job = Json::object();
  ASSERT_TRUE(set_hyperparameters(job, {"a=1", "b=x=y", "c=", "a=2"}).has_value());
  EXPECT_EQ(job["HyperParameters"], Json({{"a", "2"}, {"b", "x=y"}, {"c", ""}}));
  EXPECT_FALSE(set_hyperparameters(job, {"no value"}).has_value());
  EXPECT_FALSE(set_hyperparameters(job, {"=x"}).has_value());
}

class MadeName : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(MadeName, IsLegal) {
  const auto [image, base] = GetParam();
  const std::string name = make_job_name(image, WallTime(std::chrono::milliseconds(5)));
  EXPECT_EQ(name, std::string(base) + "-1970-01-01-00-00-00-005");
  const auto described =
      api::validate("sagemaker", "DescribeTrainingJob", {{"TrainingJobName", name}});
  EXPECT_TRUE(described.has_value()) << name;
}
INSTANTIATE_TEST_SUITE_P(
    Case42, MadeName,
    ::testing::Values(std::pair("x.y/my_img:latest", "my-img"), std::pair("", "job"),
                      std::pair("___", "job"), std::pair("a@sha256:0123", "a"),
                      std::pair("123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.5",
                                "pytorch-training"),
                      std::pair("\u65e5\u672c/\u65e5x_", "x"),
                      std::pair("aaaaaaaaaabbbbbbbbbbccccccccccdddddddd-eeee",
                                "aaaaaaaaaabbbbbbbbbbccccccccccdddddddd")));

}  // namespace
}  // namespace trainyard::cli
