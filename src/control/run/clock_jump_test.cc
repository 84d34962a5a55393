// SPDX-License-Identifier: Apache-2.0
#include "control/run/clock_jump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::IsEmpty;

// `time` later by the steady clock, and the wall clock set by `jump` besides.
Now set_by(Duration jump, Duration time) {
  Now now = after(time);
  now.wall += jump;
  return now;
}

TEST(ClockJump, IsWhatTheSteadyClockDoesNotKnow) {
  EXPECT_EQ(jump_between(after({}), after(seconds(500))).count(), 0);
  EXPECT_EQ(jump_between(after({}), set_by(hours(1), seconds(2))), hours(1));
  EXPECT_EQ(jump_between(after({}), set_by(hours(-1), seconds(2))), hours(-1));
  EXPECT_EQ(jump_between(after({}), set_by(Duration(999), seconds(2))).count(), 0);
}

TEST(ClockJump, WhileNobodyLookedIsSeenWhenItWasBack) {
  Job job = running_job(Secondary::kTraining);
  EXPECT_EQ(jump_since_stored(job, kTestTime - hours(1)).count(), 0);
  job.stored_at = kTestTime;
  EXPECT_EQ(jump_since_stored(job, kTestTime - hours(1)), hours(-1));
  EXPECT_EQ(jump_since_stored(job, kTestTime + hours(1)).count(), 0);
}

class SetBy : public ::testing::TestWithParam<Duration> {};

// A job with 600 s, whose clock is set when 300 s of them are over.
TEST_P(SetBy, MovesNoLimitOfTheRuntime) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  follow(GetParam(), job, facts);
  const auto decided_at = [&](Duration time) {
    const Now now = set_by(GetParam(), time);
    for (InstanceFacts& instance : facts.instances) {
      instance.last_report = now;
    }
    return decided(job, facts, now);
  };
  EXPECT_THAT(decided_at(Duration(599'999)), IsEmpty());
  EXPECT_THAT(decided_at(seconds(600)),
              Contains("SetStatus Stopping: MaxRuntimeInSeconds (600) is over: stopping the "
                       "training job"));
}

TEST_P(SetBy, MovesNoLimitOfTheWait) {
  Job job = running_job(Secondary::kStarting);
  job.request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 900;
  job.stage = Stage::kWaiting;
  job.waiting_since = kTestTime;
  const CapacityView full{.total = 4, .free = 0};
  Facts facts;
  follow(GetParam(), job, facts);
  const auto is_over = [&](Duration time) {
    return decided(job, {}, set_by(GetParam(), time), full).size() > 1;
  };
  EXPECT_FALSE(is_over(seconds(899)));
  EXPECT_TRUE(is_over(seconds(900)));
  job.request["StoppingCondition"] = {{"MaxPendingTimeInSeconds", 300}};
  EXPECT_FALSE(is_over(seconds(299)));
  EXPECT_TRUE(is_over(seconds(300)));
}

TEST_P(SetBy, MovesNoDeadlineOfAStage) {
  Job job = running_job(Secondary::kTraining);
  job.stage_until = kTestTime + seconds(15);
  job.start_after = kTestTime + seconds(4);
  Facts facts;
  follow(GetParam(), job, facts);
  EXPECT_EQ(job.stage_until, kTestTime + seconds(15) + GetParam());
  EXPECT_EQ(job.start_after, kTestTime + seconds(4) + GetParam());
}

// algo-1 is lost and algo-2 fails of it, 2 s after the clock was set.
TEST_P(SetBy, MakesNoVictimOfALossTheCause) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  follow(GetParam(), job, facts);
  facts.instances[0].supervisor_ended = true;
  end(facts.instances[1], exit_with(1, GetParam() + seconds(2)));
  settle(job, facts, set_by(GetParam(), seconds(2)));
  EXPECT_EQ(job.attempts.front().cause, "instance algo-1 was lost (its supervisor ended)");
  EXPECT_FALSE(job.outcome);
}

// The other way round, the program is the cause: its exit was known before.
TEST_P(SetBy, MakesNoCauseOfAVictim) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  end(facts.instances[1], exit_with(1));
  facts.instances[1].heard = kTestTime;
  follow(GetParam(), job, facts);
  facts.instances[0].supervisor_ended = true;
  facts.instances[0].last_report = set_by(GetParam(), seconds(2));
  settle(job, facts, set_by(GetParam(), seconds(2)));
  EXPECT_EQ(outcome_in(job).status, Secondary::kFailed);
}

TEST_P(SetBy, MovesTheEndOfAnAttemptForUsAlone) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  const WallTime shown = job.attempts.front().end.value_or(WallTime());
  Facts facts;
  follow(GetParam(), job, facts);
  follow(seconds(5), job, facts);
  EXPECT_EQ(job.attempts.front().end, shown);
  Job read;
  EXPECT_TRUE(state_from_json(state_to_json(job), read));
  EXPECT_EQ(read.attempts.front().counts_as_ended, shown + GetParam() + seconds(5));
}

INSTANTIATE_TEST_SUITE_P(AnHour, SetBy, ::testing::Values(hours(1), hours(-1)));

TEST(ClockJump, LeavesNothingThatWasHeardInTheFuture) {
  Facts facts = facts_in(wire::Phase::kEnded);
  facts.instances[0].heard = kTestTime + hours(1);
  end(facts.instances[0], exit_with(1, hours(1)));
  facts.instances[1].heard = kTestTime - hours(1);
  forget_the_future(kTestTime, facts);
  EXPECT_EQ(facts.instances[0].heard, kTestTime);
  EXPECT_EQ(facts.instances[0].exit->at, kTestTime);
  EXPECT_EQ(facts.instances[1].heard, kTestTime - hours(1));
}

// What clients were shown stays, although the clock was set back between two steps.
TEST(ClockJump, BeforeTheTrainingBeginsTakesNothingFromIt) {
  Job job = running_job(Secondary::kStarting);
  Facts facts;
  follow(hours(-1), job, facts);
  set_status(job, Secondary::kDownloading, "Downloading", kTestTime - hours(1));
  EXPECT_EQ(job.training_start, kTestTime);
  EXPECT_EQ(job.runtime_counts_from, kTestTime - hours(1));
}

// cases.md 90, through the whole of control: a job that may train for 20 s.
struct ClockOfTheServer : ::testing::Test {
  ClockOfTheServer() {
    nlohmann::json request = job_request(1);
    request["StoppingCondition"]["MaxRuntimeInSeconds"] = 20;
    EXPECT_TRUE(harness.create("demo", 1, request));
    only = std::make_unique<Speaker>(harness, "demo", "algo-1");
    train({only.get()});
    EXPECT_TRUE(harness.reaches("demo", "Training"));
  }
  // While the instance goes on to speak.
  void pass(seconds time) {
    for (seconds gone{0}; gone < time; gone += seconds(2)) {
      harness.clock().advance(seconds(2));
      const std::string text = "at " + std::to_string(gone.count());
      ASSERT_TRUE(only->report({.message = text}));
      EXPECT_TRUE(eventually([&] {
        const std::string message = harness.message("demo");
        return message == text || message.starts_with("Max");
      }));
    }
  }
  void expect_the_limit_after_20_of(seconds passed) {
    pass(seconds(18) - passed);
    EXPECT_EQ(harness.secondary("demo"), "Training");
    pass(seconds(4));
    EXPECT_TRUE(harness.reaches("demo", "Stopping"));
    EXPECT_EQ(harness.message("demo"),
              "MaxRuntimeInSeconds (20) is over: stopping the training job");
  }

  Harness harness;
  std::unique_ptr<Speaker> only;
};

TEST_F(ClockOfTheServer, MovesNoLimitWhenItIsSetForward) {
  pass(seconds(4));
  harness.clock().set_now(harness.clock().now() + hours(1));
  expect_the_limit_after_20_of(seconds(4));
}

TEST_F(ClockOfTheServer, MovesNoLimitWhenItIsSetBack) {
  pass(seconds(4));
  harness.clock().set_now(harness.clock().now() - hours(1));
  expect_the_limit_after_20_of(seconds(4));
}

TEST_F(ClockOfTheServer, MovesNoLimitWhenItIsSetBackWhileTheServerIsAway) {
  pass(seconds(4));
  harness.close();
  harness.clock().set_now(harness.clock().now() - hours(1));
  harness.open();
  expect_the_limit_after_20_of(seconds(4));
}

}  // namespace
}  // namespace trainyard::control
