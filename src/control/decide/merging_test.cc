// SPDX-License-Identifier: Apache-2.0
// How a job ends whose several hosts have sent parts of its results: joined, later, or never.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/decide.h"
#include "control/decide/failure.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const Error kFull{Code::kExhausted, "while joining s3://b/model.tar.gz: no space left on device"};
const Error kMissing{Code::kNotFound, "a part of s3://b/model.tar.gz is missing"};

// Both hosts have sent their part of the model.
class DecideMerging : public ::testing::Test {
 protected:
  void SetUp() override {
    for (InstanceFacts& instance : facts_.instances) {
      wire::Exit exit = exit_with(0);
      exit.has_model = true;
      end(instance, exit);
    }
    settle(job_, facts_, after({}));
    for (InstanceFacts& instance : facts_.instances) {
      instance.phase = wire::Phase::kFinished;
    }
    settle(job_, facts_, after({}));
    ASSERT_EQ(job_.stage, Stage::kMerging);
  }

  std::vector<std::string> answer(Result<void> result, std::chrono::milliseconds at) {
    facts_.call = std::move(result);
    return pass(at);
  }
  std::vector<std::string> pass(std::chrono::milliseconds at) {
    const std::vector<Action> actions = settle(job_, facts_, after(at));
    std::vector<std::string> lines(actions.size());
    std::transform(actions.begin(), actions.end(), lines.begin(), describe);
    return lines;
  }
  std::string message() const { return job_.transitions.back().message; }

  Job job_ = running_job(Secondary::kTraining);
  Facts facts_ = facts_in(wire::Phase::kTraining);
};

TEST_F(DecideMerging, JoinsAgainAfterAPauseAndCompletes) {
  EXPECT_THAT(answer(kFull, {}),
              ElementsAre(AllOf(StartsWith("SetMessage: The results of the instances are joined "
                                           "again in 1 s: "),
                                EndsWith("no space left on device")),
                          "MergeLater 1 s"));
  EXPECT_THAT(pass(Duration(999)), IsEmpty());
  EXPECT_THAT(pass(seconds(1)), ElementsAre("Enter Merging", "MergeArtifacts"));
  answer(Result<void>(), seconds(2));
  answer(Result<void>(), seconds(3));  // of the release
  EXPECT_EQ(job_.secondary, Secondary::kCompleted);
  EXPECT_TRUE(job_.has_model);
}

TEST_F(DecideMerging, WaitsLongerEachTime) {
  answer(kFull, {});
  pass(seconds(1));
  EXPECT_THAT(answer(kFull, seconds(1)), Contains("MergeLater 2 s"));
  pass(seconds(3));
  EXPECT_THAT(answer(kFull, seconds(3)), Contains("MergeLater 4 s"));
}

TEST_F(DecideMerging, NamesWhereThePartsLieWhenTheLimitIsOver) {
  answer(kFull, {});
  pass(seconds(1));
  answer(kFull, kTestLimits.upload);
  ASSERT_EQ(job_.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(job_).reason,
            "InternalServerError: the results of the instances lie in "
            "s3://bucket/out/demo/output/.parts/1796000000000/1/, not joined: " +
                kFull.message);
  answer(Result<void>(), kTestLimits.upload);
  EXPECT_EQ(job_.secondary, Secondary::kFailed);
  EXPECT_FALSE(job_.has_model);
}

TEST_F(DecideMerging, DoesNotWaitForAPartThatIsMissing) {
  answer(kMissing, {});
  EXPECT_EQ(job_.stage, Stage::kReleasing);
  EXPECT_THAT(outcome_in(job_).reason, AllOf(StartsWith("ClientError: "), HasSubstr("is missing")));
}

TEST_F(DecideMerging, KeepsTryingForAJobThatIsStoppedMeanwhile) {
  answer(kFull, {});
  job_.stop_requested = kTestTime;
  EXPECT_THAT(pass(seconds(1)),
              ElementsAre("Conclude Stopped: ", "SetStatus Stopping: Stopping the training job",
                          "Enter Merging", "MergeArtifacts"));
}

TEST_F(DecideMerging, TellsWhereThePartsOfAStoppedJobLie) {
  job_.stop_requested = kTestTime;
  answer(kFull, kTestLimits.upload);
  answer(Result<void>(), kTestLimits.upload);
  EXPECT_EQ(job_.secondary, Secondary::kStopped);
  EXPECT_THAT(message(), HasSubstr("lie in " + parts_place(job_) + ", not joined"));
  EXPECT_FALSE(job_.has_model);
}

// --- What is shown while an upload waits ---

TEST(DecideUploading, ShowsWhatItWaitsForAndNamesItInTheEnd) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(wire::Phase::kTraining, 1);
  end(facts.instances[0], with_artifacts(exit_with(0)));
  settle(job, facts, after({}));
  facts.instances[0].phase = wire::Phase::kUploading;
  facts.instances[0].message = "The store is full";
  EXPECT_THAT(decided(job, facts, after({})), ElementsAre("SetMessage: The store is full"));
  facts.instances[0].last_report = after(kTestLimits.upload);
  settle(job, facts, after(kTestLimits.upload));
  EXPECT_EQ(outcome_in(job).reason,
            "InternalServerError: instance algo-1 did not finish its upload within 3600 s: The "
            "store is full");
}

TEST(DecideUploading, ShowsAFaultRatherThanWhatItWaitsFor) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  job.stop_requested = kTestTime;
  settle(job, facts, after({}));
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = with_artifacts(exit_with(0));
    exit.stopped = true;
    end(instance, exit);
  }
  settle(job, facts, after({}));
  facts.instances[0].supervisor_ended = true;
  facts.instances[1].phase = wire::Phase::kUploading;
  facts.instances[1].message = "The store is full";
  EXPECT_LE(settle(job, facts, after({})).size(), 2u);
  EXPECT_THAT(job.transitions.back().message, HasSubstr("algo-1 was lost"));
}

}  // namespace
}  // namespace trainyard::control
