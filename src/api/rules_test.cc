// SPDX-License-Identifier: Apache-2.0
#include "api/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/validate.h"
#include "testing/aws_requests.h"

namespace trainyard::api {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A change to an ordinary job, and what the answer must say. Empty: the job is accepted.
struct Case {
  const char* name;
  Json patch;  // RFC 7396: null removes a member
  std::string says;
};

std::string s3(const std::string& members) {
  return R"([{"ChannelName":"train","DataSource":{"S3DataSource":{)" + members + "}}}]";
}

Json channels(const std::string& text) {
  return {{"InputDataConfig", Json::parse(text)}};
}

const std::string kGood = R"("S3DataType":"S3Prefix","S3Uri":"s3://data/x")";

std::vector<Case> cases() {
  return {
      {"NoAlgorithm",
       {{"AlgorithmSpecification", nullptr}},
       "Value null at 'algorithmSpecification'"},
      {"NoResources", {{"ResourceConfig", nullptr}}, "Value null at 'resourceConfig'"},
      {"NoStoppingCondition",
       {{"StoppingCondition", nullptr}},
       "Value null at 'stoppingCondition'"},
      {"NoChannelsAtAll", {{"InputDataConfig", nullptr}}, ""},
      {"ImageAndName",
       {{"AlgorithmSpecification", {{"AlgorithmName", "mine"}}}},
       "Exactly one of TrainingImage and AlgorithmName"},
      {"NameOnly",
       {{"AlgorithmSpecification", {{"AlgorithmName", "mine"}, {"TrainingImage", nullptr}}}},
       "AlgorithmName at 'algorithmSpecification.algorithmName' is not supported by this server "
       "yet"},
      {"NoInstanceType",
       {{"ResourceConfig", {{"InstanceType", nullptr}}}},
       "Value null at 'resourceConfig.instanceType'"},
      {"NoInstanceCount",
       {{"ResourceConfig", {{"InstanceCount", nullptr}}}},
       "Value null at 'resourceConfig.instanceCount'"},
      {"GroupsBesideType",
       {{"ResourceConfig", {{"InstanceGroups", Json::array()}}}},
       "InstanceGroups excludes InstanceType and InstanceCount"},
      {"KeepAlive", {{"ResourceConfig", {{"KeepAlivePeriodInSeconds", 3600}}}}, ""},
      {"KeepAliveTooLong",
       {{"ResourceConfig", {{"KeepAlivePeriodInSeconds", 3601}}}},
       "Member must have value less than or equal to 3600"},
      {"RuntimeTooLong",
       {{"StoppingCondition", {{"MaxRuntimeInSeconds", 2'419'201}}}},
       "Member must have value less than or equal to 2419200"},
      {"Spot",
       {{"EnableManagedSpotTraining", true},
        {"StoppingCondition", {{"MaxWaitTimeInSeconds", 600}}}},
       ""},
      {"SpotWithoutWait",
       {{"EnableManagedSpotTraining", true}},
       "is required with EnableManagedSpotTraining"},
      {"WaitWithoutSpot",
       {{"StoppingCondition", {{"MaxWaitTimeInSeconds", 600}}}},
       "needs EnableManagedSpotTraining"},
      {"WaitShorterThanRun",
       {{"EnableManagedSpotTraining", true},
        {"StoppingCondition", {{"MaxWaitTimeInSeconds", 599}}}},
       "greater than or equal to MaxRuntimeInSeconds, 600"},
      {"SameChannelTwice",
       {{"InputDataConfig",
         {testing::s3_channel("a", "s3://data/x"), testing::s3_channel("a", "s3://data/y")}}},
       "Value 'a' at 'inputDataConfig.2.member.channelName' failed to satisfy constraint: Channel "
       "names must be unique"},
      {"NoDataSource", channels(R"([{"ChannelName":"train","DataSource":{}}])"),
       "Exactly one data source must be given at 'inputDataConfig.1.member.dataSource'"},
      {"FileSystem", channels(R"([{"ChannelName":"train","DataSource":{"FileSystemDataSource":{
         "FileSystemId":"fs-0123456789","FileSystemType":"EFS","FileSystemAccessMode":"ro",
         "DirectoryPath":"/x"}}}])"),
       "FileSystemDataSource at 'inputDataConfig.1.member.dataSource.fileSystemDataSource' is not "
       "supported by this server yet"},
      {"Manifest", channels(s3(R"("S3DataType":"ManifestFile","S3Uri":"s3://data/x")")),
       "ManifestFile at "},
      {"GroupsOfAChannel", channels(s3(kGood + R"(,"InstanceGroupNames":["a"])")),
       "InstanceGroupNames at "},
      {"HttpsData", channels(s3(R"("S3DataType":"S3Prefix","S3Uri":"https://data/x")")),
       "Member must start with s3://"},
      {"NoBucket",
       {{"OutputDataConfig", {{"S3OutputPath", "s3://A_b/out"}}}},
       "Value 's3://A_b/out' at 'outputDataConfig.s3OutputPath' failed to satisfy constraint: "
       "Member must name a bucket"},
      {"PipeForAll",
       {{"AlgorithmSpecification", {{"TrainingInputMode", "Pipe"}}}},
       "Pipe mode at 'algorithmSpecification.trainingInputMode' is not supported"},
      {"PipeWithoutChannels",
       {{"AlgorithmSpecification", {{"TrainingInputMode", "Pipe"}}}, {"InputDataConfig", nullptr}},
       ""},
      {"CheckpointDefault", {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}}}}, ""},
      {"CheckpointOwnPlace",
       {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}, {"LocalPath", "/opt/ml/checkpoints"}}}},
       ""},
      {"CheckpointInModel",
       {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}, {"LocalPath", "/opt/ml/x/../model/"}}}},
       "Member must not overlap the reserved directory /opt/ml/model"},
      {"CheckpointAboveAll",
       {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}, {"LocalPath", "/opt/ml"}}}},
       "Member must not overlap the reserved directory /opt/ml/input"},
      {"CheckpointBesideModel",
       {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}, {"LocalPath", "/opt/ml/model2"}}}},
       ""},
      {"CheckpointElsewhere",
       {{"CheckpointConfig", {{"S3Uri", "s3://data"}, {"LocalPath", "/data/ckpt/"}}}},
       ""},
      {"CheckpointNowhere",
       {{"CheckpointConfig", {{"LocalPath", "/data/ckpt/"}}}},
       "Value null at 'checkpointConfig.s3Uri'"},
      {"CheckpointInFile",
       {{"CheckpointConfig", {{"S3Uri", "file:///data"}}}},
       "Value 'file:///data' at 'checkpointConfig.s3Uri'"},
      {"CheckpointInSystem",
       {{"CheckpointConfig", {{"S3Uri", "s3://data"}, {"LocalPath", "/usr/local/ckpt"}}}},
       "Member must not overlap the reserved directory /usr"},
      {"CheckpointEverywhere",
       {{"CheckpointConfig", {{"S3Uri", "s3://data"}, {"LocalPath", "//"}}}},
       "Member must not overlap the reserved directory"},
      {"CheckpointLongName",
       {{"CheckpointConfig",
         {{"S3Uri", "s3://data"}, {"LocalPath", "/data/" + std::string(256, 'x')}}}},
       "Member must not have a part longer than 255 bytes"},
      {"CheckpointRelative",
       {{"CheckpointConfig", {{"S3Uri", "s3://data/ckpt"}, {"LocalPath", "ckpt"}}}},
       "Member must be an absolute path"},
      {"SameTagTwice",
       {{"Tags", {{{"Key", "a"}, {"Value", ""}}, {{"Key", "a"}, {"Value", "b"}}}}},
       "Value 'a' at 'tags.2.member.key' failed to satisfy constraint: Tag keys must be unique"},
      {"TagOfAws", {{"Tags", {{{"Key", "AWS:x"}, {"Value", ""}}}}}, "The prefix aws: is reserved"},
      {"TensorBoard",
       {{"TensorBoardOutputConfig", {{"S3OutputPath", "s3://data/tb"}}}},
       "TensorBoardOutputConfig at 'tensorBoardOutputConfig' is not supported"},
      {"WhatSdksSendByDefault",
       {{"DebugHookConfig",
         {{"S3OutputPath", "s3://data/"}, {"CollectionConfigurations", Json::array()}}},
        {"ProfilerConfig", {{"DisableProfiler", true}}},
        {"ExperimentConfig", {{"ExperimentName", "e"}}},
        {"VpcConfig", {{"SecurityGroupIds", {"sg-1"}}, {"Subnets", {"subnet-1"}}}},
        {"EnableNetworkIsolation", true},
        {"EnableInterContainerTrafficEncryption", false}},
       ""},
  };
}

std::vector<Case> metric_cases() {
  return {
      {"Metric",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions", {{{"Name", "loss"}, {"Regex", "loss=(.*?);"}}}}}}},
       ""},
      {"MetricBroken",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions", {{{"Name", "loss"}, {"Regex", "loss=("}}}}}}},
       "Value 'loss=(' at 'algorithmSpecification.metricDefinitions.1.member.regex' failed to "
       "satisfy constraint: Member of metric loss must be a regular expression as Python reads it: "
       "missing closing parenthesis at offset 6"},
      {"MetricWithoutGroup",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions", {{{"Name", "loss"}, {"Regex", "loss"}}}}}}},
       "Member of metric loss must have a group, whose text becomes the value"},
      {"MetricInPythonsSyntax",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions", {{{"Name", "loss"}, {"Regex", "(?P<v>\\d{,3})\\Z"}}}}}}},
       ""},
      {"TheSecondMetricBroken",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions",
           {{{"Name", "a"}, {"Regex", "(a+)+$"}}, {{"Name", "b"}, {"Regex", "[z-a](.)"}}}}}}},
       "Value '[z-a](.)' at 'algorithmSpecification.metricDefinitions.2.member.regex' failed to "
       "satisfy constraint: Member of metric b must be a regular expression as Python reads it: "
       "range out of order"},
      {"MetricWithoutAName",
       {{"AlgorithmSpecification", {{"MetricDefinitions", {{{"Name", ""}, {"Regex", "(a)"}}}}}}},
       "at 'algorithmSpecification.metricDefinitions.1.member.name' failed to satisfy constraint"},
      {"FortyOneMetrics",
       {{"AlgorithmSpecification",
         {{"MetricDefinitions", std::vector<Json>(41, Json{{"Name", "a"}, {"Regex", "(a)"}})}}}},
       "at 'algorithmSpecification.metricDefinitions' failed to satisfy constraint: Member must "
       "have length less than or equal to 40"},
  };
}

std::vector<Case> text_cases() {
  return {
      {"NulInAHyperparameter",
       {{"HyperParameters", {{"a", std::string("b\0c", 3)}}}},
       "at 'hyperParameters' failed to satisfy constraint: Member must not contain NUL"},
      {"NulInTheKeyOfOne",
       {{"HyperParameters", {{std::string("a\0b", 3), "c"}}}},
       "at 'hyperParameters' failed to satisfy constraint: Member must not contain NUL"},
      {"NulInTheEnvironment",
       {{"Environment", {{"A", std::string("\0", 1)}}}},
       "at 'environment' failed to satisfy constraint: Member must not contain NUL"},
      {"NulInAnArgument",
       {{"AlgorithmSpecification", {{"ContainerArguments", {"a", std::string("b\0", 2)}}}}},
       "at 'algorithmSpecification.containerArguments' failed to satisfy constraint: Member must "
       "not contain NUL"},
      {"KeysOfAnyOtherKind",
       {{"HyperParameters", {{"a=b", "1"}, {"1a", "1"}, {"a.b", "1"}, {"a-b", "1"}, {"日", "1"}}}},
       ""},
  };
}

Case launcher(const char* name, const char* value, const char* says,
              const char* key = "sagemaker_torch_distributed_enabled") {
  return {name, {{"HyperParameters", {{key, value}}}}, says};
}

std::vector<Case> launcher_cases() {
  const char* refused =
      "at 'hyperParameters.sagemaker_torch_distributed_enabled' failed to satisfy constraint: "
      "Member must be true or false";
  return {
      launcher("True", "true", ""),
      launcher("PythonsTrue", "True", ""),
      launcher("LoudTrue", "TRUE", ""),
      launcher("QuotedTrue", "\"true\"", ""),
      launcher("QuotedPythonsFalse", "\"False\"", ""),
      launcher("False", "false", ""),
      launcher("Yes", "yes",
               "Value 'yes' at 'hyperParameters.sagemaker_torch_distributed_enabled'"),
      launcher("QuotedYes", "\"yes\"", refused),
      launcher("One", "1", refused),
      launcher("On", "on", refused),
      launcher("Null", "null", refused),
      launcher("Nothing", "", refused),
      launcher("Mpi", "maybe", "Value 'maybe' at 'hyperParameters.sagemaker_mpi_enabled'",
               "sagemaker_mpi_enabled"),
      launcher("Ddp", "maybe", "Value 'maybe' at 'hyperParameters.sagemaker_pytorch_ddp_enabled'",
               "sagemaker_pytorch_ddp_enabled"),
      launcher("Smddp", "maybe",
               "Value 'maybe' at 'hyperParameters.sagemaker_distributed_dataparallel_enabled'",
               "sagemaker_distributed_dataparallel_enabled"),
      launcher("OfTheUser", "yes", "", "my_mpi_enabled"),
  };
}

Case output(const char* name, const char* uri, const char* says) {
  return {name, {{"OutputDataConfig", {{"S3OutputPath", uri}}}}, says};
}

std::vector<Case> bucket_cases() {
  const char* refused = "Member must name a bucket";
  return {
      output("Address", "s3://169.254.169.254/latest", refused),
      output("EmptyPart", "s3://a..b/out", refused),
      output("HyphenInFront", "s3://-ab/out", refused),
      output("DotBehind", "s3://ab./out", refused),
      output("ThreeNumbers", "s3://1.2.3/out", ""),
      output("FourNumbersAndMore", "s3://1.2.3.4a/out", ""),
  };
}

class TrainingJobRule : public ::testing::TestWithParam<Case> {};

TEST_P(TrainingJobRule, AnswersAsListed) {
  Json job = testing::small_training_job();
  job.merge_patch(GetParam().patch);
  const Result<void> result = validate("sagemaker", "CreateTrainingJob", job);
  const std::string message = result ? "" : result.error().message;
  if (GetParam().says.empty()) {
    EXPECT_EQ(message, "");
  } else {
    EXPECT_THAT(message, HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, TrainingJobRule, ::testing::ValuesIn(cases()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });
INSTANTIATE_TEST_SUITE_P(Case37, TrainingJobRule, ::testing::ValuesIn(text_cases()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });
INSTANTIATE_TEST_SUITE_P(Case177, TrainingJobRule, ::testing::ValuesIn(metric_cases()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });
INSTANTIATE_TEST_SUITE_P(Buckets, TrainingJobRule, ::testing::ValuesIn(bucket_cases()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });
INSTANTIATE_TEST_SUITE_P(Launchers, TrainingJobRule, ::testing::ValuesIn(launcher_cases()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

// Whatever stands where an object, a list or a text belongs: an answer, never a crash.
TEST(TrainingJobRules, SayNothingOfWhatIsMissingInAValueOfAnotherType) {
  for (const char* member : {"AlgorithmSpecification", "ResourceConfig"}) {
    Json job = testing::small_training_job();
    job[member] = "text";
    const Result<void> result = validate("sagemaker", "CreateTrainingJob", job);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message.find("validation error"), std::string::npos)
        << result.error().message;
  }
}

TEST(TrainingJobRules, SurviveMembersOfAnyType) {
  const Json job = testing::small_training_job();
  for (const Json& odd :
       {Json(1), Json("x"), Json::array({1, nullptr}), Json::object(), Json(true)}) {
    for (const auto& [member, value] : job.items()) {
      Json changed = job;
      changed[member] = odd;
      const Result<void> result = validate("sagemaker", "CreateTrainingJob", changed);
      EXPECT_TRUE(result.has_value() || !result.error().message.empty()) << changed;
    }
  }
}

TEST(UpdateRules, TakeOnlyWhatCanChange) {
  const auto says = [](Json changes) {
    changes["TrainingJobName"] = "demo";
    const auto result = validate("sagemaker", "UpdateTrainingJob", changes);
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(says(Json::object()), HasSubstr("At least one of ProfilerConfig"));
  EXPECT_EQ(says({{"ResourceConfig", {{"KeepAlivePeriodInSeconds", 3600}}}}), "");
  EXPECT_THAT(says({{"ResourceConfig", {{"KeepAlivePeriodInSeconds", 3601}}}}),
              HasSubstr("Member must have value less than or equal to 3600"));
  EXPECT_EQ(says({{"RemoteDebugConfig", {{"EnableRemoteDebug", false}}}}), "");
  EXPECT_THAT(says({{"RemoteDebugConfig", {{"EnableRemoteDebug", true}}}}),
              HasSubstr("EnableRemoteDebug at 'remoteDebugConfig.enableRemoteDebug' is not "
                        "supported by this server yet"));
}

TEST(SearchRules, NameTheResourceThatIsServed) {
  EXPECT_TRUE(validate("sagemaker", "Search", {{"Resource", "TrainingJob"}}).has_value());
  EXPECT_THAT(validate("sagemaker", "Search", {{"Resource", "Endpoint"}}).error().message,
              HasSubstr("Endpoint at 'resource' cannot be searched on this server: it serves "
                        "TrainingJob"));
}

TEST(LogRules, WantOneWayToNameTheGroup) {
  const auto says = [](const char* operation, const Json& input) {
    const auto result = validate("logs", operation, input);
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(says("DescribeLogStreams", Json::object()), HasSubstr("Exactly one of logGroupName"));
  EXPECT_EQ(says("DescribeLogStreams", {{"logGroupName", "/aws/sagemaker/TrainingJobs"}}), "");
  EXPECT_THAT(
      says("DescribeLogStreams",
           {{"logGroupName", "g"}, {"orderBy", "LastEventTime"}, {"logStreamNamePrefix", "x"}}),
      HasSubstr("Cannot order by LastEventTime with a logStreamNamePrefix."));
  EXPECT_THAT(
      says("FilterLogEvents",
           {{"logGroupName", "g"}, {"logStreamNames", {"a"}}, {"logStreamNamePrefix", "x"}}),
      HasSubstr("exclude each other"));
}

TEST(TagRules, HoldForAddTagsToo) {
  const Json input = {{"ResourceArn", "arn:aws:sagemaker:us-east-1:123456789012:training-job/a"},
                      {"Tags", {{{"Key", "a"}, {"Value", "1"}}, {{"Key", "a"}, {"Value", "2"}}}}};
  const auto result = validate("sagemaker", "AddTags", input);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("Tag keys must be unique"));
}

}  // namespace
}  // namespace trainyard::api
