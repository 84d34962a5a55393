// SPDX-License-Identifier: Apache-2.0
#include "control/decide/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/failure.h"
#include "control/testing/job_values.h"
#include "wire/upload_error.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using wire::Phase;

using Lines = std::vector<std::string>;

const Now kNow = after({});

Send sent_to(const std::vector<Action>& actions, const std::string& host) {
  for (const Action& action : actions) {
    const Send* send = std::get_if<Send>(&action);
    if (send != nullptr && send->host == host) {
      return *send;
    }
  }
  ADD_FAILURE() << "nothing sent to " << host;
  return {};
}

// --- Before the gang runs ---

TEST(DecideNew, ChecksTheSourceFirst) {
  Job job = job_in(Stage::kNew);
  job.request["HyperParameters"] = {
      {"sagemaker_submit_directory", "\"s3://bucket/code/sourcedir.tar.gz\""}};
  EXPECT_EQ(decided(job, {}, kNow), (Lines{"Enter Checking", "CheckSource"}));
}

TEST(DecideNew, WaitsAtOnceWithoutASourceArchive) {
  EXPECT_EQ(decided(job_in(Stage::kNew), {}, kNow), Lines{"Enter Waiting"});
}

TEST(DecideChecking, FailsAsClientErrorWithNothingStarted) {
  Job job = job_in(Stage::kChecking);
  Facts facts{.call = Error{.code = Code::kInvalidArgument, .message = "train.py is not in it"}};
  const auto actions = settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kDone);
  EXPECT_EQ(job.secondary, Secondary::kFailed);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: train.py is not in it");
  EXPECT_EQ(actions.size(), 3u);
}

TEST(DecideChecking, BlamesTheServerForAStoreThatDoesNotAnswer) {
  Job job = job_in(Stage::kChecking);
  Facts facts{.call = Error{.code = Code::kUnavailable, .message = "no store"}};
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason, "InternalServerError: no store");
}

TEST(DecideWaiting, SaysWhyItWaits) {
  const CapacityView view{.total = 4, .free = 1, .ahead = "first"};
  EXPECT_EQ(decided(job_in(Stage::kWaiting), {}, kNow, view),
            Lines{"SetMessage: Waiting for capacity: 1 of 2 needed instances free; job first is "
                  "ahead"});
}

TEST(DecideWaiting, DoesNotRepeatItsMessage) {
  Job job = job_in(Stage::kWaiting);
  const CapacityView view{.total = 4, .free = 1};
  set_message(job, waiting_message(job, view), kTestTime);
  EXPECT_THAT(decided(job, {}, kNow, view), IsEmpty());
}

TEST(DecideWaiting, PreparesTheGangWhenItIsGranted) {
  EXPECT_EQ(decided(job_in(Stage::kWaiting), {}, kNow, {.granted = true}),
            (Lines{"SetMessage: Preparing the instances for training. ml.m5.large is mapped to CPU "
                   "cores of this machine.",
                   "Enter Preparing", "PrepareGang"}));
}

TEST(DecideWaiting, KeepsTheWarningOfItsRequestInWhatItSays) {
  Job job = job_in(Stage::kWaiting);
  job.request["EnableManagedSpotTraining"] = true;
  for (const bool is_granted : {false, true}) {
    EXPECT_THAT(decided(job, {}, kNow, {.granted = is_granted}).front(),
                HasSubstr("; warning: EnableManagedSpotTraining without CheckpointConfig"));
  }
}

TEST(DecideWaiting, StopsAtOnce) {
  Job job = job_in(Stage::kWaiting);
  job.stop_requested = kTestTime;
  Facts facts;
  settle(job, facts, kNow, {.granted = true});
  EXPECT_EQ(job.secondary, Secondary::kStopped);
  EXPECT_EQ(job.stage, Stage::kDone);
  EXPECT_EQ(job.transitions.size(), 3u);  // Starting, Stopping, Stopped
}

TEST(DecidePreparing, StartsTheGangOnceItHasANetwork) {
  EXPECT_EQ(decided(job_in(Stage::kPreparing), {.call = Result<void>()}, kNow),
            (Lines{"Enter Launching", "StartGang algo-1 algo-2"}));
}

TEST(DecideLaunching, ReleasesEverythingWhenOneInstanceCannotStart) {
  Job job = job_in(Stage::kLaunching);
  Facts facts{.call = Error{.code = Code::kExhausted, .message = "algo-2: no node"}};
  const auto actions = settle(job, facts, kNow);
  EXPECT_TRUE(std::holds_alternative<ReleaseGang>(actions.back()));
  EXPECT_EQ(outcome_in(job).reason, "CapacityError: algo-2: no node");
}

TEST(DecideLaunching, NeverCallsAnEngineFaultACapacityError) {
  Job job = without_repairs(job_in(Stage::kLaunching));
  Facts facts{.call = Error{.code = Code::kInvalidArgument, .message = "bad bridge"}};
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason, "InternalServerError: bad bridge; attempt 3 of 3");
}

TEST(DecideLaunching, ShowsAStopAtOnceAndActsWhenTheStartIsOver) {
  Job job = job_in(Stage::kLaunching);
  job.stop_requested = kTestTime;
  Facts facts = facts_in(Phase::kStarting);
  settle(job, facts, kNow);
  EXPECT_EQ(job.secondary, Secondary::kStopping);
  EXPECT_EQ(job.stage, Stage::kLaunching);
  facts.call = Result<void>();
  const auto actions = settle(job, facts, kNow);
  EXPECT_EQ(sent_to(actions, "algo-2").kind, wire::Command::Kind::kStop);
  EXPECT_EQ(job.stage, Stage::kEnding);
}

// --- Running ---

TEST(DecideRunning, DownloadsWhenAnyInstanceDoes) {
  Facts facts = facts_in(Phase::kStarting);
  facts.instances[1].phase = Phase::kDownloading;
  EXPECT_EQ(decided(running_job(Secondary::kStarting), facts, kNow),
            Lines{"SetStatus Downloading: Downloading input data"});
}

TEST(DecideRunning, KeepsTheBarrierShutUntilAllAreReady) {
  Facts facts = facts_in(Phase::kReady);
  facts.instances[0].phase = Phase::kDownloading;
  EXPECT_THAT(decided(running_job(Secondary::kDownloading), facts, kNow), IsEmpty());
}

TEST(DecideRunning, OpensTheBarrierForAllAtOnce) {
  EXPECT_EQ(decided(running_job(Secondary::kDownloading), facts_in(Phase::kReady), kNow),
            (Lines{"SetStatus Training: Training image download completed. Training in progress.",
                   "Send algo-1 go", "Send algo-2 go"}));
}

TEST(DecideRunning, SaysThatAGpuTypeRunsOnCpu) {
  Job job = running_job(Secondary::kDownloading);
  job.request["ResourceConfig"]["InstanceType"] = "ml.p4d.24xlarge";
  EXPECT_THAT(decided(job, facts_in(Phase::kReady), kNow)[0],
              HasSubstr("no GPU for ml.p4d.24xlarge: running on CPU"));
}

TEST(DecideRunning, SaysHowManyGpusAnInstanceGets) {
  Job job = running_job(Secondary::kDownloading);
  job.request["ResourceConfig"]["InstanceType"] = "ml.p4d.24xlarge";
  job.gpus_per_instance = 2;
  EXPECT_THAT(decided(job, facts_in(Phase::kReady), kNow)[0],
              HasSubstr("ml.p4d.24xlarge is mapped to 2 GPUs of this machine, not 8."));
}

TEST(DecideRunning, ShowsWhatAnInstanceSays) {
  Facts facts = facts_in(Phase::kDownloading);
  facts.instances[1].message = "Downloading train: 3 of 9 files";
  EXPECT_EQ(decided(running_job(Secondary::kDownloading), facts, kNow),
            Lines{"SetMessage: Downloading train: 3 of 9 files"});
}

TEST(DecideRunning, WaitsForTheOthersWhenOneHasEndedWell) {
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(0));
  EXPECT_THAT(decided(running_job(Secondary::kTraining), facts, kNow), IsEmpty());
}

TEST(DecideRunning, UploadsWhenAllHaveEndedWell) {
  Facts facts = facts_in(Phase::kTraining);
  wire::Exit exit = exit_with(0);
  exit.has_model = true;
  end(facts.instances[0], exit);
  end(facts.instances[1], exit_with(0));
  EXPECT_EQ(decided(running_job(Secondary::kTraining), facts, kNow),
            (Lines{"SetMessage: Training image download completed. Training in progress.",
                   "SetStatus Uploading: Uploading generated training model",
                   "Conclude Completed: ", "Enter Uploading", "Send algo-1 upload",
                   "Send algo-2 release"}));
}

TEST(DecideRunning, ShowsThatHostsHaveSavedOneName) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(0);
    exit.has_model = true;
    exit.model_files = {"model.pt"};
    end(instance, exit);
  }
  settle(job, facts, kNow);
  EXPECT_THAT(job.transitions.back().message,
              HasSubstr("Uploading generated training model; \"model.pt\" of /opt/ml/model comes "
                        "from algo-1, algo-2"));
}

TEST(DecideRunning, LeavesNoWordOfALagBehindThatIsOver) {
  Job job = running_job(Secondary::kStarting, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  facts.instances[0].message = "Uploading checkpoints: 1 file (3 B) of /opt/ml/checkpoints";
  settle(job, facts, kNow);
  ASSERT_THAT(job.transitions.back().message, HasSubstr("Uploading checkpoints"));
  end(facts.instances[0], exit_with(0));
  facts.instances[0].message.clear();
  settle(job, facts, kNow);
  ASSERT_GE(job.transitions.size(), 2u);
  EXPECT_EQ(job.transitions[job.transitions.size() - 2].message,
            "Training image download completed. Training in progress.");
}

TEST(DecideRunning, GoesThroughEveryStatusEvenWhenReportsComeAtOnce) {
  Job job = running_job(Secondary::kStarting, 1);
  Facts facts = facts_in(Phase::kReady, 1);
  end(facts.instances[0], exit_with(0));
  settle(job, facts, kNow);
  EXPECT_EQ(job.secondary, Secondary::kUploading);
  EXPECT_EQ(job.transitions.size(), 4u);
}

// --- Failures ---

TEST(DecideFailure, AbortsThePeersOfTheFirstFailure) {
  Facts facts = facts_in(Phase::kTraining);
  wire::Exit exit = exit_with(3);
  exit.global_rank = 1;
  end(facts.instances[1], exit);
  EXPECT_EQ(decided(running_job(Secondary::kTraining), facts, kNow),
            (Lines{"Conclude Failed: AlgorithmError: rank 1 on algo-2 exited with code 3, exit "
                   "code: 3",
                   "Enter Ending", "Send algo-1 abort"}));
}

TEST(DecideFailure, BlamesTheEarliestExitWhicheverIsHeardFirst) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(1, seconds(2)));
  settle(job, facts, after(seconds(2)));
  end(facts.instances[1], exit_with(7, seconds(1)));
  settle(job, facts, after(seconds(2)));
  EXPECT_THAT(outcome_in(job).reason, HasSubstr("algo-2 exited with code 7"));
  EXPECT_EQ(job.stage, Stage::kUploading);
}

TEST(DecideFailure, DoesNotBlameThoseThatWeStopped) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[1], exit_with(3, seconds(2)));
  settle(job, facts, kNow);
  wire::Exit victim = exit_with(0, seconds(1));  // even if its clock is behind
  victim.signal = 15;
  victim.stopped = true;
  end(facts.instances[0], victim);
  settle(job, facts, kNow);
  EXPECT_THAT(outcome_in(job).reason, HasSubstr("algo-2 exited with code 3"));
}

TEST(DecideFailure, TreatsAStopThatNobodyAskedForAsAFailure) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  Facts facts = facts_in(Phase::kTraining);
  wire::Exit exit = exit_with(0);  // the program took the signal well
  exit.stopped = true;
  end(facts.instances[0], exit);
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason,
            "InternalServerError: instance algo-1 was stopped from outside; attempt 3 of 3");
}

TEST(DecideFailure, UploadsOutputButNoModel) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  wire::Exit exit = exit_with(1);
  exit.has_model = true;
  exit.has_output = true;
  end(facts.instances[0], exit);
  const auto actions = settle(job, facts, kNow);
  const Send send = sent_to(actions, "algo-1");
  EXPECT_FALSE(send.upload.model);
  EXPECT_EQ(send.upload.output.value_or(wire::ArtifactUpload()).s3_uri,
            "s3://bucket/out/demo/output/output.tar.gz");
}

TEST(DecideFailure, NamesADownloadErrorAsTheClientsFault) {
  Job job = running_job(Secondary::kDownloading);
  Facts facts = facts_in(Phase::kDownloading);
  facts.instances[0].error = Error{.code = Code::kDenied, .message = "channel train: denied"};
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: algo-1: channel train: denied");
}

TEST(DecideFailure, NoticesASupervisorThatDied) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  Facts facts = facts_in(Phase::kTraining);
  facts.instances[1].supervisor_ended = true;
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason,
            "InternalServerError: instance algo-2 was lost (its supervisor ended); attempt 3 of 3");
}

struct Silence {
  std::chrono::milliseconds time;
  bool is_lost;
};
class DecideSilence : public testing::TestWithParam<Silence> {};

TEST_P(DecideSilence, EndsTheJobAfterFiveSeconds) {
  Facts facts = facts_in(Phase::kTraining);
  const Now now = after(GetParam().time);
  facts.instances[0].last_report = now;
  const Lines lines = decided(running_job(Secondary::kTraining), facts, now);
  EXPECT_EQ(!lines.empty(), GetParam().is_lost);
}

INSTANTIATE_TEST_SUITE_P(Bounds, DecideSilence,
                         testing::Values(Silence{seconds(0), false}, Silence{seconds(5), false},
                                         Silence{seconds(5) + Duration(1), true}));

TEST(DecideFailure, GivesANewInstanceAMinuteToSpeak) {
  Facts facts = facts_in(Phase::kStarting);
  facts.instances[0].last_report.reset();
  facts.instances[1].last_report = after(seconds(59));
  const Job job = running_job(Secondary::kStarting);
  EXPECT_THAT(decided(job, facts, after(seconds(60))), IsEmpty());
  EXPECT_THAT(decided(job, facts, after(seconds(61)))[0],
              HasSubstr("algo-1 was lost (no first report for more than 60 s)"));
}

TEST(DecideFailure, BlamesALostInstanceForItsPeersErrors) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(1, seconds(1)));
  settle(job, facts, after(seconds(1)));
  facts.instances[1].supervisor_ended = true;
  settle(job, facts, after(seconds(1)));
  EXPECT_THAT(outcome_in(job).reason, StartsWith("InternalServerError: instance algo-2 was lost"));
}

TEST(DecideFailure, RefusesAnEndWithoutAResult) {
  Job job = without_repairs(running_job(Secondary::kTraining, 1));
  Facts facts = facts_in(Phase::kFinished, 1);
  settle(job, facts, kNow);
  EXPECT_THAT(outcome_in(job).reason, StartsWith("InternalServerError"));
}

TEST(DecideEnding, WaitsForThePeersOnlySoLong) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[1], exit_with(3));
  settle(job, facts, kNow);
  const Now late = after(kAbortBound);
  facts.instances[0].last_report = late;
  facts.instances[1].last_report = late;
  EXPECT_EQ(decided(job, facts, late),
            (Lines{"Enter Uploading", "Send algo-1 release", "Send algo-2 release"}));
}

TEST(DecideEnding, WaitsForCheckpointsThatAreOnTheirWay) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[1], exit_with(3));
  settle(job, facts, kNow);
  const Now late = after(kAbortBound);
  facts.instances[0].is_flushing = true;
  facts.instances[0].last_report = late;
  facts.instances[1].last_report = late;
  EXPECT_THAT(decided(job, facts, late), IsEmpty());
  const Now silent = after(kAbortBound + wire::kSilence + std::chrono::seconds(1));
  facts.instances[1].last_report = silent;
  EXPECT_THAT(decided(job, facts, silent), Contains("Enter Uploading")) << "it is lost";
}

TEST(DecideEnding, LearnsOfAFailureBeforeItsCheckpointsAreSent) {
  Job job = without_repairs(running_job(Secondary::kTraining));
  Facts facts = facts_in(Phase::kTraining);
  facts.instances[1].exit = exit_with(3);
  EXPECT_THAT(decided(job, facts, kNow), Contains("Send algo-1 abort"));
}

// --- Stop and limits ---

TEST(DecideStop, TellsAllThenUploadsThenEndsStopped) {
  Job job = running_job(Secondary::kTraining);
  job.stop_requested = kTestTime;
  Facts facts = facts_in(Phase::kTraining);
  EXPECT_EQ(decided(job, facts, kNow),
            (Lines{"Conclude Stopped: ", "SetStatus Stopping: Stopping the training job",
                   "Enter Ending", "Send algo-1 stop", "Send algo-2 stop"}));
  settle(job, facts, kNow);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(0);
    exit.signal = 15;
    exit.stopped = true;
    exit.has_model = instance.host == "algo-1";
    end(instance, exit);
  }
  const auto actions = settle(job, facts, kNow);
  EXPECT_TRUE(sent_to(actions, "algo-1").upload.model);
  facts.instances[0].phase = facts.instances[1].phase = Phase::kFinished;
  settle(job, facts, kNow);
  facts.call = Result<void>();
  settle(job, facts, kNow);
  EXPECT_EQ(job.secondary, Secondary::kStopped);
}

TEST(DecideStop, WinsOverAnUploadThatIsUnderWay) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], exit_with(0));
  settle(job, facts, kNow);
  job.stop_requested = kTestTime;
  settle(job, facts, kNow);
  EXPECT_EQ(job.secondary, Secondary::kStopping);
  EXPECT_EQ(outcome_in(job).status, Secondary::kStopped);
}

TEST(DecideStop, DoesNotHideAFailureThatCameFirst) {
  Job job = running_job(Secondary::kTraining, 1);
  job.stop_requested = kTestTime;
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], exit_with(1));
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).status, Secondary::kFailed);
}

TEST(DecideLimit, StopsWhenMaxRuntimeIsOver) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  const Now before = after(seconds(599));
  facts.instances[0].last_report = facts.instances[1].last_report = before;
  EXPECT_THAT(decided(job, facts, before), IsEmpty());
  const Now now = after(seconds(600));
  facts.instances[0].last_report = facts.instances[1].last_report = now;
  settle(job, facts, now);
  EXPECT_EQ(job.secondary, Secondary::kStopping);
  EXPECT_EQ(outcome_in(job).status, Secondary::kMaxRuntimeExceeded);
}

// --- Uploading and after ---

TEST(DecideUploading, FailsACompletedJobWhoseUploadFails) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], exit_with(0));
  settle(job, facts, kNow);
  facts.instances[0].error = Error{.code = Code::kInvalidArgument, .message = "a link leads out"};
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: algo-1: a link leads out");
  EXPECT_EQ(job.stage, Stage::kUploading);  // its output may still be on the way
  facts.instances[0].phase = Phase::kFinished;
  settle(job, facts, kNow);
  EXPECT_EQ(job.stage, Stage::kReleasing);
}

TEST(DecideUploading, JoinsWhatSeveralHostsSent) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(0);
    exit.has_model = true;
    end(instance, exit);
  }
  settle(job, facts, kNow);
  facts.instances[0].phase = facts.instances[1].phase = Phase::kFinished;
  EXPECT_EQ(decided(job, facts, kNow), (Lines{"Enter Merging", "MergeArtifacts"}));
}

TEST(DecideReleasing, SaysNothingOfTheModelOfAProgramThatNeverStarted) {
  Job job = job_in(Stage::kReleasing);
  job.outcome = Outcome{.status = Secondary::kStopped};
  EXPECT_EQ(decided(job, {.call = Result<void>()}, kNow),
            (Lines{"SetStatus Stopped: Training job stopped; its program had not started, so there "
                   "is no model",
                   "Enter Done"}));
  job.training_start = kTestTime;  // stopped while it was being repaired, with all instances gone
  EXPECT_EQ(decided(job, {.call = Result<void>()}, kNow),
            (Lines{"SetStatus Stopped: Training job stopped; no instance had anything to send, so "
                   "there is no model",
                   "Enter Done"}));
}

TEST(DecideReleasing, IsDoneOnlyWhenTheMachinesAreFree) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], exit_with(0));
  settle(job, facts, kNow);
  facts.instances[0].phase = Phase::kFinished;
  settle(job, facts, after(seconds(3)));
  EXPECT_EQ(job.stage, Stage::kReleasing);
  EXPECT_EQ(job.training_end, kTestTime + seconds(3));
  facts.call = Result<void>();
  EXPECT_EQ(decided(job, facts, kNow),
            (Lines{"SetStatus Completed: Training job completed; /opt/ml/model was empty, so there "
                   "is no model",
                   "Enter Done"}));
}

TEST(DecideReleasing, RemembersWhetherThereIsAModel) {
  Job job = running_job(Secondary::kTraining, 2);
  Facts facts = facts_in(Phase::kTraining, 2);
  for (InstanceFacts& instance : facts.instances) {
    wire::Exit exit = exit_with(0);
    exit.has_model = instance.host == "algo-2";
    end(instance, exit);
  }
  settle(job, facts, kNow);
  for (InstanceFacts& instance : facts.instances) {
    instance.phase = Phase::kFinished;
  }
  settle(job, facts, after(seconds(3)));
  facts.call = Result<void>();
  settle(job, facts, after(seconds(4)));
  ASSERT_EQ(job.stage, Stage::kDone);
  EXPECT_TRUE(job.has_model);
  EXPECT_EQ(job.transitions.back().message, "Training job completed");
}

TEST(DecideReleasing, KeepsTheModelOfAJobThatFailedForWhatItsUploadLeftOut) {
  Job job = running_job(Secondary::kTraining, 2);
  Facts facts = facts_in(Phase::kTraining, 2);
  for (InstanceFacts& instance : facts.instances) {
    end(instance, with_artifacts(exit_with(0)));
  }
  settle(job, facts, kNow);
  facts.instances[0].error =
      Error{.code = Code::kInvalidArgument, .message = "a pipe", .subject = wire::kModelSent};
  facts.instances[0].phase = facts.instances[1].phase = Phase::kFinished;
  settle(job, facts, after(seconds(3)));
  ASSERT_EQ(job.stage, Stage::kMerging);  // the parts are joined all the same
  for (int calls = 0; calls < 2; ++calls) {
    facts.call = Result<void>();
    settle(job, facts, after(seconds(4)));
  }
  ASSERT_EQ(job.stage, Stage::kDone);
  EXPECT_EQ(job.secondary, Secondary::kFailed);
  EXPECT_EQ(outcome_in(job).reason, "ClientError: algo-1: a pipe");
  EXPECT_TRUE(job.has_model);
}

TEST(DecideReleasing, CountsAFailedJobsTimeToItsFailure) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], exit_with(1, seconds(2)));
  settle(job, facts, after(seconds(2)));
  facts.instances[0].phase = Phase::kFinished;
  settle(job, facts, after(seconds(30)));
  EXPECT_EQ(job.training_end, kTestTime + seconds(2));
}

}  // namespace
}  // namespace trainyard::control
