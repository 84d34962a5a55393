// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/fake_api.h"

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const Json kJob = {{"TrainingJobName", "demo"},
                   {"TrainingJobStatus", "Completed"},
                   {"SecondaryStatus", "Completed"},
                   {"CreationTime", 1796069500.0},
                   {"TrainingStartTime", 1796069505.5},
                   {"TrainingEndTime", 1796069568.5},
                   {"ResourceConfig", {{"InstanceType", "ml.m5.large"}, {"InstanceCount", 2}}},
                   {"HyperParameters", {{"lr", "0.10"}, {"text", "a\x1b[2Jb"}}},
                   {"ModelArtifacts", {{"S3ModelArtifacts", "s3://b/demo/output/model.tar.gz"}}}};

Result<http::Response> one_job(const std::string& operation, const Json& input) {
  if (operation == "DescribeTrainingJob" && input["TrainingJobName"] != "demo") {
    return refuse("ValidationException", "Requested resource not found.");
  }
  if (operation == "DescribeTrainingJob") {
    return answer(kJob);
  }
  if (operation == "DescribeLogStreams") {
    return refuse("ResourceNotFoundException", "The specified log group does not exist.");
  }
  return answer(Json::object());
}

Result<int> run(Stage& stage, const Options& options, const std::string& input = {}) {
  std::istringstream in(input);
  return run_verb(options, {.api = stage.api,
                            .terminal = stage.terminal,
                            .clock = stage.clock,
                            .in = in,
                            .pause = [](std::chrono::milliseconds) { return false; }});
}

TEST(Submit, SendsTheFileWithItsChanges) {
  Stage stage(one_job);
  const auto code = run(
      stage, {.verb = Verb::kSubmit, .file = "-", .name = "demo", .hyperparameters = {"epochs=3"}},
      "TrainingJobName: other\nHyperParameters: {lr: 0.10}\n");
  ASSERT_TRUE(code.has_value()) << code.error().message;
  EXPECT_EQ(
      stage.fake.last("CreateTrainingJob"),
      Json({{"TrainingJobName", "demo"}, {"HyperParameters", {{"lr", "0.10"}, {"epochs", "3"}}}}));
  EXPECT_EQ(stage.out.str(), "Submitted demo. Watch it with: trainyard logs -f demo\n");
}

TEST(Submit, MakesANameWhenThereIsNone) {
  Stage stage(one_job);
  ASSERT_TRUE(run(stage, {.verb = Verb::kSubmit, .file = "-"},
                  "AlgorithmSpecification: {TrainingImage: x.y/my_img:latest}")
                  .has_value());
  EXPECT_THAT(stage.fake.last("CreateTrainingJob")["TrainingJobName"].get<std::string>(),
              HasSubstr("my-img-20"));
}

TEST(Submit, ShowsWhatTheServerSays) {
  Stage stage([](const auto&, const Json&) -> Result<http::Response> {
    return refuse("com.amazon#ResourceInUse", "Training job demo exists");
  });
  const auto code = run(stage, {.verb = Verb::kSubmit, .file = "-", .name = "demo"}, "{}");
  ASSERT_FALSE(code.has_value());
  EXPECT_EQ(code.error().message, "CreateTrainingJob: ResourceInUse: Training job demo exists");
  EXPECT_EQ(code.error().subject, "ResourceInUse");
}

TEST(Submit, NamesAFileThatIsNotThere) {
  Stage stage(one_job);
  const auto code = run(stage, {.verb = Verb::kSubmit, .file = "/nowhere/job.yaml"});
  ASSERT_FALSE(code.has_value());
  EXPECT_THAT(code.error().message, HasSubstr("/nowhere/job.yaml"));
}

TEST(Submit, WaitsAndGivesTheJobsEndAsExitCode) {
  Stage stage(one_job);
  const auto code =
      run(stage, {.verb = Verb::kSubmit, .file = "-", .name = "demo", .wait = true}, "{}");
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(stage.err.str(), HasSubstr("demo completed after 1 min 03 s. Model: s3://b/demo/"));
}

TEST(List, ReadsPagesUpToTheLimit) {
  Stage stage([](const auto&, const Json& input) -> Result<http::Response> {
    const bool first = !input.contains("NextToken");
    Json page = {{"TrainingJobSummaries",
                  {{{"TrainingJobName", first ? "new" : "old"},
                    {"TrainingJobStatus", "InProgress"},
                    {"SecondaryStatus", "Training"},
                    {"CreationTime", 1796069463.0}}}}};
    if (first) {
      page["NextToken"] = "t";
    }
    return answer(page);
  });
  stage.clock.advance(std::chrono::seconds(1));
  ASSERT_TRUE(run(stage, {.verb = Verb::kList, .status = "InProgress"}).has_value());
  EXPECT_EQ(stage.out.str(),
            "NAME  STATUS                CREATED               TIME\n"
            "new   InProgress, Training  2026-11-30 20:11:03Z  1 min 03 s\n"
            "old   InProgress, Training  2026-11-30 20:11:03Z  1 min 03 s\n");
  EXPECT_EQ(stage.fake.last("ListTrainingJobs")["MaxResults"], 19);
  EXPECT_EQ(stage.fake.last("ListTrainingJobs")["StatusEquals"], "InProgress");
}

TEST(Describe, ShowsTheJobAndObeysNoEscapes) {
  Stage stage(one_job);
  EXPECT_EQ(*run(stage, {.verb = Verb::kDescribe, .job = "demo"}), 0);
  EXPECT_THAT(stage.out.str(), HasSubstr("Instances  2 x ml.m5.large\n"));
  EXPECT_THAT(stage.out.str(), HasSubstr("Time       1 min 03 s\n"));
  EXPECT_THAT(stage.out.str(), HasSubstr("text  a?[2Jb\n"));
}

TEST(Describe, PrintsJsonForScripts) {
  Stage stage(one_job);
  EXPECT_EQ(*run(stage, {.verb = Verb::kDescribe, .json = true, .job = "demo"}), 0);
  EXPECT_EQ(Json::parse(stage.out.str()), kJob);
}

TEST(EveryVerbOnAJob, SaysThatThereIsNone) {
  for (const Verb verb :
       {Verb::kDescribe, Verb::kLogs, Verb::kWhy, Verb::kStop, Verb::kSignal, Verb::kDelete}) {
    Stage stage(one_job);
    const auto code = run(stage, {.verb = verb, .job = "ghost"});
    ASSERT_FALSE(code.has_value());
    EXPECT_EQ(code.error().message, "there is no training job 'ghost'; see trainyard list");
  }
}

TEST(Logs, SaySoWhenThereIsNothingYet) {
  Stage stage(one_job);
  EXPECT_EQ(*run(stage, {.verb = Verb::kLogs, .job = "demo"}), 0);
  EXPECT_EQ(stage.err.str(), "demo has printed nothing; it is Completed\n");
}

TEST(Logs, LeaveTheJobRunningWhenInterrupted) {
  Stage stage([](const std::string& operation, const Json& input) -> Result<http::Response> {
    if (operation == "DescribeTrainingJob") {
      return answer({{"TrainingJobName", "demo"}, {"TrainingJobStatus", "InProgress"}});
    }
    return one_job(operation, input);
  });
  EXPECT_EQ(*run(stage, {.verb = Verb::kLogs, .job = "demo", .follow = true}), 130);
  EXPECT_THAT(stage.err.str(), HasSubstr("the job goes on"));
}

TEST(Why, ReadsTheLastLinesOfTheCulpritsNewestStream) {
  Stage stage([](const std::string& operation, const Json& input) -> Result<http::Response> {
    if (operation == "DescribeTrainingJob") {
      return answer({{"TrainingJobName", "demo"},
                     {"TrainingJobStatus", "Failed"},
                     {"FailureReason", "AlgorithmError: algo-2 exited with code 3"}});
    }
    if (operation == "DescribeLogStreams") {
      EXPECT_EQ(input["logStreamNamePrefix"], "demo/algo-2-");
      return answer({{"logStreams",
                      {{{"logStreamName", "demo/algo-2-1796069525"}},
                       {{"logStreamName", "demo/algo-2-1796069999"}}}}});
    }
    EXPECT_EQ(input["logStreamName"], "demo/algo-2-1796069999");
    EXPECT_FALSE(input.contains("startFromHead")) << "the end of the log is wanted";
    return answer({{"events", {{{"message", "RuntimeError: no"}}}}});
  });
  EXPECT_EQ(*run(stage, {.verb = Verb::kWhy, .job = "demo"}), 0);
  EXPECT_THAT(stage.out.str(), HasSubstr("algo-2 | RuntimeError: no\n"));
}

TEST(Why, ReadsARanksLinesInTheLogOfTheHostThatLeadsAllRanks) {
  Stage stage([](const std::string& operation, const Json& input) -> Result<http::Response> {
    if (operation == "DescribeTrainingJob") {
      return answer({{"TrainingJobName", "demo"},
                     {"TrainingJobStatus", "Failed"},
                     {"FailureReason", "AlgorithmError: rank 1 on algo-2 exited with code 7"}});
    }
    if (operation == "DescribeLogStreams") {
      const std::string prefix = input.value("logStreamNamePrefix", "");
      return answer({{"logStreams", {{{"logStreamName", prefix + "1796069525"}}}}});
    }
    const bool leads = input["logStreamName"] == "demo/algo-1-1796069525";
    return answer({{"events", {{{"message", leads ? "[rank 1] seven" : "This job runs under"}}}}});
  });
  EXPECT_EQ(*run(stage, {.verb = Verb::kWhy, .job = "demo"}), 0);
  EXPECT_THAT(stage.out.str(), HasSubstr("algo-2 | [rank 1] seven\n"));
}

TEST(Why, AsksForNoLogOfAJobThatHasNotFailed) {
  Stage stage(one_job);
  EXPECT_EQ(*run(stage, {.verb = Verb::kWhy, .json = true, .job = "demo"}), 0);
  EXPECT_EQ(Json::parse(stage.out.str())["TrainingJobStatus"], "Completed");
  EXPECT_EQ(stage.fake.calls.size(), 1u);
}

// A server with one job that has not ended.
FakeApi::Answer job_in(const std::string& secondary) {
  return [secondary](const std::string& operation, const Json& input) -> Result<http::Response> {
    if (operation == "DescribeTrainingJob") {
      Json job = kJob;
      job["TrainingJobStatus"] = "InProgress";
      job["SecondaryStatus"] = secondary;
      return answer(job);
    }
    return one_job(operation, input);
  };
}

TEST(Logs, SayThatARunningJobHasPrintedNothingYet) {
  Stage stage(job_in("Downloading"));
  EXPECT_EQ(*run(stage, {.verb = Verb::kLogs, .job = "demo"}), 0);
  EXPECT_EQ(stage.err.str(), "demo has printed nothing yet; it is InProgress, Downloading\n");
}

TEST(Stop, PromisesTimeToSaveOnlyWhereAProgramRuns) {
  Stage training(job_in("Training"));
  EXPECT_EQ(*run(training, {.verb = Verb::kStop, .job = "demo"}), 0);
  EXPECT_EQ(training.fake.last("StopTrainingJob")["TrainingJobName"], "demo");
  EXPECT_EQ(training.out.str(), "Stopping demo; its processes are given time to save their work\n");
  Stage queued(job_in("Pending"));
  EXPECT_EQ(*run(queued, {.verb = Verb::kStop, .job = "demo"}), 0);
  EXPECT_EQ(queued.out.str(), "Stopping demo; its program is not running\n");
}

FakeApi::Answer signalled_on(const std::vector<std::string>& hosts) {
  return [hosts](const std::string& operation, const Json& input) -> Result<http::Response> {
    return operation == "SignalTrainingJob" ? answer({{"Hosts", hosts}})
                                            : job_in("Training")(operation, input);
  };
}

TEST(Signal, NamesTheHostsThatAreTold) {
  Stage stage(signalled_on({"algo-1", "algo-2"}));
  EXPECT_EQ(*run(stage, {.verb = Verb::kSignal, .job = "demo", .signal = "USR2"}), 0);
  EXPECT_EQ(stage.fake.last("SignalTrainingJob"),
            Json({{"TrainingJobName", "demo"}, {"Signal", "USR2"}}));
  EXPECT_EQ(stage.out.str(), "USR2 is on its way to the processes of demo on algo-1, algo-2\n");
  Stage scripted(signalled_on({"algo-1"}));
  EXPECT_EQ(*run(scripted, {.verb = Verb::kSignal, .json = true, .job = "demo", .signal = "USR1"}),
            0);
  EXPECT_EQ(Json::parse(scripted.out.str()), Json({{"Hosts", {"algo-1"}}}));
}

TEST(Signal, ShowsWhyTheServerRefusesIt) {
  Stage stage([](const std::string& operation, const Json& input) -> Result<http::Response> {
    return operation == "SignalTrainingJob"
               ? refuse("ConflictException", "its program is not running")
               : one_job(operation, input);
  });
  const auto code = run(stage, {.verb = Verb::kSignal, .job = "demo", .signal = "USR1"});
  ASSERT_FALSE(code.has_value());
  EXPECT_EQ(code.error().message,
            "SignalTrainingJob: ConflictException: its program is not running");
}

TEST(Delete, ForgetsAJobThatHasEnded) {
  Stage stage(one_job);
  EXPECT_EQ(*run(stage, {.verb = Verb::kDelete, .job = "demo"}), 0);
  EXPECT_EQ(stage.fake.last("DeleteTrainingJob"), Json({{"TrainingJobName", "demo"}}));
  EXPECT_EQ(stage.out.str(), "Deleted demo; what it saved stays where it is\n");
  Stage scripted(one_job);
  EXPECT_EQ(*run(scripted, {.verb = Verb::kDelete, .json = true, .job = "demo"}), 0);
  EXPECT_EQ(Json::parse(scripted.out.str()), Json({{"TrainingJobName", "demo"}}));
}

TEST(Delete, RefusesAJobThatRunsAndSaysWhatToDo) {
  Stage stage(job_in("Training"));
  const auto code = run(stage, {.verb = Verb::kDelete, .job = "demo"});
  ASSERT_FALSE(code.has_value());
  EXPECT_EQ(code.error().message,
            "demo has not ended: it is InProgress, Training. Stop it first: trainyard stop --wait "
            "demo");
  EXPECT_TRUE(stage.fake.last("DeleteTrainingJob").is_null());
}

}  // namespace
}  // namespace trainyard::cli
