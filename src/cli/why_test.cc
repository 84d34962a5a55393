// SPDX-License-Identifier: Apache-2.0
#include "cli/why.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Lines = std::vector<std::string>;

constexpr double kStart = 1'796'069'500.0;
const WallTime kNow = from_epoch_seconds(kStart + 300);

Json step(const std::string& status, double start, const std::string& message) {
  return {{"Status", status}, {"StartTime", kStart + start}, {"StatusMessage", message}};
}

// A job that has gone through `steps`, and ended after 200 s when its status says so.
Json job(const std::string& status, const std::string& secondary, Json steps,
         const Json& more = {}) {
  Json description = {{"TrainingJobName", "demo"},
                      {"TrainingJobStatus", status},
                      {"SecondaryStatus", secondary},
                      {"CreationTime", kStart},
                      {"SecondaryStatusTransitions", std::move(steps)}};
  if (status != "InProgress") {
    description["TrainingStartTime"] = kStart + 8;
    description["TrainingEndTime"] = kStart + 200;
  }
  if (!more.is_null()) {
    description.update(more);
  }
  return description;
}

Json failed(const std::string& reason, const std::string& in = "Training") {
  return job("Failed", "Failed",
             {step("Starting", 0, "m"), step(in, 10, "m"), step("Failed", 200, "m")},
             {{"FailureReason", reason}});
}

std::string told(const Json& description, const Lines& output = {}) {
  return show_explanation(explain(description, output, kNow), false);
}

TEST(Why, NamesTheFirstFailingRankItsLastWordsAndWhatToDo) {
  const Lines output = {"[rank 1] step 3 loss nan",
                        "[rank 1] Traceback (most recent call last):",
                        "[rank 1]   File \"/opt/ml/code/train.py\", line 6, in <module>",
                        "[rank 1]     raise ValueError(\"the loss is not finite\")",
                        "[rank 1] ValueError: the loss is not finite",
                        "[rank 0] Terminated"};
  EXPECT_EQ(
      told(failed("AlgorithmError: rank 1 on algo-2 exited with code 1 (algo-1 stopped because of "
                  "it); last lines: Traceback\nValueError: x, exit code: 1"),
           output),
      "demo failed after 3 min 12 s in Training: AlgorithmError: rank 1 on algo-2 exited with code "
      "1 (algo-1 stopped because of it)\n"
      "algo-2 | [rank 1]   File \"/opt/ml/code/train.py\", line 6, in <module>\n"
      "algo-2 | [rank 1] ValueError: the loss is not finite\n"
      "Next: repair the program and submit it under a new name; all that it printed: trainyard "
      "logs demo\n");
}

TEST(Why, ShowsTheLastTwoLinesOfWhatIsNoTraceback) {
  const Explanation why = explain(failed("AlgorithmError: algo-1 exited with code 3"),
                                  {"one", "two", "", "three", "  "}, kNow);
  EXPECT_EQ(why.host, "algo-1");
  EXPECT_THAT(why.last_lines, ElementsAre("two", "three"));
}

TEST(Why, TakesAnMpiRanksLinesFromTheReasonWhenItsHostPrintedNone) {
  const Explanation why =
      explain(failed("AlgorithmError: rank 1 on algo-2 exited with code 7; last lines: [rank 1] "
                     "six\n[rank 1] seven, exit code: 7"),
              {"This job runs under mpirun: what the ranks of this host print is in the log stream "
               "of algo-1."},
              kNow);
  EXPECT_EQ(why.host, "algo-2");
  EXPECT_THAT(why.last_lines, ElementsAre("[rank 1] six", "[rank 1] seven"));
}

TEST(Why, SkipsDashesAndWhatMpirunAlwaysSays) {
  const Explanation why = explain(
      failed("AlgorithmError: algo-1 exited with code 7"),
      {"five", "six", "seven", "--------------------",
       "Primary job  terminated normally, but 1 process returned",
       "a non-zero exit code. Per user-direction, the job has been aborted.", "-----",
       "mpirun detected that one or more processes exited with non-zero status, thus causing",
       "  Process name: [[1234,1],1]", "  Exit code:    7", "---",
       "/opt/ml/output/failure says nothing: it is empty"},
      kNow);
  EXPECT_THAT(why.last_lines, ElementsAre("six", "seven"));
}

TEST(Why, TellsOfALossThatAStoppedJobWasNotRestartedAfter) {
  const Json attempts = {{{"Epoch", 1},
                          {"StartTime", kStart},
                          {"EndTime", kStart + 60},
                          {"Cause", "instance algo-2 was lost"},
                          {"Host", "algo-2"}}};
  EXPECT_THAT(
      told(job("Stopped", "Stopped", {step("Stopped", 200, "Training job stopped")},
               {{"Attempts", attempts}})),
      HasSubstr("\nLost on the way: instance algo-2 was lost (algo-2, after 1 min 00 s)\n"));
  EXPECT_THAT(told(job("Completed", "Completed",
                       {step("Stopping", 100, "instance algo-3 was lost"),
                        step("Completed", 200, "Training job completed")})),
              HasSubstr("\nLost on the way: instance algo-3 was lost\n"));
}

TEST(Why, ShowsWhereTheModelIsOfAJobThatFailedForAStrayLink) {
  Json description = failed("ClientError: algo-1: /opt/ml/model holds something", "Uploading");
  description["ModelArtifacts"] = {{"S3ModelArtifacts", "s3://b/demo/output/model.tar.gz"}};
  description["HasModelArtifacts"] = true;
  EXPECT_THAT(told(description),
              HasSubstr("Next: take what there is of the model: s3://b/demo/output/model.tar.gz"));
}

TEST(Why, NeedsNoOutputToExplainAFailure) {
  EXPECT_EQ(
      told(failed("ClientError: algo-1: channel train: no object has this prefix", "Downloading")),
      "demo failed after 3 min 12 s in Downloading: ClientError: algo-1: channel train: no "
      "object has this prefix\n"
      "Next: correct what the reason names in the request, the data or the code, and submit "
      "it under a new name; all that was asked: trainyard describe demo\n");
}

TEST(Why, SaysWhomAJobWaitsFor) {
  EXPECT_EQ(
      told(job("InProgress", "Starting",
               {step("Starting", 0,
                     "Waiting for capacity: 1 of 2 needed instances free; job big is ahead")})),
      "demo is in Starting for 5 min 00 s: Waiting for capacity: 1 of 2 needed instances "
      "free; job big is ahead\n"
      "Next: nothing: it starts by itself; who holds the instances: trainyard list --status "
      "InProgress\n");
}

TEST(Why, TellsOfRestarts) {
  const Json attempts = {{{"Epoch", 1},
                          {"StartTime", kStart + 1},
                          {"EndTime", kStart + 66},
                          {"Cause", "instance algo-2 was lost (its supervisor ended)"},
                          {"Host", "algo-2"}},
                         {{"Epoch", 2}, {"StartTime", kStart + 70}}};
  EXPECT_EQ(told(job("InProgress", "Training",
                     {step("Starting", 0, "m"), step("Training", 240, "Training in progress.")},
                     {{"Attempts", attempts}})),
            "demo is in Training for 1 min 00 s: Training in progress.\n"
            "Restarts: 1, the last because instance algo-2 was lost (its supervisor ended) "
            "(algo-2, after 1 min 05 s)\n"
            "Next: nothing; watch it: trainyard logs -f demo\n");
}

TEST(Why, NamesTheLimitThatStoppedAJob) {
  EXPECT_EQ(told(job("Stopped", "MaxRuntimeExceeded",
                     {step("Training", 10, "m"), step("Stopping", 190, "m"),
                      step("MaxRuntimeExceeded", 200,
                           "Training job stopped: MaxRuntimeInSeconds exceeded")},
                     {{"StoppingCondition", {{"MaxRuntimeInSeconds", 180}}}})),
            "demo stopped after 3 min 12 s in Training: Training job stopped: "
            "MaxRuntimeInSeconds exceeded\n"
            "Next: raise StoppingCondition.MaxRuntimeInSeconds (it was 180)\n");
}

TEST(Why, NamesTheLimitOfWaiting) {
  EXPECT_EQ(told(job("Stopped", "MaxWaitTimeExceeded",
                     {step("Training", 10, "m"), step("Stopping", 190, "m"),
                      step("MaxWaitTimeExceeded", 200,
                           "Training job stopped: MaxWaitTimeInSeconds exceeded")},
                     {{"StoppingCondition", {{"MaxWaitTimeInSeconds", 180}}}})),
            "demo stopped after 3 min 12 s in Training: Training job stopped: "
            "MaxWaitTimeInSeconds exceeded\n"
            "Next: raise StoppingCondition.MaxWaitTimeInSeconds (it was 180)\n");
  EXPECT_THAT(told(job("Stopped", "Stopped",
                       {step("Starting", 10, "m"), step("Stopping", 190, "m"),
                        step("Stopped", 200,
                             "Training job stopped: MaxPendingTimeInSeconds exceeded before its "
                             "instances started")},
                       {{"StoppingCondition", {{"MaxPendingTimeInSeconds", 7200}}}})),
              ::testing::HasSubstr(
                  "Next: raise StoppingCondition.MaxPendingTimeInSeconds (it was 7200)\n"));
}

TEST(Why, SaysWhatToDoWithAJobThatNeverFits) {
  EXPECT_THAT(told(job("InProgress", "Starting",
                       {step("Starting", 0,
                             "Waiting for capacity that there is not: 8 instances "
                             "are needed, and this server has 4 in all.")})),
              ::testing::HasSubstr("Next: trainyard stop demo; or raise `capacity`"));
}

TEST(Why, HasAWordForACompletedJob) {
  const Json more = {{"ModelArtifacts", {{"S3ModelArtifacts", "s3://b/demo/output/model.tar.gz"}}},
                     {"HasModelArtifacts", false}};
  EXPECT_EQ(told(job("Completed", "Completed", {step("Completed", 200, "m")}, more)),
            "demo completed after 3 min 12 s\n"
            "Next: nothing; model: none: /opt/ml/model was empty\n");
}

struct Advised {
  const char* reason;
  const char* next;
};

class Advice : public ::testing::TestWithParam<Advised> {};

TEST_P(Advice, FollowsTheClassOfTheReason) {
  EXPECT_THAT(explain(failed(GetParam().reason), {}, kNow).next, HasSubstr(GetParam().next));
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, Advice,
    ::testing::Values(Advised{"CapacityError: no host has room", "fewer or smaller instances"},
                      Advised{"InternalServerError: instance algo-1 was lost", "RetryStrategy"},
                      Advised{"AlgorithmError: algo-1 was killed because it ran out of memory",
                              "smaller batches"},
                      Advised{"AlgorithmError: algo-1 was killed by signal 9 (SIGKILL), exit code: "
                              "137",
                              "ran out of memory"},
                      Advised{"AlgorithmError: algo-1 exited with code 137 (as after signal 9, "
                              "SIGKILL)",
                              "ran out of memory"},
                      Advised{"something else", "trainyard logs demo"}));

TEST(Why, StaysWithinFiveLinesWhateverTheTextsHold) {
  Json description = failed("AlgorithmError: rank 0 on algo-1 exited with code 1: a\nb\nc" +
                            std::string(3000, 'x'));
  description["Attempts"] = {{{"Cause", "x\ny"}}, {{"Cause", "z\n"}}, Json::object()};
  const std::string text = told(description, {"a\rb\nc", "d\x1b[2J\ne"});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 2000u);
}

TEST(Why, SurvivesAnAnswerOfAnyForm) {
  for (const char* text : {"{}", "[]", "null", R"({"Attempts":3,"FailureReason":[1]})",
                           R"({"Attempts":[1,2],"SecondaryStatusTransitions":[null,{}]})"}) {
    EXPECT_THAT(explain(Json::parse(text), {"x"}, kNow).last_lines, IsEmpty()) << text;
  }
}

TEST(Why, GivesScriptsItsParts) {
  const Json json = to_json(explain(failed("AlgorithmError: rank 1 on algo-2 exited with code 3"),
                                    {"[rank 1] RuntimeError: x"}, kNow));
  EXPECT_EQ(json["TrainingJobStatus"], "Failed");
  EXPECT_EQ(json["Restarts"], 0);
  EXPECT_EQ(json["LastLines"],
            Json::parse(R"([{"host": "algo-2", "message": "[rank 1] RuntimeError: x"}])"));
}

TEST(CulpritOf, IsNamedByTheReason) {
  const auto named = [](const std::string& reason) {
    const Culprit culprit = culprit_of({{"FailureReason", reason}});
    return culprit.host + "/" + culprit.rank;
  };
  EXPECT_EQ(named("AlgorithmError: rank 12 on algo-3 exited with code 1"), "algo-3/12");
  EXPECT_EQ(named("AlgorithmError: algo-1 was killed by signal 11 (SIGSEGV)"), "algo-1/");
  EXPECT_EQ(named("AlgorithmError: something"), "/");
  EXPECT_EQ(named("ClientError: algo-1: no"), "/");
  EXPECT_EQ(named(""), "/");
}

TEST(Why, NamesRequirementsWhereAModuleIsMissing) {
  const Json description = failed("AlgorithmError: algo-1 exited with code 1, exit code: 1");
  EXPECT_THAT(told(description, {"Traceback (most recent call last):",
                                 "  File \"/opt/ml/code/train.py\", line 1, in <module>",
                                 "ModuleNotFoundError: No module named 'einops'"}),
              HasSubstr("Next: name the package in requirements.txt beside the program"));
  EXPECT_THAT(told(failed("AlgorithmError: algo-1 exited with code 1; last lines: "
                          "ModuleNotFoundError: No module named 'einops', exit code: 1")),
              HasSubstr("requirements.txt"));
}

TEST(Why, SpeaksOfTheDiskWhenItIsFull) {
  for (const char* reason :
       {"ClientError: algo-1: PUT s3://b/model.tar.gz: write: No space left on device",
        "InternalServerError: instance algo-1 was lost (no report for more than 5 s; the server "
        "could not keep what it had reported: storing reports: database or disk is full)"}) {
    EXPECT_THAT(told(failed(reason)), HasSubstr("Next: make room on the disk")) << reason;
  }
}

}  // namespace
}  // namespace trainyard::cli
