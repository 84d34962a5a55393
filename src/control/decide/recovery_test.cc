// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/decide.h"
#include "control/decide/failure.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using wire::Phase;

using Lines = std::vector<std::string>;

const Now kNow = after({});

wire::Exit stopped_exit() {
  wire::Exit exit = exit_with(0);
  exit.signal = 15;
  exit.stopped = true;
  return exit;
}

// Two instances that train; algo-2 has just been lost.
struct Lost {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);

  Lost() { facts.instances[1].supervisor_ended = true; }
  std::vector<Action> settle_at(const Now& now = kNow) { return settle(job, facts, now); }
  // algo-1's program has ended, and the engine has replaced algo-2.
  void relaunch() {
    settle_at();
    end(facts.instances[0], stopped_exit());
    settle_at();
    facts.call = Result<void>();
    settle_at();
  }
};

// --- The way of a recovery ---

TEST(DecideRecovery, GoesBackToStartingAndEndsTheOtherPrograms) {
  const Lost lost;
  EXPECT_EQ(decided(lost.job, lost.facts, kNow),
            (Lines{"SetStatus Starting: Repairing: instance algo-2 was lost (its supervisor "
                   "ended); attempt 2 of 3 follows",
                   "AbandonAttempt: instance algo-2 was lost (its supervisor ended)",
                   "Enter Recovering", "Send algo-1 abort"}));
}

TEST(DecideRecovery, WaitsUntilTheOtherProgramsHaveEnded) {
  Lost lost;
  lost.settle_at();
  EXPECT_THAT(decided(lost.job, lost.facts, kNow), IsEmpty());
  end(lost.facts.instances[0], stopped_exit());
  EXPECT_EQ(decided(lost.job, lost.facts, kNow),
            (Lines{"NextEpoch", "Enter Relaunching", "StartGang algo-2"}));
}

TEST(DecideRecovery, ReplacesAPeerThatDoesNotEndInTime) {
  Lost lost;
  lost.settle_at();
  const Now late = after(kAbortBound);
  lost.facts.instances[0].last_report = late;
  EXPECT_EQ(decided(lost.job, lost.facts, late),
            (Lines{"NextEpoch", "Enter Relaunching", "StartGang algo-1 algo-2"}));
}

TEST(DecideRecovery, GivesAPeerThatFlushesItsCheckpointsTheTimeItNeeds) {
  Lost lost;
  lost.settle_at();
  const Now late = after(kAbortBound);
  lost.facts.instances[0].is_flushing = true;
  lost.facts.instances[0].last_report = late;
  EXPECT_THAT(decided(lost.job, lost.facts, late), IsEmpty());
}

TEST(DecideRecovery, ReplacesAPeerThatIsLostMeanwhile) {
  Lost lost;
  lost.settle_at();
  lost.facts.instances[0].supervisor_ended = true;
  lost.settle_at();
  EXPECT_THAT(lost.job.to_start, ElementsAre("algo-1", "algo-2"));
  EXPECT_EQ(lost.job.attempts.size(), 2u);
}

TEST(DecideRecovery, ForgetsWhatTheOldEpochSaid) {
  Lost lost;
  lost.facts.instances[0].heard = kTestTime;
  lost.relaunch();
  EXPECT_EQ(lost.job.stage, Stage::kRunning);
  EXPECT_EQ(lost.job.epoch, 2);
  EXPECT_EQ(lost.job.gang_epoch, 1);
  const auto& [kept, fresh] = std::tie(lost.facts.instances[0], lost.facts.instances[1]);
  EXPECT_EQ(kept.phase, Phase::kStarting);
  EXPECT_FALSE(kept.exit);
  EXPECT_EQ(kept.incarnation, 1);
  EXPECT_TRUE(kept.heard);
  EXPECT_EQ(fresh.incarnation, 2);
  EXPECT_FALSE(fresh.supervisor_ended);
  EXPECT_FALSE(fresh.heard);
}

TEST(DecideRecovery, KeepsTheLogStreamsOfTheFirstAttempt) {
  Lost lost;
  lost.settle_at();
  end(lost.facts.instances[0], stopped_exit());
  lost.settle_at(after(seconds(9)));
  EXPECT_EQ(lost.job.launched, kTestTime);
}

TEST(DecideRecovery, GoesThroughEveryStatusAgain) {
  Lost lost;
  lost.relaunch();
  for (InstanceFacts& instance : lost.facts.instances) {
    end(instance, exit_with(0));
  }
  lost.settle_at();
  std::string statuses;
  for (const Transition& transition : lost.job.transitions) {
    statuses += std::string(name_of(transition.status)) + " ";
  }
  EXPECT_EQ(statuses, "Starting Downloading Training Starting Downloading Training Uploading ");
}

TEST(DecideRecovery, RecordsWhyEachAttemptEnded) {
  Lost lost;
  lost.relaunch();
  ASSERT_EQ(lost.job.attempts.size(), 2u);
  EXPECT_EQ(lost.job.attempts[0].cause, "instance algo-2 was lost (its supervisor ended)");
  EXPECT_EQ(lost.job.attempts[0].host, "algo-2");
  EXPECT_EQ(lost.job.attempts[0].end, kTestTime);
  EXPECT_EQ(lost.job.attempts[1].epoch, 2);
  EXPECT_FALSE(lost.job.attempts[1].end);
}

// --- What is worth another attempt ---

TEST(DecideRecovery, ReplacesAnInstanceWithAFaultOfItsOwn) {
  Job job = running_job(Secondary::kDownloading);
  Facts facts = facts_in(Phase::kReady);
  facts.instances[0].error = Error{.code = Code::kUnavailable, .message = "no store"};
  settle(job, facts, kNow);
  end(facts.instances[1], stopped_exit());
  settle(job, facts, kNow);
  EXPECT_THAT(job.to_start, ElementsAre("algo-1"));
  EXPECT_EQ(job.attempts[0].cause, "algo-1: no store");
}

TEST(DecideRecovery, NeverRetriesWhatTheUserAskedFor) {
  Job job = running_job(Secondary::kDownloading);
  Facts facts = facts_in(Phase::kDownloading);
  facts.instances[0].error = Error{.code = Code::kNotFound, .message = "channel train"};
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kEnding);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: algo-1: channel train");
}

class UserError : public ::testing::TestWithParam<wire::Exit> {};

TEST_P(UserError, IsNeverRetried) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[1], GetParam());
  settle(job, facts, kNow);
  end(facts.instances[0], stopped_exit());
  settle(job, facts, kNow);
  EXPECT_THAT(outcome_in(job).reason, StartsWith("AlgorithmError: algo-2"));
  EXPECT_EQ(job.attempts.size(), 1u);
}

wire::Exit killed_by(int signal) {
  wire::Exit exit = exit_with(0);
  exit.signal = signal;
  return exit;
}
wire::Exit out_of_memory() {
  wire::Exit exit = killed_by(9);
  exit.out_of_memory = true;
  return exit;
}

INSTANTIATE_TEST_SUITE_P(Table, UserError,
                         ::testing::Values(exit_with(1), exit_with(137), killed_by(11),
                                           killed_by(9), out_of_memory()));

TEST(DecideRecovery, RetriesAFailureThatWasAVictimOfALoss) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(1, seconds(1)));
  settle(job, facts, after(seconds(1)));
  ASSERT_EQ(job.stage, Stage::kEnding);
  settle(job, facts, after(wire::kSilence + Duration(1)));  // algo-2 is found silent
  EXPECT_THAT(job.transitions.back().message,
              HasSubstr("instance algo-2 was lost (no report for more than 5 s)"));
  EXPECT_THAT(job.to_start, ElementsAre("algo-1", "algo-2"));  // algo-1 was silent as well
  EXPECT_EQ(job.stage, Stage::kRelaunching);
  EXPECT_FALSE(job.outcome);
}

TEST(DecideRecovery, DoesNotRetryAFailureThatCameBeforeTheLoss) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(1));
  settle(job, facts, kNow);
  facts.instances[1].last_report = after(seconds(2));
  facts.instances[1].supervisor_ended = true;
  settle(job, facts, after(seconds(2)));
  EXPECT_EQ(outcome_in(job).reason, "AlgorithmError: algo-1 exited with code 1, exit code: 1");
  EXPECT_EQ(job.attempts.size(), 1u);
}

TEST(DecideRecovery, TakesAProgramThatWasKilledWithItsInstanceForALoss) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[1], killed_by(9));
  settle(job, facts, kNow);
  ASSERT_EQ(job.stage, Stage::kEnding);  // algo-1 still runs
  facts.instances[1].last_report = after(Duration(5));
  facts.instances[1].supervisor_ended = true;
  settle(job, facts, after(Duration(9)));
  EXPECT_EQ(job.stage, Stage::kRecovering);
  EXPECT_EQ(job.attempts[0].host, "algo-2");
}

TEST(DecideRecovery, StartsAllAnewWhenAnUploadIsLost) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], with_artifacts(exit_with(0)));
  end(facts.instances[1], exit_with(0));
  settle(job, facts, kNow);
  facts.instances[1].phase = Phase::kFinished;
  facts.instances[0].supervisor_ended = true;
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kRelaunching);
  EXPECT_THAT(job.to_start, ElementsAre("algo-1", "algo-2"));
  EXPECT_EQ(job.secondary, Secondary::kStarting);
}

TEST(DecideRecovery, LeavesAFailedJobsUploadAlone) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], with_artifacts(exit_with(1)));
  settle(job, facts, kNow);
  facts.instances[0].supervisor_ended = true;
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(job).reason, "AlgorithmError: algo-1 exited with code 1, exit code: 1");
}

// --- How often ---

TEST(DecideRetries, MakesExactlyTwoAttemptsWithOneRetry) {
  Lost lost;
  lost.job.request["RetryStrategy"] = {{"MaximumRetryAttempts", 1}};
  lost.relaunch();
  lost.facts.instances[1].supervisor_ended = true;
  lost.settle_at();
  EXPECT_EQ(lost.job.attempts.size(), 2u);
  EXPECT_EQ(outcome_in(lost.job).reason,
            "InternalServerError: instance algo-2 was lost (its supervisor ended before its first "
            "report); attempt 2 of 2");
}

TEST(DecideRetries, RepairsTwiceWithoutARetryStrategy) {
  EXPECT_EQ(max_attempts(new_job("demo")), 3);
  Job job = new_job("demo");
  job.request["RetryStrategy"] = {{"MaximumRetryAttempts", 30}};
  EXPECT_EQ(max_attempts(job), 31);
}

TEST(DecideRetries, KeepsTheReasonWithinItsLimit) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  Facts facts = facts_in(Phase::kTraining);
  facts.instances[0].error =
      Error{.code = Code::kInternal, .message = std::string(2 * kMaxReason, 'x')};
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason.size(), kMaxReason);
  EXPECT_THAT(outcome_in(job).reason, ::testing::EndsWith("x; attempt 3 of 3"));
}

// --- Launches that fail ---

const Error kBadBridge{.code = Code::kInternal, .message = "bad bridge"};

TEST(DecideLaunchError, GivesTheGangBackAndWaitsForItsTurnAgain) {
  Job job = job_in(Stage::kLaunching);
  Facts facts{.call = kBadBridge};
  EXPECT_EQ(decided(job, facts, kNow),
            (Lines{"SetMessage: Repairing: bad bridge; attempt 2 of 3 follows",
                   "AbandonAttempt: bad bridge", "Enter Regrouping", "ReleaseGang"}));
  settle(job, facts, kNow);
  EXPECT_TRUE(holds_capacity(job.stage));
  facts.call = Result<void>();
  EXPECT_EQ(decided(job, facts, kNow), (Lines{"NextEpoch", "Enter Waiting"}));
  settle(job, facts, kNow, {.granted = true});
  EXPECT_EQ(job.stage, Stage::kPreparing);
  EXPECT_EQ(job.gang_epoch, 2);
  EXPECT_EQ(job.attempts.size(), 2u);
}

TEST(DecideLaunchError, IsRetriedWhenTheNetworkCannotBeMade) {
  Job job = job_in(Stage::kPreparing);
  Facts facts{.call = kBadBridge};
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kRegrouping);
}

TEST(DecideLaunchError, NeverRetriesALackOfCapacity) {
  Job job = job_in(Stage::kLaunching);
  Facts facts{.call = Error{.code = Code::kExhausted, .message = "no node for algo-2"}};
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(job).reason, "CapacityError: no node for algo-2");
}

// A disk that is full, often for the same reason as the loss, costs the job a repair, not its life.
TEST(DecideLaunchError, RetriesALackOfCapacityForAReplacement) {
  Job job = job_in(Stage::kRelaunching);
  job.to_start = {"algo-2"};
  Facts facts{.call = Error{.code = Code::kExhausted, .message = "write: no space left"}};
  settle(job, facts, kNow);
  EXPECT_FALSE(job.outcome.has_value());
  EXPECT_EQ(job.stage, Stage::kRelaunching);  // again
  EXPECT_EQ(job.repairs, 1);
}

TEST(DecideLaunchError, IsTheClientsWhenTheGangCannotBeMadeAsItWasAskedFor) {
  Job job = job_in(Stage::kPreparing);
  Facts facts{.call = Error{.code = Code::kInvalidArgument, .message = "isolation needs root"}};
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: isolation needs root");
}

TEST(DecideLaunchError, IsNotRetriedWhenTheServerMayNotMakeTheGang) {
  Job job = job_in(Stage::kPreparing);
  Facts facts{.call = Error{.code = Code::kDenied, .message = "no user namespaces"}};
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(job).reason, "InternalServerError: no user namespaces");
}

TEST(DecideLaunchError, OfAReplacementIsTheNextFault) {
  Lost lost;
  lost.settle_at();
  end(lost.facts.instances[0], stopped_exit());
  lost.settle_at();
  lost.facts.call = kBadBridge;
  EXPECT_EQ(decided(lost.job, lost.facts, kNow),
            (Lines{"SetMessage: Repairing: while replacing algo-2: bad bridge; attempt 3 of 3 "
                   "follows in 1 s",
                   "AbandonAttempt: while replacing algo-2: bad bridge", "Enter Recovering",
                   "Send algo-1 abort"}));
  lost.settle_at();
  EXPECT_EQ(lost.job.stage, Stage::kRecovering);  // algo-1 has begun anew and is to end
  end(lost.facts.instances[0], stopped_exit());
  lost.settle_at(after(seconds(1)));
  EXPECT_THAT(lost.job.to_start, ElementsAre("algo-2"));
  EXPECT_EQ(lost.job.epoch, 3);
}

// As after a restore. It is no fault of the attempt, which was begun for the loss.
TEST(DecideLaunchError, OfAGangThatTheEngineDoesNotKnowLeadsToANewGang) {
  Lost lost;
  lost.facts.instances[0].supervisor_ended = true;
  lost.settle_at();
  ASSERT_EQ(lost.job.stage, Stage::kRelaunching);
  lost.facts.call = Error{
      .code = Code::kNotFound, .message = "not prepared", .subject = std::string(kGangSubject)};
  EXPECT_EQ(decided(lost.job, lost.facts, kNow), (Lines{"Enter Regrouping", "ReleaseGang"}));
  lost.settle_at();
  lost.facts.call = Result<void>();
  settle(lost.job, lost.facts, kNow, {.granted = true});
  EXPECT_EQ(lost.job.stage, Stage::kPreparing);
  EXPECT_EQ(lost.job.gang_epoch, 3);
  ASSERT_EQ(lost.job.attempts.size(), 2u);
  EXPECT_EQ(lost.job.attempts[1].epoch, 3);
}

TEST(DecideLaunchError, OfAFileThatIsMissingIsAFaultLikeAnyOther) {
  Lost lost;
  lost.facts.instances[0].supervisor_ended = true;
  lost.settle_at();
  lost.facts.call = Error{.code = Code::kNotFound, .message = "no program"};
  lost.settle_at();
  EXPECT_EQ(lost.job.stage, Stage::kRecovering);
  EXPECT_THAT(lost.job.transitions.back().message, HasSubstr("no program; attempt 3 of 3"));
}

TEST(DecideLaunchError, EndsAJobThatWasStoppedMeanwhile) {
  Lost lost;
  lost.settle_at();
  end(lost.facts.instances[0], stopped_exit());
  lost.settle_at();
  lost.job.stop_requested = kTestTime;
  lost.settle_at();
  EXPECT_EQ(lost.job.secondary, Secondary::kStopping);
  lost.facts.call = kBadBridge;
  lost.settle_at();
  EXPECT_EQ(lost.job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(lost.job).status, Secondary::kStopped);
}

// --- Stops and limits on the way ---

TEST(DecideRecovery, GivesWayToAStop) {
  Lost lost;
  lost.settle_at();
  lost.job.stop_requested = kTestTime;
  lost.settle_at();
  EXPECT_EQ(lost.job.secondary, Secondary::kStopping);
  end(lost.facts.instances[0], with_artifacts(stopped_exit()));
  lost.settle_at();
  EXPECT_EQ(lost.job.stage, Stage::kUploading);
  EXPECT_EQ(lost.job.epoch, 1);
}

TEST(DecideRecovery, DoesNotStretchMaxRuntime) {
  Lost lost;
  lost.relaunch();
  const Now late = after(seconds(600));
  for (InstanceFacts& instance : lost.facts.instances) {
    instance.last_report = late;
  }
  lost.settle_at(late);
  EXPECT_EQ(outcome_in(lost.job).status, Secondary::kMaxRuntimeExceeded);
}

TEST(DecideRecovery, NeverBeginsOnceTheJobStops) {
  Job job = running_job(Secondary::kTraining);
  job.stop_requested = kTestTime;
  Facts facts = facts_in(Phase::kTraining);
  settle(job, facts, kNow);
  facts.instances[1].supervisor_ended = true;
  settle(job, facts, kNow);
  EXPECT_EQ(job.secondary, Secondary::kStopping);
  EXPECT_THAT(job.transitions.back().message, HasSubstr("instance algo-2 was lost"));
}

TEST(DecideWait, StopsASpotJobThatWaitedTooLong) {
  Job job = job_in(Stage::kWaiting);
  job.request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 700;
  Facts facts;
  settle(job, facts, after(seconds(699)));
  EXPECT_EQ(job.stage, Stage::kWaiting);
  settle(job, facts, after(seconds(700)));
  EXPECT_EQ(job.secondary, Secondary::kMaxWaitTimeExceeded);
  EXPECT_EQ(status_name(job.secondary), "Stopped");
  EXPECT_THAT(job.transitions[1].message, HasSubstr("MaxWaitTimeInSeconds (700) is over"));
}

TEST(DecideWait, StopsASpotJobThatRunsTooLong) {
  Job job = running_job(Secondary::kTraining);
  job.request["StoppingCondition"] = {{"MaxRuntimeInSeconds", 900}, {"MaxWaitTimeInSeconds", 900}};
  job.runtime_counts_from = kTestTime + seconds(300);
  const Now late = after(seconds(900));
  Facts facts = facts_in(Phase::kTraining);
  facts.instances[0].last_report = facts.instances[1].last_report = late;
  settle(job, facts, late);
  EXPECT_EQ(job.stage, Stage::kEnding);
  EXPECT_EQ(outcome_in(job).status, Secondary::kMaxWaitTimeExceeded);
}

TEST(DecideWait, StopsAJobThatWaitsTooLongForCapacity) {
  Job job = job_in(Stage::kNew);
  job.request["StoppingCondition"]["MaxPendingTimeInSeconds"] = 7200;
  Facts facts;
  settle(job, facts, kNow, {.total = 4, .free = 1});
  settle(job, facts, after(seconds(7199)), {.total = 4, .free = 1});
  EXPECT_EQ(job.stage, Stage::kWaiting);
  settle(job, facts, after(seconds(7200)), {.total = 4, .free = 1});
  EXPECT_EQ(job.secondary, Secondary::kStopped);
  EXPECT_EQ(job.transitions[1].message,
            "MaxPendingTimeInSeconds (7200) is over without enough free capacity: stopping the "
            "training job");
  EXPECT_EQ(job.transitions.back().message,
            "Training job stopped: MaxPendingTimeInSeconds exceeded before its instances started");
}

// --- The upload's limit ---

struct Uploading {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);

  explicit Uploading(int code) {
    end(facts.instances[0], with_artifacts(exit_with(code)));
    settle(job, facts, kNow);
    facts.instances[0].phase = Phase::kUploading;
  }
  void wait(Duration time) {
    facts.instances[0].last_report = after(time);
    settle(job, facts, after(time));
  }
};

TEST(DecideUploadLimit, FailsAJobWhoseUploadHangs) {
  Uploading uploading(0);
  uploading.wait(kTestLimits.upload - Duration(1));
  EXPECT_EQ(uploading.job.stage, Stage::kUploading);
  uploading.wait(kTestLimits.upload);
  EXPECT_EQ(uploading.job.stage, Stage::kReleasing);
  EXPECT_EQ(outcome_in(uploading.job).reason,
            "InternalServerError: instance algo-1 did not finish its upload within 3600 s");
}

TEST(DecideUploadLimit, KeepsTheReasonOfAJobThatHadFailed) {
  Uploading uploading(3);
  uploading.wait(kTestLimits.upload);
  EXPECT_EQ(uploading.job.stage, Stage::kReleasing);
  EXPECT_THAT(outcome_in(uploading.job).reason, StartsWith("AlgorithmError"));
  EXPECT_THAT(uploading.job.transitions.back().message, Not(IsEmpty()));
}

}  // namespace
}  // namespace trainyard::control
