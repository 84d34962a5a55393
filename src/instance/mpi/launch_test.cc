// SPDX-License-Identifier: Apache-2.0
// Whole MPI launches: a container for each of two hosts, our leader and worker in them, Debian's
// mpirun. Both hosts are addresses of one network namespace, which is this test's own. Needs root.
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/subprocess.h"
#include "instance/launch/launch_plan.h"
#include "instance/run/container_run.h"
#include "instance/run/outcome.h"
#include "instance/testing/sleepers.h"

namespace trainyard::instance {
namespace {

using nlohmann::json;
using sandbox::ContainerMount;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = ContainerMount::Kind;

constexpr std::chrono::seconds kDeadline{30};

void enter_own_network() {
  static const bool kDone = [] {
    EXPECT_EQ(unshare(CLONE_NEWNET), 0);
    for (const char* address : {"127.0.0.1/8", "10.78.0.1/32", "10.78.0.2/32"}) {
      EXPECT_TRUE(run_command({.argv = {"ip", "address", "add", address, "dev", "lo"}, .env = {}},
                              Duration(5000)));
    }
    EXPECT_TRUE(
        run_command({.argv = {"ip", "link", "set", "lo", "up"}, .env = {}}, Duration(5000)));
    return true;
  }();
  EXPECT_TRUE(kDone);
}

// One container and what it has shown.
class Host {
 public:
  Host(std::string name, const Path& ml) : name_(std::move(name)), ml_(ml) {}

  void start(const LaunchPlan& plan) {
    processes_ = plan.processes;
    sandbox::ContainerSpec spec{
        .hostname = name_,
        .mounts = {{.kind = Kind::kTmpfs, .target = "/tmp"},
                   {.kind = Kind::kDev, .target = "/dev"},
                   {.kind = Kind::kProc, .target = "/proc"},
                   {.kind = Kind::kBind, .target = "/opt/ml", .source = ml_.string()},
                   {.kind = Kind::kReadOnlyBind,
                    .target = "/etc/hosts",
                    .source = (ml_ / "hosts").string()}},
        .program = {}};
    const auto tell = [this](auto change) {
      const MutexLock lock(mutex_);
      change();
      changed_.notify_all();
    };
    PumpSinks sinks{
        .lines =
            [this, tell](const std::vector<wire::LogLine>& lines) {
              for (const wire::LogLine& line : lines) {
                tell([&] { lines_.push_back(line.text); });
              }
            },
        .ended = [this,
                  tell](ProcessEnd end) { tell([&] { outcome_.ends.push_back(std::move(end)); }); },
        .closed = [this, tell] { tell([&] { closed_ = true; }); }};
    auto run = ContainerRun::start(std::move(spec), plan.processes, std::move(sinks), clock_);
    ASSERT_TRUE(run) << run.error().message;
    run_ = std::move(*run);
  }

  bool wait_for_line(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline,
                             [&] { return std::count(lines_.begin(), lines_.end(), text) > 0; });
  }

  wire::Exit finish() {
    {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, kDeadline, [&] { return closed_; })) << name_;
    }
    outcome_.container = *run_->status();
    outcome_.tails = {{}};
    const Result<wire::Exit> exit = exit_of(outcome_, processes_);
    EXPECT_TRUE(exit) << exit.error().message;
    return exit ? *exit : wire::Exit();
  }

  void stop(Duration grace) {
    outcome_.stopped = true;
    run_->stop(grace);
  }
  void kill() { run_.reset(); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::string name_;
  Path ml_;
  SystemClock clock_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Process> processes_;
  std::vector<std::string> lines_;
  RunOutcome outcome_;
  bool closed_ = false;
  std::unique_ptr<ContainerRun> run_;
};

class MpiLaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    if (!std::filesystem::exists("/usr/bin/mpirun")) {
      GTEST_SKIP() << "needs the package openmpi-bin";
    }
    enter_own_network();
    ASSERT_TRUE(make_directories("/opt/ml"));
    ASSERT_TRUE(make_directories(ml() / "code"));
    ASSERT_TRUE(
        write_file(ml() / "hosts", "127.0.0.1 localhost\n10.78.0.1 algo-1\n10.78.0.2 algo-2\n"));
  }

  Path ml() const { return directory_.path(); }

  void start(const std::string& script, json hyperparameters = json::object()) {
    ASSERT_TRUE(write_file(ml() / "code/train.sh", script, 0755));
    hyperparameters["sagemaker_program"] = "train.sh";
    hyperparameters.emplace("sagemaker_mpi_enabled", "true");
    hyperparameters.emplace("sagemaker_mpi_num_of_processes_per_host", "2");
    for (Host* host : {&worker_, &leader_}) {
      const std::string name = host == &leader_ ? "algo-1" : "algo-2";
      host->start(plan_for(name, hyperparameters));
    }
  }

  LaunchPlan plan_for(const std::string& host, const json& hyperparameters) const {
    const wire::Assignment assignment{
        .job_name = "job-1",
        .job_arn = "arn:job-1",
        .region = "us-east-1",
        .account = "123456789012",
        .host = host,
        .hosts = {{"algo-1", "10.78.0.1"}, {"algo-2", "10.78.0.2"}},
        .network_interface = "lo",
        .request = {{"HyperParameters", hyperparameters}, {"Environment", environment_}},
        .python_environment = {},
        .server = "http://10.78.0.254:1",
        .num_cpus = 2,
        .gpus = {},
        .log_stream = "job-1/algo-1-1",
        .gang_secret = host == "algo-2" ? workers_secret_ : "secret"};
    const Result<LaunchForm> form = launch_form(assignment);
    EXPECT_TRUE(form) << form.error().message;
    return launch_plan(
        assignment, *form, {},
        container_environment(assignment, {.caller = {}, .credentials_path = "/c", .hidden = {}}));
  }

  TempDir directory_ = *TempDir::make("trainyard-mpi-");
  json environment_ = json::object();
  std::string workers_secret_ = "secret";
  Host leader_{"algo-1", directory_.path()};
  Host worker_{"algo-2", directory_.path()};
};

TEST_F(MpiLaunchTest, RunsEveryRankOnItsHostAndShowsAllInTheLeadersLog) {
  start(
      "echo $OMPI_COMM_WORLD_RANK on $(hostname) $SM_CURRENT_HOST, torch $RANK of $WORLD_SIZE, "
      "local $LOCAL_RANK of $LOCAL_WORLD_SIZE, secret ${TRAINYARD_MPI:-hidden}");
  EXPECT_EQ(leader_.finish().code, 0);
  EXPECT_EQ(worker_.finish().code, 0);
  const std::string rest = ", secret hidden";
  EXPECT_THAT(
      leader_.lines(),
      testing::IsSupersetOf({"[rank 0] 0 on algo-1 algo-1, torch 0 of 4, local 0 of 2" + rest,
                             "[rank 1] 1 on algo-1 algo-1, torch 1 of 4, local 1 of 2" + rest,
                             "[rank 2] 2 on algo-2 algo-2, torch 2 of 4, local 0 of 2" + rest,
                             "[rank 3] 3 on algo-2 algo-2, torch 3 of 4, local 1 of 2" + rest}));
  EXPECT_THAT(worker_.lines(), IsEmpty());
  const auto& lines = leader_.lines();
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(),
                    [](const auto& line) { return line.find("JOB MAP") != std::string::npos; }),
      1)
      << "every daemon has shown it";
}

TEST_F(MpiLaunchTest, NamesTheFirstRankThatFailedOnEveryHost) {
  start("if [ $RANK = 3 ]; then echo the loss is not finite; exit 3; fi; exec sleep 86388.25");
  for (Host* host : {&leader_, &worker_}) {
    const wire::Exit exit = host->finish();
    EXPECT_EQ(exit.code, 3);
    EXPECT_EQ(exit.global_rank, 3);
    EXPECT_EQ(exit.host, "algo-2");
    EXPECT_FALSE(exit.stopped);
    EXPECT_THAT(exit.last_lines, Contains("[rank 3] the loss is not finite"));
  }
  EXPECT_FALSE(sleeps_somewhere("86388.25"));
}

TEST_F(MpiLaunchTest, TellsASignalAsASignal) {
  start("[ $RANK = 1 ] && kill -SEGV $$; exec sleep 86387.25");
  const wire::Exit exit = leader_.finish();
  EXPECT_EQ(exit.signal, SIGSEGV);
  EXPECT_EQ(exit.global_rank, 1);
  EXPECT_EQ(exit.host, "algo-1");
  worker_.finish();
}

TEST_F(MpiLaunchTest, GivesHyperparametersAndEnvironmentToRanksExactly) {
  const std::string hostile = "a'b\"c\n$(id) `id` \\ * %s ; 日本語";
  environment_ = {{"MINE", "x;y=\"$HOME\" 'z'"}, {"NCCL_DEBUG", "INFO"}};
  start(R"(printf '%s|' "$@" "$SM_HP_TEXT" "$MINE" "$NCCL_DEBUG" > /opt/ml/seen.$RANK)",
        {{"text", hostile}, {"long", std::string(2500, 'v')}});
  EXPECT_EQ(leader_.finish().code, 0);
  EXPECT_EQ(worker_.finish().code, 0);
  const std::string expected = "--long|" + std::string(2500, 'v') + "|--text|" + hostile + "|" +
                               hostile + "|x;y=\"$HOME\" 'z'|INFO|";
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_EQ(read_file(ml() / (std::string("seen.") + rank)).value_or("(missing)"), expected);
  }
}

// A hundred values of 2,500 characters are more than one variable or one mpirun could carry.
TEST_F(MpiLaunchTest, CarriesMoreArgumentsThanMpirunCould) {
  json values = json::object();
  for (int i = 0; i < 100; ++i) {
    values["key" + std::to_string(100 + i)] = std::string(2500, 'v');
  }
  start("echo $# arguments", values);
  EXPECT_EQ(leader_.finish().code, 0);
  EXPECT_EQ(worker_.finish().code, 0);
  EXPECT_THAT(leader_.lines(), Contains("[rank 3] 200 arguments"));
}

TEST_F(MpiLaunchTest, GivesCustomOptionsToMpirunAndNoneToAShell) {
  start("echo $OMPI_COMM_WORLD_RANK sees $FROM_X",
        {{"sagemaker_mpi_custom_mpi_options",
          "-x 'FROM_X=$(touch /opt/ml/pwned) a b' --mca odd '$(touch /opt/ml/pwned);`id`'"}});
  EXPECT_EQ(leader_.finish().code, 0) << testing::PrintToString(leader_.lines());
  EXPECT_EQ(worker_.finish().code, 0);
  EXPECT_THAT(leader_.lines(), Contains("[rank 3] 3 sees $(touch /opt/ml/pwned) a b"));
  EXPECT_FALSE(std::filesystem::exists(ml() / "pwned"));
}

TEST_F(MpiLaunchTest, ReportsAnOptionThatMpirunDoesNotKnow) {
  start("echo never", {{"sagemaker_mpi_custom_mpi_options", "--no-such-option"}});
  const wire::Exit exit = leader_.finish();
  EXPECT_NE(exit.code, 0);
  EXPECT_FALSE(exit.global_rank);
  EXPECT_THAT(exit.last_lines, Contains(HasSubstr("no-such-option")));
  EXPECT_EQ(worker_.finish().code, exit.code);
}

// cases.md 59: every process is told at once, and has the time that the job allows.
TEST_F(MpiLaunchTest, GivesEveryRankTheTimeToSaveInAStop) {
  start(
      "n=0; i=0; trap 'n=$((n+1)); echo term $n' TERM; echo up; "
      "while [ $i -lt 40 ]; do sleep 0.05; i=$((i+n)); done; echo saved > /opt/ml/saved.$RANK");
  for (const char* rank : {"0", "1", "2", "3"}) {
    ASSERT_TRUE(leader_.wait_for_line(std::string("[rank ") + rank + "] up"));
  }
  leader_.stop(Duration(20'000));
  worker_.stop(Duration(20'000));
  EXPECT_TRUE(leader_.finish().stopped);
  EXPECT_TRUE(worker_.finish().stopped);
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_TRUE(std::filesystem::exists(ml() / (std::string("saved.") + rank))) << rank;
    EXPECT_THAT(leader_.lines(), Contains(std::string("[rank ") + rank + "] term 1"));
  }
  EXPECT_THAT(leader_.lines(), Not(Contains(HasSubstr("term 2")))) << "once is enough";
}

// A rank that would start after the stop would never hear of it.
TEST_F(MpiLaunchTest, StopsAtOnceWhateverItIsStillStarting) {
  for (const Duration wait : {Duration(0), Duration(60), Duration(150)}) {
    Host leader("algo-1", ml());
    Host worker("algo-2", ml());
    const json hyperparameters = {{"sagemaker_program", "train.sh"},
                                  {"sagemaker_mpi_enabled", "true"}};
    ASSERT_TRUE(write_file(ml() / "code/train.sh", "exec sleep 86383.25", 0755));
    const auto begin = std::chrono::steady_clock::now();
    worker.start(plan_for("algo-2", hyperparameters));
    leader.start(plan_for("algo-1", hyperparameters));
    std::this_thread::sleep_for(wait);
    leader.stop(Duration(20'000));
    worker.stop(Duration(20'000));
    EXPECT_TRUE(leader.finish().stopped);
    EXPECT_TRUE(worker.finish().stopped);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  EXPECT_FALSE(sleeps_somewhere("86383.25"));
}

TEST_F(MpiLaunchTest, EndsTheWorkersWhenTheLeaderIsGone) {
  start("echo up; exec sleep 86386.25");
  ASSERT_TRUE(leader_.wait_for_line("[rank 3] up"));
  leader_.kill();
  const wire::Exit exit = worker_.finish();
  EXPECT_TRUE(exit.stopped) << "a victim, not a culprit";
  EXPECT_THAT(worker_.lines(), Contains(HasSubstr("algo-1")));
  EXPECT_FALSE(sleeps_somewhere("86386.25"));
}

TEST_F(MpiLaunchTest, EndsTheLeaderWhenAWorkerIsGone) {
  start("echo up; exec sleep 86385.25");
  ASSERT_TRUE(leader_.wait_for_line("[rank 3] up"));
  worker_.kill();
  EXPECT_TRUE(leader_.finish().stopped) << "a victim, not a culprit";
  EXPECT_THAT(leader_.lines(), Contains(HasSubstr("algo-2")));
  EXPECT_FALSE(sleeps_somewhere("86385.25"));
}

TEST_F(MpiLaunchTest, RunsNothingWhenAWorkerBelongsToAnotherAttempt) {
  workers_secret_ = "of another attempt";
  start("touch /opt/ml/ran");
  EXPECT_TRUE(leader_.finish().stopped);
  EXPECT_THAT(leader_.lines(), Contains(HasSubstr("secret")));
  EXPECT_FALSE(std::filesystem::exists(ml() / "ran"));
  worker_.kill();
}

// cases.md 170
TEST_F(MpiLaunchTest, NeverMixesTheLinesOfRanks) {
  const std::string text(480, 'x');
  start("i=0; while [ $i -lt 1000 ]; do echo $i " + text + "; i=$((i+1)); done");
  EXPECT_EQ(leader_.finish().code, 0);
  EXPECT_EQ(worker_.finish().code, 0);
  std::map<std::string, int> next;
  for (const std::string& line : leader_.lines()) {
    if (!line.starts_with("[rank ")) {
      continue;  // mpirun's map of the job
    }
    const std::size_t end = line.find("] ");
    int& expected = next[line.substr(0, end)];
    ASSERT_EQ(line.substr(end + 2), std::to_string(expected) + " " + text);
    ++expected;
  }
  EXPECT_THAT(
      next, testing::UnorderedElementsAre(std::pair("[rank 0", 1000), std::pair("[rank 1", 1000),
                                          std::pair("[rank 2", 1000), std::pair("[rank 3", 1000)));
}

}  // namespace
}  // namespace trainyard::instance
