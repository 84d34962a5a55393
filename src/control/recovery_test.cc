// SPDX-License-Identifier: Apache-2.0
// Attempts and epochs through Control: what clients see, what instances are told, what a restarted
// server does. decide/recovery_test.cc has the decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/validate.h"
#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Phase;

// Two instances that train in the first epoch.
class Recovery : public ::testing::Test {
 protected:
  Recovery() {
    EXPECT_TRUE(harness_.create("demo", 2));
    first_ = std::make_unique<Speaker>(harness_, "demo", "algo-1");
    second_ = std::make_unique<Speaker>(harness_, "demo", "algo-2");
    first_->begin_epoch(1);
    second_->begin_epoch(1);
    train({first_.get(), second_.get()});
    EXPECT_TRUE(harness_.reaches("demo", "Training"));
  }

  // algo-2 dies; algo-1 ends its program as it is told.
  void lose_the_second() {
    harness_.engine().kill("demo", "algo-2");
    EXPECT_EQ(first_->next_command()["kind"], "abort");
    EXPECT_TRUE(first_->end(stopped_exit()));
  }
  void replace_the_second(int epoch = 2) {
    const std::string before = second_->token();
    second_ = std::make_unique<Speaker>(harness_, "demo", "algo-2", before);
    second_->begin_epoch(epoch);
  }
  void run_to_the_end() {
    for (Speaker* speaker : {first_.get(), second_.get()}) {
      ASSERT_TRUE(speaker->end({}));
    }
    for (Speaker* speaker : {first_.get(), second_.get()}) {
      EXPECT_EQ(speaker->next_command()["kind"], "release");
      ASSERT_TRUE(speaker->say(Phase::kFinished));
    }
    EXPECT_TRUE(harness_.reaches("demo", "Completed"));
  }
  Result<wire::Credentials> keys_of(const Speaker& speaker) {
    YARD_TRY(const json keys, harness_.control().credentials(speaker.caller()));
    return wire::credentials_from_json(keys);
  }

  Harness harness_;
  std::unique_ptr<Speaker> first_;
  std::unique_ptr<Speaker> second_;
};

TEST_F(Recovery, GoesOnInANewAttemptWithTheHealthyInstance) {
  const std::string healthy = first_->token();
  lose_the_second();
  replace_the_second();
  EXPECT_EQ(harness_.engine().token("demo", "algo-1"), healthy);
  EXPECT_EQ(first_->next_command()["kind"], "restart");
  first_->begin_epoch(2);
  train({first_.get(), second_.get()});
  run_to_the_end();
  EXPECT_EQ(harness_.engine().prepared(), 1);
  EXPECT_EQ(harness_.engine().running("demo"), 0u);
}

TEST_F(Recovery, ShowsAttemptsAndLegalTransitions) {
  harness_.clock().advance(std::chrono::seconds(1));
  lose_the_second();
  replace_the_second();
  first_->begin_epoch(2);
  train({first_.get(), second_.get()});
  run_to_the_end();
  const json job = harness_.describe("demo");
  std::vector<std::string> statuses;
  double last = 0;
  for (const json& transition : job["SecondaryStatusTransitions"]) {
    statuses.push_back(transition["Status"].get<std::string>());
    EXPECT_GE(transition["StartTime"].get<double>(), last);
    last = transition["StartTime"].get<double>();
    EXPECT_FALSE(transition["StatusMessage"].get<std::string>().empty());
  }
  EXPECT_THAT(statuses, ElementsAre("Starting", "Downloading", "Training", "Starting",
                                    "Downloading", "Training", "Uploading", "Completed"));
  ASSERT_EQ(job["Attempts"].size(), 2u);
  EXPECT_EQ(job["Attempts"][0]["Epoch"], 1);
  EXPECT_EQ(job["Attempts"][0]["Host"], "algo-2");
  EXPECT_EQ(job["Attempts"][0]["Cause"], "instance algo-2 was lost (its supervisor ended)");
  EXPECT_EQ(job["Attempts"][0]["EndTime"], job["Attempts"][1]["StartTime"]);
  EXPECT_TRUE(job["Attempts"][1].contains("EndTime"));
  EXPECT_FALSE(job["Attempts"][1].contains("Cause"));
}

TEST_F(Recovery, NamesInstanceAndCauseWhileItRepairs) {
  lose_the_second();
  EXPECT_TRUE(harness_.reaches("demo", "Starting"));
  EXPECT_EQ(harness_.message("demo"),
            "Repairing: instance algo-2 was lost (its supervisor ended); attempt 2 of 3 follows");
  EXPECT_EQ(harness_.describe("demo")["TrainingJobStatus"], "InProgress");
}

TEST_F(Recovery, FollowsASilence) {
  ASSERT_TRUE(eventually([&] {
    harness_.clock().advance(std::chrono::milliseconds(100));
    EXPECT_TRUE(first_->beat());
    return harness_.attempts("demo") == 1 && harness_.secondary("demo") == "Starting";
  }));
  EXPECT_THAT(harness_.message("demo"),
              HasSubstr("instance algo-2 was lost (no report for more than 5 s)"));
}

TEST_F(Recovery, BlamesNobodyForAPauseOfTheServer) {
  harness_.clock().advance(std::chrono::seconds(9));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // two ticks
  EXPECT_EQ(harness_.secondary("demo"), "Training");
  EXPECT_EQ(harness_.attempts("demo"), 1u);
  // One that stays silent is lost all the same.
  ASSERT_TRUE(eventually([&] {
    harness_.clock().advance(std::chrono::milliseconds(100));
    EXPECT_TRUE(first_->beat());
    return harness_.secondary("demo") == "Starting";
  }));
  EXPECT_THAT(harness_.message("demo"), HasSubstr("instance algo-2 was lost (no report"));
}

// --- What the old epoch is worth ---

TEST_F(Recovery, DeniesTheReplacedInstanceEverything) {
  const Speaker stale = *second_;
  lose_the_second();
  replace_the_second();
  EXPECT_EQ(harness_.control().assignment(stale.caller()).error().code, Code::kDenied);
  EXPECT_EQ(harness_.control().credentials(stale.caller()).error().code, Code::kDenied);
  Speaker speaker = stale;
  EXPECT_EQ(speaker.say(Phase::kEnded).error().code, Code::kDenied);
  EXPECT_THAT(speaker.next_command()["kind"].get<std::string>(), HasSubstr("token is unknown"));
}

// Both have the token over the attempts, and what was heard of it stays heard.
TEST_F(Recovery, HearsNoRequestOfAnEarlierAttemptAgain) {
  ASSERT_TRUE(harness_.control().hear(first_->caller(), 1));
  const Speaker stale = *second_;
  lose_the_second();
  replace_the_second();
  first_->begin_epoch(2);
  EXPECT_EQ(harness_.control().hear(first_->caller(), 1).error().subject, "number");
  EXPECT_TRUE(harness_.control().hear(first_->caller(), 2));
  EXPECT_TRUE(harness_.control().hear(second_->caller(), 1));
  EXPECT_EQ(harness_.control().hear(stale.caller(), 1).error().code, Code::kDenied);
}

TEST_F(Recovery, RevokesTheKeysOfTheOldEpoch) {
  const auto old = keys_of(*first_);
  ASSERT_TRUE(old);
  EXPECT_TRUE(harness_.control().find_key(old->access_key_id));
  lose_the_second();
  replace_the_second();
  EXPECT_FALSE(harness_.control().find_key(old->access_key_id));
  EXPECT_EQ(keys_of(*first_).error().code, Code::kConflict);
  first_->begin_epoch(2);
  const auto fresh = keys_of(*first_);
  ASSERT_TRUE(fresh);
  EXPECT_NE(fresh->access_key_id, old->access_key_id);
  harness_.close();
  harness_.open();
  EXPECT_FALSE(harness_.control().find_key(old->access_key_id));
  EXPECT_TRUE(harness_.control().find_key(fresh->access_key_id));
}

TEST_F(Recovery, AcknowledgesAndDropsReportsOfTheOldEpoch) {
  lose_the_second();
  replace_the_second();
  const auto answer = first_->say(Phase::kFinished);
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)["acknowledged"], 5);
  first_->begin_epoch(2);
  EXPECT_EQ((*first_->say(Phase::kDownloading))["acknowledged"], 1);
  EXPECT_TRUE(harness_.reaches("demo", "Downloading"));
}

TEST_F(Recovery, TakesACallWithoutAnEpochForCurrent) {
  lose_the_second();
  replace_the_second();
  const json first = json::array({wire::to_json(wire::Report{.seq = 1, .phase = Phase::kReady})});
  EXPECT_EQ((*harness_.control().reports({first_->token()}, first))["acknowledged"], 1);
}

TEST_F(Recovery, DeniesAnEpochThatNeverWas) {
  EXPECT_EQ(harness_.control().credentials({first_->token(), 7}).error().code, Code::kDenied);
}

TEST_F(Recovery, WakesAPollOfTheOldEpoch) {
  std::promise<json> answered;
  harness_.control().commands(first_->caller(), 2, std::chrono::seconds(20),
                              [&](Result<json> list) { answered.set_value(std::move(*list)); });
  harness_.engine().kill("demo", "algo-2");
  ASSERT_TRUE(first_->end(stopped_exit()));
  const json list = answered.get_future().get();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["kind"], "restart");
  EXPECT_EQ(list[0]["seq"], 3);
}

TEST_F(Recovery, KeepsTheLogStreamOfTheFirstLaunch) {
  harness_.clock().advance(std::chrono::seconds(2));
  lose_the_second();
  replace_the_second();
  const auto assignment =
      wire::assignment_from_json(*harness_.control().assignment(second_->caller()));
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->epoch, 2);
  EXPECT_EQ(assignment->log_stream, "demo/algo-2-1796000000");
}

// --- Launches that fail ---

TEST(LaunchError, IsRetriedWithANewGang) {
  Harness harness;
  harness.engine().fail_starts_with({.code = Code::kInternal, .message = "bad bridge"}, 1);
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  EXPECT_TRUE(harness.engine().was_released({.job = "demo", .epoch = 1}));
  EXPECT_EQ(harness.engine().prepared(), 2);
  const json attempts = harness.describe("demo")["Attempts"];
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0]["Cause"], "bad bridge");
  EXPECT_EQ(attempts[1]["Epoch"], 2);
}

TEST(LaunchError, EndsTheJobWhenItStays) {
  Harness harness;
  harness.engine().fail_starts_with({.code = Code::kInternal, .message = "bad bridge"});
  ASSERT_TRUE(harness.create("demo"));
  EXPECT_TRUE(eventually([&] {
    harness.clock().advance(std::chrono::milliseconds(20));  // repairs wait
    return harness.secondary("demo") == "Failed";
  }));
  EXPECT_EQ(harness.describe("demo")["FailureReason"],
            "InternalServerError: bad bridge; attempt 3 of 3");
  EXPECT_EQ(harness.attempts("demo"), 3u);
}

// --- Restarts of the server ---

TEST_F(Recovery, ReplacesAnInstanceThatDiedWhileTheServerWasDown) {
  harness_.close();
  harness_.engine().vanish("demo", "algo-2");
  harness_.open();
  EXPECT_EQ(first_->next_command()["kind"], "abort");
  EXPECT_EQ(harness_.describe("demo")["Attempts"][0]["Cause"],
            "instance algo-2 was lost (its supervisor ended)");
  ASSERT_TRUE(first_->end(stopped_exit()));
  replace_the_second();
}

TEST_F(Recovery, SurvivesARestartWhileItWaitsForThePeers) {
  harness_.engine().kill("demo", "algo-2");
  EXPECT_TRUE(harness_.reaches("demo", "Starting"));
  harness_.close();
  harness_.open();
  EXPECT_EQ(first_->next_command()["kind"], "abort");
  ASSERT_TRUE(first_->end(stopped_exit()));
  replace_the_second();
  EXPECT_EQ(harness_.attempts("demo"), 2u);
}

TEST_F(Recovery, StartsWithNewTokensWhatARestartFindsMissing) {
  lose_the_second();
  replace_the_second();
  harness_.close();
  harness_.edit_job("demo", [](Job& job) {
    job.stage = Stage::kRelaunching;
    job.to_start = {"algo-2"};
  });
  harness_.engine().vanish("demo", "algo-2");
  const std::string before = second_->token();
  harness_.open();
  second_ = std::make_unique<Speaker>(harness_, "demo", "algo-2", before);
  second_->begin_epoch(2);
  EXPECT_TRUE(second_->say(Phase::kDownloading));
  EXPECT_EQ(harness_.control().assignment({before}).error().code, Code::kDenied);
  EXPECT_EQ(harness_.attempts("demo"), 2u);
}

// As after a restore: the backup has the jobs, but no gang of theirs.
TEST_F(Recovery, PreparesAnotherGangWhenTheEngineKnowsNone) {
  harness_.close();
  harness_.engine().forget_all();
  const std::string before = first_->token();
  harness_.open();
  first_ = std::make_unique<Speaker>(harness_, "demo", "algo-1", before);
  replace_the_second(3);
  first_->begin_epoch(3);
  EXPECT_EQ(harness_.secondary("demo"), "Starting");
  EXPECT_EQ(harness_.engine().prepared(), 2);
  EXPECT_EQ(harness_.attempts("demo"), 2u);
  train({first_.get(), second_.get()});
  run_to_the_end();
}

}  // namespace
}  // namespace trainyard::control
