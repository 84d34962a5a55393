// SPDX-License-Identifier: Apache-2.0
#include "control/job/job_state.h"

#include <gtest/gtest.h>

#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;

struct Step {
  Secondary from;
  Secondary to;
  bool is_legal;
};
class LegalTransitions : public testing::TestWithParam<Step> {};

TEST_P(LegalTransitions, FollowTheServicesStatusMachine) {
  EXPECT_EQ(is_legal(GetParam().from, GetParam().to), GetParam().is_legal);
}

INSTANTIATE_TEST_SUITE_P(
    Table, LegalTransitions,
    testing::Values(Step{Secondary::kStarting, Secondary::kDownloading, true},
                    Step{Secondary::kStarting, Secondary::kTraining, false},
                    Step{Secondary::kStarting, Secondary::kStopping, true},
                    Step{Secondary::kStarting, Secondary::kStopped, false},
                    Step{Secondary::kDownloading, Secondary::kTraining, true},
                    Step{Secondary::kTraining, Secondary::kDownloading, false},
                    Step{Secondary::kTraining, Secondary::kStarting, true},
                    Step{Secondary::kTraining, Secondary::kUploading, true},
                    Step{Secondary::kUploading, Secondary::kCompleted, true},
                    Step{Secondary::kUploading, Secondary::kStarting, true},
                    Step{Secondary::kStopping, Secondary::kStarting, false},
                    Step{Secondary::kStopping, Secondary::kMaxWaitTimeExceeded, true},
                    Step{Secondary::kUploading, Secondary::kFailed, true},
                    Step{Secondary::kTraining, Secondary::kCompleted, false},
                    Step{Secondary::kStopping, Secondary::kMaxRuntimeExceeded, true},
                    Step{Secondary::kStopping, Secondary::kCompleted, false},
                    Step{Secondary::kCompleted, Secondary::kFailed, false},
                    Step{Secondary::kStopped, Secondary::kStopping, false}));

TEST(SetStatus, ClosesTheOldTransitionAndOpensTheNext) {
  Job job = new_job("demo");
  set_status(job, Secondary::kDownloading, "Downloading input data", kTestTime + seconds(2));
  ASSERT_EQ(job.transitions.size(), 2u);
  EXPECT_EQ(job.transitions[0].end, kTestTime + seconds(2));
  EXPECT_FALSE(job.transitions[1].end);
  EXPECT_EQ(job.training_start, kTestTime + seconds(2));
}

TEST(SetStatus, NeverGoesBackInTime) {
  Job job = new_job("demo");
  set_status(job, Secondary::kDownloading, "a", kTestTime + seconds(5));
  set_status(job, Secondary::kTraining, "b", kTestTime + seconds(1));
  EXPECT_EQ(job.transitions[2].start, kTestTime + seconds(5));
  EXPECT_EQ(job.modified, kTestTime + seconds(5));
}

TEST(SetStatus, ClosesATerminalTransitionToo) {
  Job job = new_job("demo");
  set_status(job, Secondary::kFailed, "Training job failed", kTestTime + seconds(1));
  EXPECT_TRUE(job.transitions.back().end);
}

TEST(SetMessage, ReplacesTheMessageInPlace) {
  Job job = new_job("demo");
  EXPECT_TRUE(set_message(job, "Waiting", kTestTime));
  EXPECT_FALSE(set_message(job, "Waiting", kTestTime));
  EXPECT_EQ(job.transitions.size(), 1u);
}

TEST(Attempts, GoOnUnderANewEpochWhenTheirInstancesNeverRan) {
  Job job = new_job("demo");
  open_attempt(job, kTestTime);
  job.epoch = 2;
  open_attempt(job, kTestTime + seconds(1));
  ASSERT_EQ(job.attempts.size(), 1u);
  EXPECT_EQ(job.attempts[0].epoch, 2);
  EXPECT_EQ(job.attempts[0].start, kTestTime);
}

TEST(Attempts, NeverGoBackInTime) {
  Job job = new_job("demo");
  open_attempt(job, kTestTime);
  close_attempt(job, "lost", "algo-1", kTestTime - seconds(5));
  close_attempt(job, "again", "algo-2", kTestTime);  // none is open
  open_attempt(job, kTestTime - seconds(9));
  ASSERT_EQ(job.attempts.size(), 2u);
  EXPECT_EQ(job.attempts[0].end, kTestTime);
  EXPECT_EQ(job.attempts[0].cause, "lost");
  EXPECT_EQ(job.attempts[1].start, kTestTime);
}

TEST(JobJson, SurvivesAStorageRoundTrip) {
  Job job = running_job(Secondary::kTraining);
  job.outcome = Outcome{
      .status = Secondary::kFailed, .reason = "AlgorithmError: \xe6\x97\xa5", .at = kTestTime};
  job.gpus = {{"0", "1"}, {"2"}};
  job.network = {.addresses = {"10.0.0.1", "10.0.0.2"}, .interface = "eth0", .server = "http://s"};
  job.merges = {{.parts = {"s3://b/1", "s3://b/2"}, .target = "s3://b/t"}};
  job.stage_until = kTestTime;
  job.waiting_since = kTestTime;
  job.wait_counts_from = kTestTime - seconds(7);
  job.stored_at = kTestTime;
  job.epoch = 3;
  job.gang_epoch = 2;
  job.to_start = {"algo-2"};
  job.has_model = true;
  close_attempt(job, "instance algo-2 was lost", "algo-2", kTestTime + seconds(1));
  Job copy;
  ASSERT_TRUE(state_from_json(nlohmann::json::parse(state_to_json(job).dump()), copy));
  EXPECT_EQ(state_to_json(copy), state_to_json(job));
  EXPECT_EQ(copy.transitions.size(), 3u);
  ASSERT_EQ(copy.attempts.size(), 1u);
  EXPECT_EQ(copy.attempts[0].end, kTestTime + seconds(1));
}

TEST(JobJson, ReportsDamageInsteadOfGuessing) {
  Job job;
  auto state = state_to_json(new_job("demo"));
  state["stage"] = "Flying";
  EXPECT_EQ(state_from_json(state, job).error().code, Code::kCorrupt);
  state.erase("stage");
  EXPECT_EQ(state_from_json(state, job).error().code, Code::kCorrupt);
}

TEST(FactsJson, SurvivesAStorageRoundTrip) {
  InstanceFacts facts{.host = "algo-2", .phase = wire::Phase::kEnded};
  facts.exit = exit_with(3);
  facts.exit->global_rank = 1;
  facts.error = Error{.code = Code::kDenied, .message = "no", .subject = "key"};
  facts.incarnation = 2;
  facts.heard = kTestTime;
  facts.is_flushing = true;
  facts.log_end = 7;
  InstanceFacts copy{.host = "algo-2"};
  ASSERT_TRUE(facts_from_json(facts_to_json(facts), copy));
  EXPECT_EQ(copy.phase, wire::Phase::kEnded);
  EXPECT_EQ(copy.incarnation, 2);
  EXPECT_EQ(copy.heard, kTestTime);
  EXPECT_TRUE(copy.is_flushing);
  EXPECT_EQ(copy.log_end, 7u);
  EXPECT_EQ(copy.exit.value_or(wire::Exit()).global_rank, 1);
  EXPECT_EQ(copy.error.value_or(Error()).code, Code::kDenied);
}

// An older program's, which go on with this one.
TEST(FactsJson, MayLackWhereTheLogEnds) {
  InstanceFacts facts{.host = "algo-1"};
  ASSERT_TRUE(facts_from_json(facts_to_json(InstanceFacts{.host = "algo-1"}), facts));
  EXPECT_FALSE(facts.log_end);
}

}  // namespace
}  // namespace trainyard::control
