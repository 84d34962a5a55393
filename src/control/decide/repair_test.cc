// SPDX-License-Identifier: Apache-2.0
// Several losses: which of them one repair takes together, and how long repairs wait that follow
// each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/decide.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Phase;

// A gang that trains. Time stands unless it is told to pass.
struct Gang {
  Job job;
  Facts facts;
  Duration time{};

  explicit Gang(int instances = 5)
      : job(running_job(Secondary::kTraining, instances)),
        facts(facts_in(Phase::kTraining, instances)) {}
  std::vector<Action> settle_now() {
    for (InstanceFacts& instance : facts.instances) {
      instance.last_report = after(time);
    }
    return settle(job, facts, after(time));
  }
  void lose(std::initializer_list<int> numbers) {
    for (const int number : numbers) {
      facts.instances[static_cast<std::size_t>(number - 1)].supervisor_ended = true;
    }
    settle_now();
  }
  // The programs of the others have ended, and what had to be replaced runs.
  void start_again(Duration pause = {}) {
    for (InstanceFacts& instance : facts.instances) {
      instance.phase = Phase::kEnded;
    }
    time += pause;
    settle_now();
    facts.call = Result<void>();
    settle_now();
  }
  void come_to(Phase phase) {
    for (InstanceFacts& instance : facts.instances) {
      instance.phase = phase;
    }
    settle_now();
  }
  void train() {
    come_to(Phase::kDownloading);
    come_to(Phase::kReady);
    ASSERT_EQ(job.secondary, Secondary::kTraining);
  }
  const std::string& message() const { return job.transitions.back().message; }
};

TEST(DecideJoinedLoss, CostsNothingMoreWhileTheNewAttemptHasNotTrained) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  seconds pause(1);
  for (const int number : {2, 3, 4, 5}) {
    gang.lose({number});
    ASSERT_EQ(gang.job.stage, Stage::kRecovering);
    gang.start_again(pause);
    ASSERT_EQ(gang.job.stage, Stage::kRunning);
    pause *= 2;
  }
  EXPECT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_EQ(gang.job.epoch, 6);
  EXPECT_EQ(gang.job.attempts[1].epoch, 6);
  EXPECT_EQ(full_cause(gang.job.attempts[0].cause, gang.job.attempts[0].also_lost),
            "instance algo-1 was lost (its supervisor ended), and so were algo-2, algo-3 and 2 "
            "more");
}

TEST(DecideJoinedLoss, ReplacesOnlyTheLostOne) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.come_to(Phase::kDownloading);
  gang.lose({4});
  EXPECT_EQ(gang.message(),
            "Repairing: instance algo-1 was lost (its supervisor ended), and so was algo-4; "
            "attempt 2 of 3 follows in 1 s");
  EXPECT_THAT(gang.job.to_start, ElementsAre("algo-4"));
  EXPECT_EQ(gang.job.secondary, Secondary::kStarting);
}

TEST(DecideJoinedLoss, IsNoneOfAReplacement) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.lose({2});
  gang.start_again(seconds(1));
  gang.lose({1});  // its epoch is older than the job's, but it is no survivor
  EXPECT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_TRUE(gang.job.attempts[1].end);
  EXPECT_THAT(gang.message(), HasSubstr("attempt 3 of 3 follows in 2 s"));
}

TEST(DecideJoinedLoss, IsNoneWhenAReplacementIsLostWithIt) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.lose({1, 2});
  EXPECT_TRUE(gang.job.attempts.back().end);
}

TEST(DecideJoinedLoss, MayComeWhenTheNewAttemptTrainsAlready) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.train();
  gang.time += seconds(9);
  end(gang.facts.instances[2], exit_with(1, gang.time));  // it has missed algo-2
  gang.lose({2});
  EXPECT_EQ(gang.job.secondary, Secondary::kStarting);
  EXPECT_EQ(gang.message(),
            "Repairing: instance algo-1 was lost (its supervisor ended), and so was algo-2; "
            "attempt 2 of 3 follows");
  gang.start_again();
  EXPECT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_FALSE(gang.job.attempts.back().end);
}

TEST(DecideJoinedLoss, IsNoneOnceTheNewAttemptTrainsForAWhile) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.train();
  gang.time += seconds(11);
  gang.lose({2});
  EXPECT_THAT(gang.message(), HasSubstr("algo-2 was lost (its supervisor ended); attempt 3 of 3"));
}

TEST(DecideJoinedLoss, DoesNotEndAJobOnItsLastAttempt) {
  Gang gang;
  gang.job.request["RetryStrategy"] = {{"MaximumRetryAttempts", 1}};
  gang.lose({1});
  gang.start_again();
  gang.lose({2});
  EXPECT_EQ(gang.job.stage, Stage::kRecovering);
  gang.start_again(seconds(1));
  gang.lose({1});
  EXPECT_EQ(outcome_in(gang.job).status, Secondary::kFailed);
}

// --- Supervisors that somebody stops, as a machine does that is shut down ---

void leave(InstanceFacts& instance) {
  wire::Exit exit = exit_with(0);
  exit.stopped = exit.is_leaving = true;
  end(instance, exit);
}

TEST(DecideLeaving, ReplacesAllWhoLeaveInOneRepair) {
  Gang gang(3);
  leave(gang.facts.instances[0]);
  gang.settle_now();
  EXPECT_EQ(gang.job.stage, Stage::kRecovering);
  leave(gang.facts.instances[1]);
  wire::Exit told = exit_with(0);
  told.stopped = true;
  end(gang.facts.instances[2], told);
  gang.settle_now();
  EXPECT_EQ(gang.job.stage, Stage::kRelaunching);
  EXPECT_THAT(gang.job.to_start, ElementsAre("algo-1", "algo-2"));
}

// Its report came when the next attempt had begun.
TEST(DecideLeaving, JoinsTheRepairUnderWay) {
  Gang gang(3);
  leave(gang.facts.instances[0]);
  gang.settle_now();
  gang.start_again();
  leave(gang.facts.instances[1]);
  gang.settle_now();
  gang.start_again(seconds(1));
  EXPECT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_EQ(gang.facts.instances[1].incarnation, gang.job.epoch);
}

// --- Lost together ---

TEST(DecideLostTogether, NamesAllInCauseAndMessage) {
  Gang gang;
  gang.lose({2, 3});
  EXPECT_EQ(gang.message(),
            "Repairing: instance algo-2 was lost (its supervisor ended), and so was algo-3; "
            "attempt 2 of 3 follows");
  EXPECT_THAT(gang.job.attempts[0].also_lost, ElementsAre("algo-3"));
}

TEST(DecideLostTogether, NamesThoseLostWhileItWaitsForThePeers) {
  Gang gang;
  gang.lose({2});
  gang.lose({3});
  gang.start_again();
  EXPECT_THAT(gang.job.attempts[0].also_lost, ElementsAre("algo-3"));
  EXPECT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_THAT(gang.message(), HasSubstr("and so was algo-3; attempt 2 of 3 follows"));
}

TEST(DecideLostTogether, NamesAllInTheFailureReason) {
  Gang gang;
  gang.job = without_repairs(std::move(gang.job));
  for (InstanceFacts& instance : gang.facts.instances) {
    instance.incarnation = gang.job.epoch;
  }
  gang.lose({1, 2, 3, 4, 5});
  EXPECT_EQ(outcome_in(gang.job).reason,
            "InternalServerError: instance algo-1 was lost (its supervisor ended), and so were "
            "algo-2, algo-3 and 2 more; attempt 3 of 3");
}

TEST(DecideLostTogether, KeepsTheCauseOfEachAttempt) {
  Gang gang;
  gang.lose({2});
  gang.start_again();
  gang.lose({2});
  ASSERT_EQ(gang.job.attempts.size(), 2u);
  EXPECT_EQ(gang.job.attempts[0].cause, "instance algo-2 was lost (its supervisor ended)");
  EXPECT_THAT(gang.job.attempts[1].cause, HasSubstr("algo-2 was lost"));
}

// --- Repairs that follow each other ---

TEST(DecideRepairPause, DoublesUpToAMinute) {
  std::vector<std::int64_t> pauses;
  for (const int repairs : {0, 1, 2, 3, 6, 7, 8, 1000}) {
    pauses.push_back(repair_pause(repairs).count());
  }
  EXPECT_THAT(pauses, ElementsAre(0, 1000, 2000, 4000, 32'000, 60'000, 60'000, 60'000));
}

TEST(DecideRepairPause, IsKeptBeforeTheNextStart) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.lose({1});
  gang.start_again(Duration(999));
  EXPECT_EQ(gang.job.stage, Stage::kRecovering);
  gang.start_again(Duration(1));
  EXPECT_EQ(gang.job.stage, Stage::kRunning);
}

TEST(DecideRepairPause, IsNotKeptOnceTheJobHasTrained) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.train();
  gang.lose({1});
  gang.start_again();
  EXPECT_EQ(gang.job.stage, Stage::kRunning);
}

TEST(DecideRepairPause, EndsWithAStop) {
  Gang gang;
  gang.lose({1});
  gang.start_again();
  gang.lose({1});
  gang.job.stop_requested = kTestTime;
  gang.settle_now();
  EXPECT_EQ(gang.job.secondary, Secondary::kStopping);
}

TEST(DecideRegrouping, EndsAJobThatWasStoppedWhileItsGangWasStarted) {
  Job job = job_in(Stage::kPreparing);
  Facts facts;
  job.stop_requested = kTestTime;
  settle(job, facts, after({}));
  job.stage = Stage::kRegrouping;  // as a restarted server does
  facts.call = Result<void>();
  settle(job, facts, after({}));
  facts.call = Result<void>();
  settle(job, facts, after({}));
  EXPECT_EQ(job.secondary, Secondary::kStopped);
}

TEST(DecideRepairPause, SurvivesTheDatabase) {
  Gang gang;
  gang.lose({1, 2});
  gang.start_again();
  gang.lose({1});
  Job read;
  ASSERT_TRUE(state_from_json(state_to_json(gang.job), read));
  EXPECT_EQ(read.start_after, kTestTime + seconds(1));
  EXPECT_EQ(read.repairs, 2);
  EXPECT_THAT(read.attempts[0].also_lost, ElementsAre("algo-2"));
}

}  // namespace
}  // namespace trainyard::control
