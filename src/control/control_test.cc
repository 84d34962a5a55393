// SPDX-License-Identifier: Apache-2.0
#include "control/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/validate.h"
#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using wire::Phase;

wire::Exit good_exit(bool has_model = false) {
  wire::Exit exit;
  exit.has_model = has_model;
  return exit;
}

TEST(ControlLife, RunsAJobFromCreateToCompleted) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 2));
  Speaker first(harness, "demo", "algo-1");
  Speaker second(harness, "demo", "algo-2");
  train({&first, &second});
  ASSERT_TRUE(first.end(good_exit(/*has_model=*/true)));
  ASSERT_TRUE(second.end(good_exit()));
  EXPECT_EQ(first.next_command()["model"]["s3_uri"], "s3://bucket/out/demo/output/model.tar.gz");
  EXPECT_EQ(second.next_command()["kind"], "release");
  ASSERT_TRUE(first.say(Phase::kFinished));
  ASSERT_TRUE(second.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "Completed"));
  EXPECT_EQ(harness.engine().running("demo"), 0u);

  const json job = harness.describe("demo");
  const auto checked = api::check_output("sagemaker", "DescribeTrainingJob", job);
  EXPECT_TRUE(checked) << checked.error().message;
  std::vector<std::string> statuses;
  for (const json& transition : job["SecondaryStatusTransitions"]) {
    statuses.push_back(transition["Status"].get<std::string>());
    EXPECT_FALSE(transition["StatusMessage"].get<std::string>().empty());
  }
  EXPECT_EQ(statuses, (std::vector<std::string>{"Starting", "Downloading", "Training", "Uploading",
                                                "Completed"}));
}

// Text of any bytes, wherever it comes from, must not keep the database from taking the job.
TEST(ControlLife, StoresJobsWhoseTextIsNoUtf8) {
  const TempDir folder = *TempDir::make();
  const auto database = Database::open(folder.path() / "test.db", schema_migrations());
  ASSERT_TRUE(database) << database.error().message;
  Job job = new_job("demo");
  InstanceFacts facts{.host = "algo-1"};
  facts.message = "caf\xe9";
  EXPECT_TRUE((*database)->write([&](Connection& connection) -> Result<void> {
    YARD_TRY(insert_job(connection, job));
    job.outcome = Outcome{.status = Secondary::kFailed, .reason = "t\xe4st", .at = kTestTime};
    job.transitions.back().message = "it holds t\xe4st.py";
    YARD_TRY(update_job(connection, job));
    return insert_instance(
        connection,
        {.key = {.job = "demo", .epoch = 1, .host = "algo-1"}, .token_hash = {}, .facts = facts});
  }));
}

TEST(ControlLife, HearsEachRequestOfAnInstanceOnce) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 1));
  Speaker speaker(harness, "demo", "algo-1");
  EXPECT_TRUE(harness.control().hear(speaker.caller(), 1));
  const Result<void> again = harness.control().hear(speaker.caller(), 1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().subject, "number");
  EXPECT_EQ(harness.control().hear({.token = "other"}, 1).error().code, Code::kDenied);
  EXPECT_TRUE(harness.control().knows(speaker.caller()));
  EXPECT_EQ(harness.control().knows({.token = "other"}).error().code, Code::kDenied);
}

// Its proof that an instance is over must not depend on what it remembers of it.
TEST(ControlLife, MakesTheTokensOfInstancesAgain) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 1));
  Speaker speaker(harness, "demo", "algo-1");
  const std::string id = speaker.token().substr(0, 32);
  EXPECT_EQ(harness.control().instance_token(id), speaker.token());
  harness.close();
  harness.open();
  EXPECT_EQ(harness.control().instance_token(id), speaker.token());
  EXPECT_NE(Harness().control().instance_token(id), speaker.token());
}

TEST(ControlLife, TellsTheInstanceAllItNeeds) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 2));
  Speaker second(harness, "demo", "algo-2");
  const auto assignment =
      wire::assignment_from_json(*harness.control().assignment(second.caller()));
  ASSERT_TRUE(assignment) << assignment.error().message;
  EXPECT_EQ(assignment->host, "algo-2");
  ASSERT_EQ(assignment->hosts.size(), 2u);
  EXPECT_EQ(assignment->hosts[1].address, "10.77.1.12");
  EXPECT_EQ(assignment->log_stream, "demo/algo-2-1796000000");
  EXPECT_THAT(assignment->python_environment, HasSubstr("/env"));
  EXPECT_GE(assignment->num_cpus, 1);
}

// A job's instances know each other by it, and a restarted server still tells the same.
TEST(ControlLife, GivesTheInstancesOfAJobASecretOfTheirOwn) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 2));
  ASSERT_TRUE(harness.create("other"));
  Speaker first(harness, "demo", "algo-1");
  Speaker second(harness, "demo", "algo-2");
  Speaker other(harness, "other", "algo-1");
  const auto secret_of = [&](const Speaker& speaker) {
    const auto told = harness.control().assignment(speaker.caller());
    return told ? told->value("gang_secret", "") : "";
  };
  const std::string secret = secret_of(first);
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(secret_of(second), secret);
  EXPECT_NE(secret_of(other), secret);
  harness.close();
  harness.open();
  EXPECT_EQ(secret_of(second), secret);
}

TEST(ControlLife, FailsWithTheCulpritNamedAndThePeerStopped) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo", 2));
  Speaker first(harness, "demo", "algo-1");
  Speaker second(harness, "demo", "algo-2");
  train({&first, &second});
  wire::Exit exit;
  exit.code = 3;
  exit.global_rank = 1;
  exit.last_lines = {"RuntimeError: boom"};
  ASSERT_TRUE(second.end(exit));
  EXPECT_EQ(first.next_command()["kind"], "abort");
  ASSERT_TRUE(first.end(stopped_exit()));
  EXPECT_EQ(first.next_command()["kind"], "release");
  ASSERT_TRUE(first.say(Phase::kFinished));
  ASSERT_TRUE(second.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "Failed"));
  EXPECT_EQ(harness.describe("demo")["FailureReason"],
            "AlgorithmError: rank 1 on algo-2 exited with code 3 (algo-1 stopped because of it); "
            "last lines: RuntimeError: boom, exit code: 3");
}

TEST(ControlLife, StopsARunningJob) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  train({&only});
  ASSERT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  EXPECT_EQ(harness.describe("demo")["TrainingJobStatus"], "Stopping");
  EXPECT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  EXPECT_EQ(only.next_command()["kind"], "stop");
  ASSERT_TRUE(only.end(stopped_exit()));
  EXPECT_EQ(only.next_command()["kind"], "release");
  ASSERT_TRUE(only.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "Stopped"));
  EXPECT_EQ(harness.call("StopTrainingJob", {{"TrainingJobName", "demo"}}).error().code,
            Code::kConflict);
}

class ControlSignal : public ::testing::Test {
 protected:
  Result<nlohmann::json> signal(const std::string& job, const std::string& name) {
    return harness_.control().call("trainyard", "SignalTrainingJob",
                                   {{"TrainingJobName", job}, {"Signal", name}}, {});
  }
  Harness harness_;
};

TEST_F(ControlSignal, TellsEveryInstanceOnceAlsoAfterARestart) {
  ASSERT_TRUE(harness_.create("demo", 2));
  Speaker first(harness_, "demo", "algo-1");
  Speaker second(harness_, "demo", "algo-2");
  train({&first, &second});
  const auto told = signal("demo", "USR2");
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(*told, (nlohmann::json{{"Hosts", {"algo-1", "algo-2"}}}));
  EXPECT_EQ(first.next_command()["signal"], "USR2");
  harness_.close();
  harness_.open();
  EXPECT_EQ(second.next_command()["signal"], "USR2");
  ASSERT_TRUE(signal("demo", "USR1"));
  for (Speaker* speaker : {&first, &second}) {
    EXPECT_EQ(speaker->next_command()["signal"], "USR1");
  }
}

TEST_F(ControlSignal, IsRefusedWhileTooManyWait) {
  ASSERT_TRUE(harness_.create("demo", 2));
  Speaker slow(harness_, "demo", "algo-1");
  Speaker quick(harness_, "demo", "algo-2");
  slow.begin_epoch(1);
  quick.begin_epoch(1);
  train({&slow, &quick});
  int told = 0;
  while (told < 200 && signal("demo", "USR1")) {
    ++told;
    ASSERT_EQ(quick.next_command()["signal"], "USR1");
  }
  EXPECT_EQ(told, 127) << "after the command to go, which counts until it asks for the next";
  EXPECT_EQ(signal("demo", "USR1").error().code, Code::kExhausted);
  ASSERT_EQ(slow.next_command()["signal"], "USR1");
  EXPECT_TRUE(signal("demo", "USR1")) << "there is room again";
  EXPECT_EQ(quick.next_command()["signal"], "USR1");
  harness_.close();
  harness_.open();
  ASSERT_EQ(slow.next_command()["signal"], "USR1");
  ASSERT_TRUE(signal("demo", "USR2"));
  EXPECT_EQ(quick.next_command()["signal"], "USR2") << "numbers go on";
}

TEST_F(ControlSignal, IsRefusedForAJobThatIsNotThereOrDoesNotRunAndForEveryOtherSignal) {
  EXPECT_EQ(signal("ghost", "USR1").error().message, "There is no training job 'ghost'.");
  ASSERT_TRUE(harness_.create("demo"));
  Speaker only(harness_, "demo", "algo-1");
  EXPECT_EQ(signal("demo", "USR1").error().code, Code::kConflict);
  train({&only});
  const auto kill = signal("demo", "KILL");
  EXPECT_EQ(kill.error().code, Code::kInvalidArgument);
  EXPECT_THAT(kill.error().message, HasSubstr("enum value set: [USR1, USR2]"));
  ASSERT_TRUE(harness_.call("StopTrainingJob", {{"TrainingJobName", "demo"}}));
  EXPECT_EQ(only.next_command()["kind"], "stop") << "nothing else was sent";
  ASSERT_TRUE(only.end(stopped_exit()));
  ASSERT_TRUE(only.say(Phase::kFinished));
  ASSERT_TRUE(harness_.reaches("demo", "Stopped"));
  EXPECT_EQ(signal("demo", "USR1").error().message,
            "USR1 cannot be sent to the training job 'demo': it is Stopped.");
}

TEST(ControlLife, EndsAJobWhoseSupervisorsKeepDying) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  train({&only});
  EXPECT_TRUE(harness.fails_by_losses("demo"));
  EXPECT_EQ(harness.describe("demo")["FailureReason"],
            "InternalServerError: instance algo-1 was lost (its supervisor ended before its first "
            "report); attempt 3 of 3");
  EXPECT_EQ(harness.engine().running("demo"), 0u);
}

TEST(ControlLife, StopsAtMaxRuntime) {
  Harness harness;
  json request = job_request(1);
  request["StoppingCondition"]["MaxRuntimeInSeconds"] = 2;
  ASSERT_TRUE(harness.create("demo", 1, request));
  Speaker only(harness, "demo", "algo-1");
  train({&only});
  harness.clock().advance(std::chrono::seconds(3));  // less than a silence
  EXPECT_TRUE(harness.reaches("demo", "Stopping"));
  ASSERT_TRUE(only.end(stopped_exit()));
  ASSERT_TRUE(only.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "MaxRuntimeExceeded"));
  EXPECT_EQ(harness.describe("demo")["TrainingJobStatus"], "Stopped");
}

TEST(ControlLife, StartsTheNextJobWhenMachinesAreFree) {
  Harness harness(2);
  ASSERT_TRUE(harness.create("first", 2));
  Speaker one(harness, "first", "algo-1");
  ASSERT_TRUE(harness.create("second", 2));
  EXPECT_TRUE(eventually([&] {
    return harness.message("second") == "Waiting for capacity: 0 of 2 needed instances free";
  }));
  ASSERT_TRUE(harness.fails_by_losses("first", 2));
  Speaker two(harness, "second", "algo-1");
  EXPECT_EQ(harness.engine().running("first"), 0u);
}

TEST(ControlLife, StopsAWaitingJobAtOnce) {
  Harness harness(1);
  ASSERT_TRUE(harness.create("first"));
  Speaker one(harness, "first", "algo-1");
  ASSERT_TRUE(harness.create("second"));
  ASSERT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "second"}}));
  EXPECT_EQ(harness.secondary("second"), "Stopped");
  EXPECT_EQ(harness.engine().prepared(), 1);
}

TEST(ControlLife, TellsThoseWhoWaitWhenTheOneAheadIsGone) {
  Harness harness(2);
  ASSERT_TRUE(harness.create("first", 2));
  const Speaker one(harness, "first", "algo-1");
  ASSERT_TRUE(harness.create("second", 2) && harness.create("third", 2));
  const auto third_is_told = [&](const std::string& text) {
    return eventually([&] { return harness.message("third") == text; });
  };
  const std::string none = "Waiting for capacity: 0 of 2 needed instances free";
  EXPECT_TRUE(third_is_told(none + "; job second is ahead"));
  ASSERT_TRUE(harness.call("StopTrainingJob", {{"TrainingJobName", "second"}}));
  EXPECT_EQ(harness.message("third"), none);  // in the same turn
}

TEST(ControlLife, GivesEverythingBackWhenTheGangCannotStart) {
  Harness harness;
  harness.engine().fail_starts_with({.code = Code::kExhausted, .message = "no node for algo-1"});
  ASSERT_TRUE(harness.create("demo"));
  EXPECT_TRUE(harness.reaches("demo", "Failed"));
  EXPECT_EQ(harness.describe("demo")["FailureReason"], "CapacityError: no node for algo-1");
  EXPECT_TRUE(harness.engine().was_released({.job = "demo", .epoch = 1}));
}

TEST(ControlLife, RefusesAMissingSourceArchiveBeforeAnythingStarts) {
  Harness harness;
  json request = job_request(1);
  request["HyperParameters"] = {{"sagemaker_submit_directory", "\"s3://bucket/no.tar.gz\""},
                                {"sagemaker_program", "\"train.py\""}};
  ASSERT_TRUE(harness.create("demo", 1, request));
  EXPECT_TRUE(harness.reaches("demo", "Failed"));
  EXPECT_EQ(harness.describe("demo")["FailureReason"],
            "ClientError: the source archive s3://bucket/no.tar.gz (sagemaker_submit_directory) "
            "does not exist");
  EXPECT_EQ(harness.engine().prepared(), 0);
}

// A stuck network, or thousands of archives to look at, must not hold up one another.
TEST(ControlLife, LooksAtSourcesWhileTheEngineIsBusy) {
  constexpr int kStuck = 9;  // more than there are threads for the engine
  Harness harness(kStuck);
  std::promise<void> go_on;
  harness.engine().on_release([released = go_on.get_future().share()] { released.wait(); });
  harness.engine().fail_starts_with({.code = Code::kExhausted, .message = "no node"});
  for (int i = 0; i < kStuck; ++i) {
    ASSERT_TRUE(harness.create("stuck-" + std::to_string(i)));
  }
  json request = job_request(1);
  request["HyperParameters"] = {{"sagemaker_submit_directory", "\"s3://bucket/no.tar.gz\""},
                                {"sagemaker_program", "\"train.py\""}};
  ASSERT_TRUE(harness.create("demo", 1, request));
  EXPECT_TRUE(harness.reaches("demo", "Failed"));
  EXPECT_EQ(harness.describe("stuck-8")["TrainingJobStatus"], "InProgress");
  go_on.set_value();
  EXPECT_TRUE(harness.reaches("stuck-8", "Failed"));
}

TEST(ControlLife, ReleasesAgainWhatCouldNotBeReleased) {
  Harness harness;
  harness.engine().fail_releases(4);
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  train({&only});
  ASSERT_TRUE(only.end(good_exit()));
  EXPECT_EQ(only.next_command()["kind"], "release");
  ASSERT_TRUE(only.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "Completed"));
  EXPECT_EQ(harness.engine().running("demo"), 1u);
  EXPECT_TRUE(eventually([&] {
    harness.clock().advance(std::chrono::seconds(61));
    return harness.engine().running("demo") == 0;
  }));
}

// --- Restart ---

TEST(ControlRestart, GoesOnWithRunningJobs) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  train({&only});
  EXPECT_TRUE(harness.reaches("demo", "Training"));
  harness.close();
  harness.open();
  EXPECT_EQ(harness.secondary("demo"), "Training");
  ASSERT_TRUE(only.end(good_exit()));
  EXPECT_EQ(only.next_command()["kind"], "release");
  ASSERT_TRUE(only.say(Phase::kFinished));
  EXPECT_TRUE(harness.reaches("demo", "Completed"));
  EXPECT_EQ(harness.engine().prepared(), 1);
}

TEST(ControlRestart, KeepsWaitingJobsWaiting) {
  Harness harness(1);
  ASSERT_TRUE(harness.create("first"));
  Speaker one(harness, "first", "algo-1");
  ASSERT_TRUE(harness.create("second"));
  harness.close();
  harness.open();
  EXPECT_TRUE(eventually([&] {
    return harness.message("second") == "Waiting for capacity: 0 of 1 needed instances free";
  }));
  EXPECT_EQ(harness.engine().running("first"), 1u);
}

TEST(ControlRestart, EndsGangsThatBelongToNoJob) {
  Harness harness;
  harness.close();
  const GangId ghost{.job = "ghost", .epoch = 3};
  ASSERT_TRUE(harness.engine().prepare({.id = ghost}));
  ASSERT_TRUE(harness.engine().start(ghost, {{"algo-1", "token"}}));
  harness.open();
  EXPECT_TRUE(eventually([&] { return harness.engine().running("ghost") == 0; }));
}

TEST(ControlRestart, DropsWhatItHasHeardBefore) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  EXPECT_EQ((*only.say(Phase::kDownloading))["acknowledged"], 1);
  harness.close();
  harness.open();
  const json again = json::array({wire::to_json(wire::Report{.seq = 1, .phase = Phase::kReady})});
  EXPECT_EQ((*harness.control().reports(only.caller(), again))["acknowledged"], 1);
}

// --- The instance protocol ---

TEST(InstanceProtocol, AcknowledgesTheHighestWithoutAGap) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  const auto report = [](std::int64_t seq) {
    return wire::to_json(wire::Report{.seq = seq, .lines = {{.at = kTestTime, .text = "line"}}});
  };
  const json gap = json::array({report(1), report(2), report(4)});
  EXPECT_EQ((*harness.control().reports(only.caller(), gap))["acknowledged"], 2);
  const json rest = json::array({report(2), report(3), report(4)});
  EXPECT_EQ((*harness.control().reports(only.caller(), rest))["acknowledged"], 4);
  const auto events = harness.control().call("logs", "GetLogEvents",
                                             {{"logGroupName", "/aws/sagemaker/TrainingJobs"},
                                              {"logStreamName", "demo/algo-1-1796000000"},
                                              {"startFromHead", true}},
                                             {});
  ASSERT_TRUE(events) << events.error().message;
  EXPECT_EQ((*events)["events"].size(), 4u);
}

TEST(InstanceProtocol, RefusesUnknownAndOldTokens) {
  Harness harness;
  EXPECT_EQ(harness.control().assignment({"guess"}).error().code, Code::kDenied);
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  ASSERT_TRUE(harness.fails_by_losses("demo"));
  EXPECT_EQ(only.say(Phase::kTraining).error().code, Code::kDenied);
  EXPECT_EQ(harness.control().credentials(only.caller()).error().code, Code::kDenied);
}

TEST(InstanceProtocol, RevokesTheRolesKeysAtTheEnd) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  const auto keys = wire::credentials_from_json(*harness.control().credentials(only.caller()));
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->role_arn, "arn:aws:iam::123456789012:role/Demo");
  EXPECT_EQ(harness.control().find_key(keys->access_key_id).value_or(AccessKey()).arn,
            "arn:aws:sts::123456789012:assumed-role/Demo/SageMaker");
  ASSERT_TRUE(harness.fails_by_losses("demo"));
  EXPECT_FALSE(harness.control().find_key(keys->access_key_id));
}

TEST(InstanceProtocol, AnswersAPollWithNothingWhenItsTimeIsOver) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  std::promise<json> answered;
  harness.control().commands(only.caller(), 0, std::chrono::seconds(20),
                             [&](Result<json> list) { answered.set_value(std::move(*list)); });
  harness.clock().advance(std::chrono::seconds(21));
  EXPECT_EQ(answered.get_future().get(), json::array());
}

TEST(InstanceProtocol, AnswersPollsWhenTheServerStops) {
  Harness harness;
  ASSERT_TRUE(harness.create("demo"));
  Speaker only(harness, "demo", "algo-1");
  std::promise<Code> answered;
  harness.control().commands(only.caller(), 0, std::chrono::seconds(20),
                             [&](Result<json> list) { answered.set_value(list.error().code); });
  harness.close();
  EXPECT_EQ(answered.get_future().get(), Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::control
