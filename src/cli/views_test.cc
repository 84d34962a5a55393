// SPDX-License-Identifier: Apache-2.0
#include "cli/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

const WallTime kMuchLater = from_epoch_seconds(1'796'100'000);

TEST(ShowJobs, StopsTheClockOfAJobThatEndedBeforeItsInstancesStarted) {
  const Json jobs = Json::array({{{"TrainingJobName", "early"},
                                  {"TrainingJobStatus", "Stopped"},
                                  {"CreationTime", 1796069500.0},
                                  {"LastModifiedTime", 1796069502.0}}});
  EXPECT_THAT(show_jobs(jobs, kMuchLater, false), HasSubstr(" 2 s"));
}

TEST(ShowEnd, KeepsTheLinesOfAReasonApart) {
  const Json job = {{"TrainingJobName", "demo"},
                    {"TrainingJobStatus", "Failed"},
                    {"FailureReason", "AlgorithmError: line 1\nline 2"}};
  EXPECT_THAT(show_end(job, false), HasSubstr("AlgorithmError: line 1 / line 2\n"));
  EXPECT_THAT(show_job(job, kMuchLater, false), Not(HasSubstr("?")));
}

TEST(ShowJob, ListsTheAttemptsWhenThereIsMoreThanOne) {
  Json job = {{"TrainingJobName", "demo"},
              {"TrainingJobStatus", "Completed"},
              {"TrainingEndTime", 1'796'069'600.0},
              {"Attempts",
               {{{"Epoch", 1},
                 {"StartTime", 1'796'069'500.0},
                 {"EndTime", 1'796'069'566.0},
                 {"Cause", "instance algo-2 was lost (its supervisor ended)"}},
                {{"Epoch", 2}, {"StartTime", 1'796'069'570.0}}}}};
  const std::string text = show_job(job, kMuchLater, false);
  EXPECT_THAT(text, HasSubstr("Ended because"));
  EXPECT_THAT(text, HasSubstr("1 min 06 s"));
  EXPECT_THAT(text, HasSubstr("instance algo-2 was lost (its supervisor ended)"));
  EXPECT_THAT(text, HasSubstr("30 s"));
  job["Attempts"].erase(1);
  EXPECT_THAT(show_job(job, kMuchLater, false), Not(HasSubstr("Ended because")));
}

Json with_model(const std::string& status, const Json& has_model) {
  Json job = {{"TrainingJobName", "demo"},
              {"TrainingJobStatus", status},
              {"ModelArtifacts", {{"S3ModelArtifacts", "s3://b/demo/output/model.tar.gz"}}}};
  if (!has_model.is_null()) {
    job["HasModelArtifacts"] = has_model;
  }
  return job;
}

TEST(ShowModel, SaysWhetherThereIsOne) {
  const std::string uri = "s3://b/demo/output/model.tar.gz";
  EXPECT_EQ(show_model(with_model("Completed", true)), uri);
  EXPECT_EQ(show_model(with_model("Completed", false)), "none: /opt/ml/model was empty");
  EXPECT_EQ(show_model(with_model("Failed", false)), "none: a failed job keeps no model");
  EXPECT_EQ(show_model(with_model("Stopped", false)), "none: its program had not started");
  EXPECT_EQ(show_model(with_model("Failed", true)), uri);
  EXPECT_EQ(show_model(with_model("InProgress", nullptr)), uri + " (when it has completed)");
}

TEST(ShowModel, IsUnknownWhenTheServerCannotSay) {
  const std::string text = "unknown: if it was saved, at s3://b/demo/output/model.tar.gz";
  EXPECT_EQ(show_model(with_model("Stopped", nullptr)), text);
  EXPECT_THAT(show_job(with_model("Stopped", nullptr), kMuchLater, false), HasSubstr(text));
}

TEST(ShowModel, TakesTheWordOfAServiceThatDoesNotSayIt) {
  EXPECT_EQ(show_model(with_model("Completed", nullptr)), "s3://b/demo/output/model.tar.gz");
  EXPECT_EQ(show_model(Json::object()), "");
}

}  // namespace
}  // namespace trainyard::cli
