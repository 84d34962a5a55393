// SPDX-License-Identifier: Apache-2.0
// Whole instances, from their assignment to their end.
#include "instance/session.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "instance/testing/session_fixture.h"
#include "instance/testing/sleepers.h"
#include "wire/upload_error.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using wire::Phase;
using Kind = wire::Command::Kind;

const char* const kShowEverything = R"(
import json, os, socket, sys, urllib.request
base = os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
keys = json.load(urllib.request.urlopen("http://169.254.170.2" + base, timeout=5))
seen = {"argv": sys.argv[1:], "hps": json.loads(os.environ["SM_HPS"]),
        "text": os.environ["SM_HP_TEXT"], "key": keys["AccessKeyId"], "host": socket.gethostname(),
        "peer": socket.gethostbyname("algo-2"), "self": socket.gethostbyname("algo-1"),
        "data": open("/opt/ml/input/data/training/part/a").read(),
        "homes": os.listdir("/root"), "cwd": os.getcwd()}
open("/opt/ml/model/seen.json", "w").write(json.dumps(seen))
print("done", flush=True)
)";

TEST_F(SessionTest, RunsAScriptFromItsSourceToItsModel) {
  source({{"train.py", kShowEverything}});
  const std::string hostile = "a'b\"c\n$(id) `id` \\ * %s 日本語";
  request_["HyperParameters"]["sagemaker_program"] = "\"train.py\"";
  request_["HyperParameters"]["text"] = hostile;
  request_["HyperParameters"]["list"] = "[1, 2]";
  request_["InputDataConfig"] = {
      {{"ChannelName", "training"},
       {"DataSource",
        {{"S3DataSource", {{"S3DataType", "S3Prefix"}, {"S3Uri", "s3://bucket/data"}}}}}}};
  upload_note_ = "a word of the server";
  make_server();
  server_->put("data/part/a", "bytes of a");
  run();
  EXPECT_THAT(server_->phases(),
              ElementsAre(Phase::kStarting, Phase::kDownloading, Phase::kReady, Phase::kTraining,
                          Phase::kEnded, Phase::kUploading, Phase::kFinished));
  EXPECT_EQ(exit().code, 0);
  EXPECT_TRUE(exit().has_model);
  EXPECT_THAT(exit().model_files, Contains("seen.json"));
  EXPECT_THAT(server_->lines(), Contains("a word of the server"));
  const json seen = json::parse(model_file("seen.json"), nullptr, false);
  ASSERT_TRUE(seen.is_object()) << testing::PrintToString(server_->lines());
  EXPECT_EQ(seen["argv"], (json{"--list", "[1, 2]", "--text", hostile}));
  EXPECT_EQ(seen["hps"], (json{{"list", {1, 2}}, {"text", hostile}}));
  EXPECT_EQ(seen["text"], hostile);
  EXPECT_EQ(seen["key"], "ASIAX");
  EXPECT_EQ(seen["host"], "algo-1");
  EXPECT_EQ(seen["peer"], "10.77.0.2");
  EXPECT_EQ(seen["self"], "10.77.0.1");
  EXPECT_EQ(seen["data"], "bytes of a");
  EXPECT_EQ(seen["cwd"], "/opt/ml/code");
  const auto took = server_->time_of_line("done") - server_->assigned_at();
  std::printf("assignment to the script's last line: %lld ms\n",
              static_cast<long long>(took.count()));
}

TEST_F(SessionTest, NamesTheRankThatFailed) {
  source(
      {{"train.sh", "echo rank $RANK of $WORLD_SIZE; [ $RANK = 1 ] && exit 3; exec sleep 1000"}});
  request_["HyperParameters"]["sagemaker_torch_distributed_enabled"] = "true";
  request_["HyperParameters"]["sagemaker_nproc_per_node"] = "2";
  run();
  EXPECT_EQ(exit().code, 3);
  EXPECT_EQ(exit().global_rank, 1);
  EXPECT_FALSE(exit().stopped);
  EXPECT_THAT(exit().last_lines, Contains("[rank 1] rank 1 of 4"));
}

TEST_F(SessionTest, PassesTheFailureFileOn) {
  source({{"train.sh", "echo bad data > /opt/ml/output/failure; exit 9"}});
  run();
  EXPECT_EQ(exit().code, 9);
  EXPECT_EQ(exit().failure_file, "bad data\n");
}

TEST_F(SessionTest, NotesAFailureFileThatSaysNothing) {
  source({{"train.sh", "mkdir /opt/ml/output/failure; exit 9"}});
  run();
  EXPECT_EQ(exit().failure_file, "");
  EXPECT_THAT(server_->lines(), Contains(HasSubstr("/opt/ml/output/failure says nothing: it is a "
                                                   "directory, not a file")));
}

TEST_F(SessionTest, UploadsTheModelWithoutAStrayPipeAndThenFails) {
  source({{"train.sh", "mkfifo /opt/ml/model/pipe; echo weights > /opt/ml/model/w"}});
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_EQ(error().subject, wire::kModelSent);
  EXPECT_THAT(error().message,
              HasSubstr("the rest is in the archive. Left out: \"pipe\" is a pipe"));
  EXPECT_TRUE(server_->has_phase(Phase::kFinished));
  EXPECT_EQ(model_file("w"), "weights\n");
}

TEST_F(SessionTest, RefusesAMissingEntryPointBeforeAnythingRuns) {
  source({{"other.py", ""}});
  run();
  EXPECT_EQ(error().code, Code::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("'train.sh'"));
  EXPECT_THAT(error().message, HasSubstr("other.py"));
  EXPECT_FALSE(server_->has_phase(Phase::kReady));
}

TEST_F(SessionTest, NamesAChannelWithoutObjects) {
  source({{"train.sh", ""}});
  request_["InputDataConfig"] = {
      {{"ChannelName", "training"},
       {"DataSource", {{"S3DataSource", {{"S3Uri", "s3://bucket/none"}}}}}}};
  run();
  EXPECT_EQ(error().code, Code::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("training"));
  EXPECT_THAT(error().message, HasSubstr("s3://bucket/none"));
}

TEST_F(SessionTest, StopsWithTimeToSaveAndUploadsWhatIsThere) {
  source({{"train.sh",
           "trap 'echo saved > /opt/ml/model/last; exit 0' TERM; echo up; "
           "while :; do sleep 0.05; done"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->send({.kind = Kind::kStop});
  wait_for_end();
  EXPECT_TRUE(exit().stopped);
  EXPECT_EQ(exit().code, 0);
  EXPECT_EQ(model_file("last"), "saved\n");
}

TEST_F(SessionTest, KeepsTheCheckpointThatWasBeingWrittenWhenTheProgramEnded) {
  source({{"train.sh",
           "cd /opt/ml/checkpoints\n"
           "(exec > last.pt; while :; do echo torn; sleep 0.05; done) &\n"
           "until grep -q torn last.pt; do sleep 0.05; done\n"
           "echo new > saved.pt\n"}});
  request_["CheckpointConfig"] = {{"S3Uri", "s3://bucket/ckpt"}};
  make_server();
  server_->put("ckpt/last.pt", "whole");
  server_->put("ckpt/saved.pt", "old");
  run();
  EXPECT_EQ(exit().code, 0);
  EXPECT_EQ(server_->get("ckpt/last.pt"), "whole");
  EXPECT_EQ(server_->get("ckpt/saved.pt"), "new\n");
  EXPECT_THAT(server_->lines(), Contains(HasSubstr("/last.pt is not mirrored to S3: its writer was "
                                                   "killed")));
}

TEST_F(SessionTest, KeepsEveryLineWhileTheServerIsAway) {
  source({{"train.sh",
           "echo up; sleep 0.3; i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->be_away(true);
  ASSERT_TRUE(server_->wait_until([&] { return server_->refused() >= 3; }));
  server_->be_away(false);
  wait_for_end();
  const std::vector<std::string> lines = server_->lines();
  ASSERT_EQ(lines.size(), 2001u);
  EXPECT_EQ(lines[1], "0");
  EXPECT_EQ(lines[2000], "1999");
}

TEST_F(SessionTest, LeavesWhenItsAttemptIsOver) {
  source({{"train.sh", "echo up; exec sleep 86396.25"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->deny(true);
  wait_for_end(1);
  EXPECT_FALSE(sleeps_somewhere("86396.25"));
}

// A script that shows what it finds, leaves traces everywhere, and waits in its first attempt.
const char* const kLeaveTraces = R"(
ls -A /opt/ml/model /opt/ml/output/data /opt/ml/checkpoints /tmp /dev/shm /opt/ml/code
cat /opt/ml/input/data/training/part/a
for place in /opt/ml/model /opt/ml/output/data /opt/ml/checkpoints /tmp /dev/shm /opt/ml/code; do
  echo left by a former attempt > $place/trace
done
setsid sh -c 'sleep 86394.25 & sleep 86394.25' &
if [ -e /opt/ml/input/data/training/again ]; then echo again; exit 0; fi
touch /opt/ml/input/data/training/again
echo up; exec sleep 1000
)";

TEST_F(SessionTest, GoesRoundForANewAttemptAndKeepsOnlyTheChannels) {
  source({{"train.sh", kLeaveTraces}});
  request_["InputDataConfig"] = {
      {{"ChannelName", "training"},
       {"DataSource", {{"S3DataSource", {{"S3Uri", "s3://bucket/data"}}}}}}};
  make_server();
  server_->put("data/part/a", "bytes of a\n");
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->begin_attempt(2);
  ASSERT_TRUE(server_->wait_until([&] { return server_->has_phase(Phase::kTraining); }));
  EXPECT_EQ(server_->restarts(), 1) << "once is enough";
  wait_for_end();
  EXPECT_EQ(exit().code, 0);
  EXPECT_THAT(server_->phases(),
              ElementsAre(Phase::kStarting, Phase::kDownloading, Phase::kReady, Phase::kTraining,
                          Phase::kEnded, Phase::kUploading, Phase::kFinished));
  EXPECT_THAT(server_->lines(), Contains("again"));
  EXPECT_THAT(server_->lines(), Contains("bytes of a"));
  EXPECT_THAT(server_->lines(), Not(Contains("trace")));
  EXPECT_EQ(model_file("trace"), "left by a former attempt\n") << "of this attempt";
  EXPECT_THAT(server_->fetched(),
              ElementsAre("data/part/a", "sourcedir.tar.gz", "sourcedir.tar.gz"));
  EXPECT_FALSE(sleeps_somewhere("86394.25"));
}

TEST_F(SessionTest, FollowsNoLinkThatAnAttemptHasLeftInPlaceOfItsData) {
  source({{"train.sh",
           "cat /opt/ml/input/data/training/a; mv /opt/ml/input/data /opt/ml/input/gone; "
           "ln -s /etc /opt/ml/input/data; rm -rf /opt/ml/output; ln -s /etc /opt/ml/output; "
           "echo up; exec sleep 1000"}});
  request_["InputDataConfig"] = {
      {{"ChannelName", "training"},
       {"DataSource", {{"S3DataSource", {{"S3Uri", "s3://bucket/data"}}}}}}};
  make_server();
  server_->put("data/a", "bytes of a\n");
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->begin_attempt(2);
  ASSERT_TRUE(wait_for_line("up"));
  EXPECT_THAT(server_->lines(), Contains("bytes of a"));
  EXPECT_FALSE(std::filesystem::exists("/etc/training"));
  EXPECT_FALSE(std::filesystem::exists("/etc/training-manifest"));
}

TEST_F(SessionTest, GoesRoundFromTheBarrierAndFromItsEnd) {
  source({{"train.sh", "echo ran"}});
  make_server();
  server_->on_report([](const wire::Report&) {});
  launch();
  const auto reached = [&](Phase phase) {
    return server_->wait_until([&] { return server_->has_phase(phase); });
  };
  ASSERT_TRUE(reached(Phase::kReady));
  server_->begin_attempt(2);
  ASSERT_TRUE(reached(Phase::kReady));
  server_->send({.kind = Kind::kGo});
  ASSERT_TRUE(reached(Phase::kEnded));
  server_->begin_attempt(3);
  ASSERT_TRUE(reached(Phase::kReady));
  server_->send({.kind = Kind::kRelease});
  wait_for_end();
  EXPECT_EQ(server_->restarts(), 2);
}

TEST_F(SessionTest, SaysNothingMoreOfTheAttemptBefore) {
  source({{"train.sh",
           "if mkdir /opt/ml/input/data/second; then echo up; while :; do echo old; sleep 0.01; "
           "done; fi"}});
  make_server();
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->be_away(true);
  ASSERT_TRUE(server_->wait_until([&] { return server_->refused() >= 3; }));
  server_->begin_attempt(2);
  server_->be_away(false);
  ASSERT_TRUE(wait_for_line("up"));
  EXPECT_LE(server_->dropped(), 10) << "at most what was sent before it heard";
  EXPECT_EQ(server_->lines().front(), "up");
}

TEST_F(SessionTest, PassesUserSignalsOnToWhatExpectsThem) {
  source({{"train.sh",
           "sh -c 'trap \"echo one\" USR1; trap \"echo two\" USR2; echo up; "
           "while :; do sleep 0.05; done' & exec sleep 1000"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  ASSERT_TRUE(instance_->signal(SIGUSR1));
  ASSERT_TRUE(wait_for_line("one"));
  server_->send({.kind = Kind::kSignal, .signal = wire::UserSignal::kUsr2});
  ASSERT_TRUE(wait_for_line("two"));
  EXPECT_FALSE(server_->has_phase(Phase::kEnded)) << "a sleep without a handler lives on";
}

TEST_F(SessionTest, TakesTheJobAlongWhenItIsKilled) {
  source({{"train.sh", "echo up; exec sleep 86395.25"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  ASSERT_TRUE(instance_->signal(SIGKILL));
  ASSERT_TRUE(instance_->wait());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (sleeps_somewhere("86395.25") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(sleeps_somewhere("86395.25"));
}

TEST_F(SessionTest, StopsTheJobAndLeavesOnSigterm) {
  source({{"train.sh", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"}});
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  ASSERT_TRUE(instance_->signal(SIGTERM));
  wait_for_end(1);
  EXPECT_THAT(server_->lines(), Contains("bye"));
  EXPECT_TRUE(exit().stopped && exit().is_leaving && !exit().is_overdue);
  EXPECT_FALSE(server_->has_phase(Phase::kFinished)) << "it was not told to, and has sent nothing";
}

TEST_F(SessionTest, InstallsRequirementsIntoALayerOfItsOwn) {
  source({{"train.sh", "cat \"$(dirname \"$(command -v python)\")/../installed\""},
          {"requirements.txt", "something\n"}});
  const Path uv = environment() / "bin/uv";
  ASSERT_TRUE(write_file(
      uv, "#!/bin/sh\necho \"uv $*\"; cat requirements.txt > \"$(dirname \"$0\")/../installed\"\n",
      0755));
  run();
  EXPECT_EQ(exit().code, 0);
  EXPECT_THAT(server_->lines(), Contains("something"));
  EXPECT_THAT(server_->lines(), Contains(HasSubstr("uv pip install --python")));
  EXPECT_FALSE(std::filesystem::exists(environment() / "installed"));
}

TEST_F(SessionTest, MakesTheLayerAnewForANewAttempt) {
  source({{"train.sh",
           "cd \"$(dirname \"$(command -v python)\")\"; [ -e broken ] && echo broken; "
           "touch broken; cat ../installed; echo up; exec sleep 1000"},
          {"requirements.txt", "something\n"}});
  ASSERT_TRUE(write_file(environment() / "bin/uv",
                         "#!/bin/sh\ncat requirements.txt > \"$(dirname \"$0\")/../installed\"\n",
                         0755));
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->begin_attempt(2);
  ASSERT_TRUE(wait_for_line("up"));
  EXPECT_THAT(server_->lines(), Contains("something"));
  EXPECT_THAT(server_->lines(), Not(Contains("broken")));
}

TEST_F(SessionTest, QuotesTheInstallerWhenRequirementsFail) {
  source({{"train.sh", ""}, {"requirements.txt", "x\n"}});
  ASSERT_TRUE(
      write_file(environment() / "bin/uv", "#!/bin/sh\necho no such package; exit 2\n", 0755));
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_THAT(error().message, HasSubstr("requirements.txt (exit code 2): no such package"));
}

TEST_F(SessionTest, TellsUvWhereTheEnvironmentsPipWouldHaveLooked) {
  source({{"train.sh", ""}, {"requirements.txt", "x\n"}});
  ASSERT_TRUE(write_file(environment() / "pip.conf", "[global]\nindex-url = http://index.test\n"));
  ASSERT_TRUE(
      write_file(environment() / "bin/uv", "#!/bin/sh\necho \"from $UV_DEFAULT_INDEX\"\n", 0755));
  run();
  EXPECT_THAT(server_->lines(), Contains("from http://index.test"));
}

TEST_F(SessionTest, TriesNoInstallerThatWouldNotHearWhatToInstall) {
  source({{"train.sh", ""}, {"requirements.txt", "x\n"}});
  ASSERT_TRUE(write_file(environment() / "bin/uv", "#!/bin/sh\necho ran\n", 0755));
  request_["Environment"]["PIP_CONFIG_FILE"] = "/opt/ml/code/pip.conf";
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_THAT(error().message, HasSubstr("PIP_CONFIG_FILE"));
  EXPECT_THAT(server_->lines(), Not(Contains("ran")));
}

TEST_F(SessionTest, SaysWhatToDoWithoutAnInstaller) {
  source({{"train.sh", ""}, {"requirements.txt", "x\n"}});
  ASSERT_TRUE(write_file(environment() / "pyvenv.cfg", "include-system-site-packages = no\n"));
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_THAT(error().message, HasSubstr("add one to it (python -m ensurepip)"));
}

TEST_F(SessionTest, LetsAnyProgramChangeItsPythonEnvironment) {
  request_.erase("HyperParameters");
  request_["AlgorithmSpecification"]["ContainerEntrypoint"] = {
      "/bin/sh", "-c", "cd \"$0\" && rm -r lib && mkdir lib && ls -A lib && echo changed",
      environment().string()};
  ASSERT_TRUE(make_directories(environment() / "lib/old"));
  run();
  EXPECT_THAT(server_->lines(), ElementsAre("changed"));
  EXPECT_TRUE(std::filesystem::exists(environment() / "lib/old"));
}

TEST_F(SessionTest, RunsInAReadOnlyEnvironmentWhereNoLayerCanBeMade) {
  ASSERT_TRUE(write_file(scratch() / "python-layer", "in the way"));
  source({{"train.sh", "touch \"$(dirname \"$(command -v python)\")\"/new || echo read-only"}});
  run();
  EXPECT_THAT(server_->lines(), Contains("read-only"));
}

// Of a machine that cannot do it no attempt will install anything.
TEST_F(SessionTest, FailsForGoodWhereItMustInstallAndNoLayerCanBeMade) {
  ASSERT_TRUE(write_file(scratch() / "python-layer", "in the way"));
  ASSERT_TRUE(write_file(environment() / "bin/uv", "#!/bin/sh\necho ran\n", 0755));
  source({{"train.sh", ""}, {"requirements.txt", "something\n"}});
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_THAT(error().message, HasSubstr("requirements.txt: the Python environment is read-only"));
  EXPECT_THAT(server_->lines(), Not(Contains("ran")));
}

TEST_F(SessionTest, SendsItsModelToAStoreThatWasFullForAMoment) {
  source({{"train.sh", "echo weights > /opt/ml/model/w"}});
  make_server();
  server_->refuse_puts(1, 507, "InsufficientStorage");
  run();
  EXPECT_EQ(model_file("w"), "weights\n");
  EXPECT_THAT(server_->lines(), Contains(HasSubstr("The store is full: the results wait")));
  EXPECT_TRUE(server_->has_phase(Phase::kFinished));
  for (const wire::Report& report : server_->reports()) {
    EXPECT_FALSE(report.error) << report.error.value_or(Error()).message;
  }
}

constexpr int kForEver = 1'000'000;

TEST_F(SessionTest, BreaksOffTheWaitForAFullStoreForAnotherAttempt) {
  source({{"train.sh", "echo weights > /opt/ml/model/w"}});
  make_server();
  server_->refuse_puts(kForEver, 507, "InsufficientStorage");
  launch();
  const auto is_waiting = [&] {
    const std::vector<std::string> lines = server_->lines();
    return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("The store is full");
    });
  };
  ASSERT_TRUE(server_->wait_until(is_waiting));
  server_->begin_attempt(2);
  ASSERT_TRUE(server_->wait_until(is_waiting)) << "again, of the second attempt";
  server_->refuse_puts(0, 0, "");
  wait_for_end();
  EXPECT_EQ(model_file("w"), "weights\n");
  EXPECT_EQ(server_->restarts(), 1);
}

TEST_F(SessionTest, LeavesAFullStoreOnSigtermAndBlamesNobody) {
  source({{"train.sh", "echo weights > /opt/ml/model/w"}});
  make_server();
  server_->refuse_puts(kForEver, 507, "InsufficientStorage");
  launch();
  ASSERT_TRUE(server_->wait_until([&] {
    const auto& reports = server_->reports();
    return std::any_of(reports.begin(), reports.end(), [](const wire::Report& report) {
      return report.message.starts_with("The store is full");
    });
  }));
  ASSERT_TRUE(instance_->signal(SIGTERM));
  wait_for_end(1);
  EXPECT_EQ(error().code, Code::kCancelled) << "the platform's fault: another attempt follows";
  EXPECT_FALSE(server_->has_phase(Phase::kFinished));
}

TEST_F(SessionTest, DoesNotWaitForABucketThatIsNotThere) {
  source({{"train.sh", "echo weights > /opt/ml/model/w"}});
  make_server();
  server_->refuse_puts(1, 404, "NoSuchBucket");
  run();
  EXPECT_EQ(error().code, Code::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("NoSuchBucket"));
  EXPECT_TRUE(server_->get("out/model.tar.gz").empty()) << "there was one try";
}

TEST_F(SessionTest, SendsTheRestOfAModelAndRefusesALinkOutOfItByName) {
  source({{"train.sh", "echo weights > /opt/ml/model/w; ln -s /etc/passwd /opt/ml/model/x"}});
  run();
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_THAT(error().message, HasSubstr("\"x\""));
  EXPECT_THAT(server_->get("out/model.tar.gz"), Not(IsEmpty()));
}

}  // namespace
}  // namespace trainyard::instance
