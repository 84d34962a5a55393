// SPDX-License-Identifier: Apache-2.0
#include "control/operations/training_jobs.h"

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/validate.h"
#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

json channel(const std::string& uri) {
  return {{"ChannelName", "train"},
          {"DataSource", {{"S3DataSource", {{"S3DataType", "S3Prefix"}, {"S3Uri", uri}}}}}};
}

std::string arn_of(const std::string& name) {
  return "arn:aws:sagemaker:us-east-1:123456789012:training-job/" + name;
}

// No room: jobs stay where a test can look at them.
class TrainingJobsTest : public ::testing::Test {
 protected:
  TrainingJobsTest() {
    EXPECT_TRUE(harness_.create("runs"));
    EXPECT_TRUE(eventually([&] { return harness_.engine().running("runs") == 1; }));
  }

  std::vector<std::string> names(const json& answer) {
    std::vector<std::string> names;
    for (const json& job : answer["TrainingJobSummaries"]) {
      names.push_back(job["TrainingJobName"].get<std::string>());
    }
    return names;
  }
  std::vector<std::string> list(const json& input) {
    const auto answer = harness_.call("ListTrainingJobs", input);
    EXPECT_TRUE(answer) << answer.error().message;
    return names(*answer);
  }

  Harness harness_{1};
};

// --- Create ---

TEST_F(TrainingJobsTest, AnswersACreateWithTheArn) {
  EXPECT_EQ((*harness_.create("demo"))["TrainingJobArn"], arn_of("demo"));
}

TEST_F(TrainingJobsTest, RefusesATakenNameNamingTheJob) {
  const auto again = harness_.create("runs");
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_THAT(again.error().message, HasSubstr(arn_of("runs")));
}

TEST_F(TrainingJobsTest, LetsExactlyOneOfTwoConcurrentCreatesWin) {
  for (int round = 0; round < 50; ++round) {
    const std::string name = "race-" + std::to_string(round);
    std::latch both(2);
    std::atomic<int> won = 0;
    const auto create = [&] {
      both.arrive_and_wait();
      const auto answer = harness_.create(name);
      won += answer ? 1 : 0;
      EXPECT_TRUE(answer || answer.error().code == Code::kAlreadyExists);
    };
    std::jthread other(create);
    create();
    other.join();
    EXPECT_EQ(won, 1) << name;
  }
}

TEST_F(TrainingJobsTest, ListsEveryViolationAndCreatesNothing) {
  json request = job_request(0);
  request.erase("RoleArn");
  const auto answer = harness_.create("bad", 0, request);
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(answer.error().message, AllOf(HasSubstr("roleArn"), HasSubstr("instanceCount")));
  EXPECT_EQ(harness_.call("DescribeTrainingJob", {{"TrainingJobName", "bad"}}).error().code,
            Code::kNotFound);
}

TEST_F(TrainingJobsTest, RefusesMoreInstancesThanTheMachineHas) {
  const auto answer = harness_.create("big", 3);
  EXPECT_EQ(answer.error().code, Code::kExhausted);
  EXPECT_THAT(answer.error().message,
              HasSubstr("is 1 Instances, with current utilization of 1 Instances and a request "
                        "delta of 3 Instances"));
}

TEST_F(TrainingJobsTest, RefusesAPrefixWithoutObjectsNamingUriAndRole) {
  json request = job_request(1);
  request["InputDataConfig"] = json::array({channel("s3://bucket/data/")});
  EXPECT_TRUE(harness_.create("good", 1, request));
  request["InputDataConfig"] = json::array({channel("s3://bucket/nothing/")});
  const auto answer = harness_.create("demo", 1, request);
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
  EXPECT_THAT(answer.error().message, AllOf(HasSubstr("s3://bucket/nothing/"),
                                            HasSubstr("arn:aws:iam::123456789012:role/Demo")));
  request["InputDataConfig"] = json::array({channel("s3://no-bucket/data/")});
  EXPECT_THAT(harness_.create("demo", 1, request).error().message,
              HasSubstr("The bucket does not exist"));
}

TEST_F(TrainingJobsTest, RefusesAnOutputBucketThatDoesNotExist) {
  json request = job_request(1);
  request["OutputDataConfig"]["S3OutputPath"] = "s3://no-bucket/out";
  EXPECT_THAT(harness_.create("demo", 1, request).error().message, HasSubstr("no-bucket"));
}

TEST_F(TrainingJobsTest, RefusesAnUnknownImageListingTheKnownOnes) {
  json request = job_request(1);
  request["AlgorithmSpecification"]["TrainingImage"] = "demo/python:3";
  EXPECT_THAT(harness_.create("demo", 1, request).error().message,
              AllOf(HasSubstr("demo/python:3"), HasSubstr("trainyard/pytorch")));
}

TEST_F(TrainingJobsTest, WarnsAtCreateOfSpotWithoutCheckpoints) {
  json request = job_request(1);
  request["EnableManagedSpotTraining"] = true;
  request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 600;
  ASSERT_TRUE(harness_.create("warned", 1, request));
  EXPECT_THAT(harness_.message("warned"), HasSubstr("; warning: EnableManagedSpotTraining without "
                                                    "CheckpointConfig: after an interruption"));
  EXPECT_TRUE(eventually([&] { return harness_.message("warned").starts_with("Waiting"); }));
  EXPECT_THAT(harness_.message("warned"), HasSubstr("without CheckpointConfig"));
  request["CheckpointConfig"] = {{"S3Uri", "s3://bucket/checkpoints"}};
  ASSERT_TRUE(harness_.create("safe", 1, request));
  EXPECT_THAT(harness_.message("safe"), Not(HasSubstr("warning")));
}

// --- Describe ---

TEST_F(TrainingJobsTest, DescribesWithWhatClientsIndex) {
  const json job = harness_.describe("runs");
  const auto checked = api::check_output("sagemaker", "DescribeTrainingJob", job);
  EXPECT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(job["OutputDataConfig"]["KmsKeyId"], "");
  EXPECT_EQ(job["ModelArtifacts"]["S3ModelArtifacts"], "s3://bucket/out/runs/output/model.tar.gz");
  EXPECT_EQ(job["StoppingCondition"]["MaxRuntimeInSeconds"], 600);
  EXPECT_EQ(job["EnableNetworkIsolation"], false);
  EXPECT_EQ(job["EnableManagedSpotTraining"], false);
  EXPECT_EQ(job["TrainingJobStatus"], "InProgress");
}

TEST_F(TrainingJobsTest, EchoesHyperparametersByteForByte) {
  json request = job_request(1);
  const json parameters = {{"quotes", "a \"b\" 'c'"},
                           {"lines", "1\n2"},
                           {"shell", "$(rm -rf /)"},
                           {"long", std::string(2500, 'x')},
                           {"text", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"}};
  request["HyperParameters"] = parameters;
  ASSERT_TRUE(harness_.create("demo", 1, request));
  EXPECT_EQ(harness_.describe("demo")["HyperParameters"], parameters);
}

TEST_F(TrainingJobsTest, DescribesFast) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    harness_.describe("runs");
  }
  // A hundred within the time that the design allows for a hundred, on a loaded machine ten times.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1000));
}

TEST_F(TrainingJobsTest, KnowsNoUnknownJob) {
  for (const char* operation : {"DescribeTrainingJob", "StopTrainingJob", "DeleteTrainingJob"}) {
    EXPECT_EQ(harness_.call(operation, {{"TrainingJobName", "none"}}).error().code,
              Code::kNotFound);
  }
}

// --- List ---

class ListTrainingJobs : public TrainingJobsTest {
 protected:
  ListTrainingJobs() {
    for (const char* name : {"c", "a", "b", "d"}) {
      harness_.clock().advance(std::chrono::seconds(1));
      EXPECT_TRUE(harness_.create(name));
    }
    EXPECT_TRUE(harness_.call("StopTrainingJob", {{"TrainingJobName", "a"}}));
  }
};

TEST_F(ListTrainingJobs, SortsByCreationTimeUnlessAskedOtherwise) {
  EXPECT_THAT(list(json::object()), ElementsAre("runs", "c", "a", "b", "d"));
  EXPECT_THAT(list({{"SortOrder", "Descending"}}), ElementsAre("d", "b", "a", "c", "runs"));
  EXPECT_THAT(list({{"SortBy", "Name"}}), ElementsAre("a", "b", "c", "d", "runs"));
  EXPECT_THAT(list({{"SortBy", "Status"}, {"SortOrder", "Descending"}}),
              ElementsAre("a", "runs", "d", "c", "b"));
}

TEST_F(ListTrainingJobs, Filters) {
  EXPECT_THAT(list({{"StatusEquals", "Stopped"}}), ElementsAre("a"));
  EXPECT_THAT(list({{"NameContains", "un"}}), ElementsAre("runs"));
  EXPECT_THAT(list({{"CreationTimeAfter", 1'796'000'002.5}}), ElementsAre("b", "d"));
  EXPECT_THAT(list({{"CreationTimeBefore", 1'796'000'001}}), ElementsAre("runs"));
}

TEST_F(ListTrainingJobs, PagesWithoutLossOrRepetition) {
  for (const char* sort : {"Name", "CreationTime", "Status"}) {
    json input = {{"SortBy", sort}, {"MaxResults", 2}};
    std::vector<std::string> all;
    int pages = 0;
    while (true) {
      const auto answer = harness_.call("ListTrainingJobs", input);
      ASSERT_TRUE(answer) << answer.error().message;
      for (const std::string& name : names(*answer)) {
        all.push_back(name);
      }
      ++pages;
      if (!answer->contains("NextToken")) {
        break;
      }
      input["NextToken"] = answer->at("NextToken");
    }
    EXPECT_EQ(pages, 3) << sort;
    EXPECT_EQ(all, list({{"SortBy", sort}})) << sort;
  }
}

TEST_F(ListTrainingJobs, GivesNoTokenWhenTheLastPageIsFull) {
  EXPECT_FALSE((*harness_.call("ListTrainingJobs", {{"MaxResults", 5}})).contains("NextToken"));
}

TEST_F(ListTrainingJobs, RefusesTokensOfOtherQueries) {
  const json page = *harness_.call("ListTrainingJobs", {{"MaxResults", 1}});
  for (const json& input : {json{{"NextToken", page["NextToken"]}, {"SortBy", "Name"}},
                            json{{"NextToken", "garbage"}}}) {
    EXPECT_EQ(harness_.call("ListTrainingJobs", input).error().code, Code::kInvalidArgument);
  }
}

// --- Delete and tags ---

TEST_F(TrainingJobsTest, DeletesOnlyWhatHasEndedAndFreesTheName) {
  EXPECT_EQ(harness_.call("DeleteTrainingJob", {{"TrainingJobName", "runs"}}).error().code,
            Code::kConflict);
  ASSERT_TRUE(harness_.create("demo"));
  ASSERT_TRUE(harness_.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  ASSERT_TRUE(harness_.call("DeleteTrainingJob", {{"TrainingJobName", "demo"}}));
  EXPECT_EQ(harness_.call("DescribeTrainingJob", {{"TrainingJobName", "demo"}}).error().code,
            Code::kNotFound);
  EXPECT_TRUE(harness_.create("demo"));
}

TEST_F(TrainingJobsTest, TagsReplacesListsAndDeletes) {
  json request = job_request(1);
  request["Tags"] = json::array({{{"Key", "team"}, {"Value", "a"}}});
  ASSERT_TRUE(harness_.create("demo", 1, request));
  const json arn = {{"ResourceArn", arn_of("demo")}};
  json add = arn;
  add["Tags"] = json::array({{{"Key", "team"}, {"Value", "b"}}, {{"Key", "cost"}, {"Value", ""}}});
  ASSERT_TRUE(harness_.call("AddTags", add));
  EXPECT_EQ((*harness_.call("ListTags", arn))["Tags"],
            json::array({{{"Key", "cost"}, {"Value", ""}}, {{"Key", "team"}, {"Value", "b"}}}));
  json remove = arn;
  remove["TagKeys"] = json::array({"team"});
  ASSERT_TRUE(harness_.call("DeleteTags", remove));
  EXPECT_EQ((*harness_.call("ListTags", arn))["Tags"].size(), 1u);
}

TEST_F(TrainingJobsTest, KeepsAtMostFiftyTags) {
  json add = {{"ResourceArn", arn_of("runs")}, {"Tags", json::array()}};
  for (int i = 0; i < 50; ++i) {
    add["Tags"].push_back({{"Key", "k" + std::to_string(i)}, {"Value", "v"}});
  }
  ASSERT_TRUE(harness_.call("AddTags", add));
  add["Tags"] = json::array({{{"Key", "one-more"}, {"Value", "v"}}});
  EXPECT_EQ(harness_.call("AddTags", add).error().code, Code::kExhausted);
  EXPECT_EQ((*harness_.call("ListTags", {{"ResourceArn", arn_of("runs")}}))["Tags"].size(), 50u);
}

TEST_F(TrainingJobsTest, TagsNoUnknownJob) {
  EXPECT_EQ(harness_.call("ListTags", {{"ResourceArn", arn_of("none")}}).error().code,
            Code::kNotFound);
}

// --- Others ---

TEST_F(TrainingJobsTest, SaysWhoCalls) {
  const auto who = harness_.control().call(
      "sts", "GetCallerIdentity", json::object(),
      {.access_key_id = "AKIA", .arn = "arn:aws:iam::123456789012:user/admin", .user_id = "AIDA"});
  EXPECT_EQ(*who, (json{{"Account", "123456789012"},
                        {"Arn", "arn:aws:iam::123456789012:user/admin"},
                        {"UserId", "AIDA"}}));
}

TEST_F(TrainingJobsTest, RefusesOperationsThatAreNotServed) {
  const auto answer = harness_.call("CreateEndpoint", json::object());
  EXPECT_EQ(answer.error().code, Code::kUnimplemented);
  EXPECT_EQ(answer.error().subject, "operation");
}

TEST_F(TrainingJobsTest, KeepsASecondServerOffItsHome) {
  const auto second = harness_.try_open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict);
}

}  // namespace
}  // namespace trainyard::control
