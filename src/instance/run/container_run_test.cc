// SPDX-License-Identifier: Apache-2.0
// Real containers with our own init in them. Needs root; test_main.cc plays pid 1.
#include "instance/run/container_run.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/mutex.h"
#include "instance/testing/sleepers.h"

namespace trainyard::instance {
namespace {

using sandbox::ContainerMount;
using std::chrono::steady_clock;
using testing::Contains;
using testing::HasSubstr;
using Kind = ContainerMount::Kind;

constexpr std::chrono::seconds kDeadline{20};

Process shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script},
          .environment = {{"PATH", "/usr/bin:/bin"}},
          .directory = "/"};
}

std::vector<Process> ranked(std::vector<Process> processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i].rank = static_cast<int>(i);
  }
  return processes;
}

class ContainerRunTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
  }

  void start(const std::vector<Process>& processes) {
    sandbox::ContainerSpec spec{.hostname = "algo-1",
                                .mounts = {{.kind = Kind::kTmpfs, .target = "/tmp"},
                                           {.kind = Kind::kDev, .target = "/dev"},
                                           {.kind = Kind::kProc, .target = "/proc"}},
                                .program = {}};
    PumpSinks sinks{.lines =
                        [this](const std::vector<wire::LogLine>& lines) {
                          const MutexLock lock(mutex_);
                          for (const wire::LogLine& line : lines) {
                            lines_.push_back(line.text);
                          }
                          changed_.notify_all();
                        },
                    .ended =
                        [this](ProcessEnd end) {
                          const MutexLock lock(mutex_);
                          ends_.push_back(std::move(end));
                          changed_.notify_all();
                        },
                    .closed =
                        [this] {
                          const MutexLock lock(mutex_);
                          closed_ = true;
                          changed_.notify_all();
                        },
                    .raw =
                        [this](int process, std::string_view bytes) {
                          const MutexLock lock(mutex_);
                          raw_[process] += bytes;
                        }};
    auto run = ContainerRun::start(spec, processes, std::move(sinks), clock_);
    ASSERT_TRUE(run) << run.error().message;
    run_ = std::move(*run);
  }

  template <typename Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, condition);
  }
  bool wait_for_line(const std::string& text) {
    return wait_for([&] { return std::count(lines_.begin(), lines_.end(), text) > 0; });
  }
  void finish() {
    ASSERT_TRUE(wait_for([&] { return closed_; }));
    status_ = *run_->status();
  }
  void run(const std::vector<Process>& processes) {
    start(processes);
    finish();
  }

  SystemClock clock_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> lines_;
  std::vector<ProcessEnd> ends_;
  std::map<int, std::string> raw_;
  bool closed_ = false;
  ExitStatus status_;
  std::unique_ptr<ContainerRun> run_;
};

TEST_F(ContainerRunTest, TellsExitCodesAndSignals) {
  run({shell("exit 3")});
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code, 3);
  EXPECT_FALSE(ends_[0].victim);
  EXPECT_TRUE(status_.ok());
  ends_.clear();
  closed_ = false;
  run({shell("kill -SEGV $$")});
  EXPECT_EQ(ends_[0].signal, SIGSEGV);
}

TEST_F(ContainerRunTest, GivesArgumentsAndEnvironmentExactly) {
  Process process = shell("printf '%s|%s' \"$1\" \"$VALUE\"");
  process.argv.insert(process.argv.end(), {"sh", "a'b\"c $(id) `id`"});
  process.environment["VALUE"] = "日本語 $HOME\\";
  run({process});
  EXPECT_THAT(lines_, Contains("a'b\"c $(id) `id`|日本語 $HOME\\"));
}

TEST_F(ContainerRunTest, EndsTheOthersWhenOneFailsAndMarksThem) {
  run(ranked({shell("sleep 1000"), shell("echo bad; exit 3"), shell("sleep 1000")}));
  ASSERT_EQ(ends_.size(), 3u);
  EXPECT_EQ(ends_[0].process, 1);
  EXPECT_EQ(ends_[0].code, 3);
  EXPECT_FALSE(ends_[0].victim);
  EXPECT_TRUE(ends_[1].victim);
  EXPECT_EQ(ends_[1].signal, SIGTERM);
  EXPECT_THAT(lines_, Contains("[rank 1] bad"));
}

TEST_F(ContainerRunTest, SaysWhatCouldNotBeStarted) {
  run({{.argv = {"no-such-program"}, .environment = {{"PATH", "/bin"}}, .directory = "/"}});
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code, 127);
  EXPECT_THAT(ends_[0].error, HasSubstr("no-such-program"));
}

// cases.md 59: sh -> program -> workers; every one of them gets the signal, not only the first.
TEST_F(ContainerRunTest, SendsAStopToEveryProcess) {
  const std::string wait = "while :; do sleep 0.05; done";
  start(
      {shell("trap 'wait; echo parent stopped; exit 0' TERM; "
             "(trap 'echo worker stopped; exit 0' TERM; echo worker ready; " +
             wait + ") & " + wait)});
  ASSERT_TRUE(wait_for_line("worker ready"));
  run_->stop(Duration(10'000));
  finish();
  EXPECT_THAT(lines_, Contains("worker stopped"));
  EXPECT_THAT(lines_, Contains("parent stopped"));
  EXPECT_EQ(ends_.at(0).code, 0);
  EXPECT_TRUE(ends_[0].victim);
}

// cases.md 59: the shell dies of the signal at once, its script saves for a while.
TEST_F(ContainerRunTest, GivesTimeToSaveBehindAShellThatDies) {
  start(
      {shell("sh -c 'trap \"sleep 0.4; echo saved; exit 0\" TERM; echo ready; "
             "while :; do sleep 0.05; done'; echo not reached")});
  ASSERT_TRUE(wait_for_line("ready"));
  run_->stop(Duration(10'000));
  finish();
  EXPECT_EQ(ends_.at(0).signal, SIGTERM);
  EXPECT_THAT(lines_, Contains("saved"));
}

TEST_F(ContainerRunTest, WaitsForNoDaemonWhenTheProgramHasSaidThatItIsDone) {
  start(
      {shell("trap 'exit 0' TERM; (trap '' TERM; echo ready; while :; do sleep 0.05; done) & "
             "while :; do sleep 0.05; done")});
  ASSERT_TRUE(wait_for_line("ready"));
  const auto begin = steady_clock::now();
  run_->stop(Duration(10'000));
  finish();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
}

// cases.md 65
TEST_F(ContainerRunTest, StopsWhatHasLeftItsSessionAndItsParent) {
  start(
      {shell("setsid sh -c '(trap \"echo daemon stopped; exit 0\" TERM; echo ready; "
             "while :; do sleep 0.05; done) & exit 0'; exec sleep 1000")});
  ASSERT_TRUE(wait_for_line("ready"));
  run_->stop(Duration(10'000));
  finish();
  EXPECT_THAT(lines_, Contains("daemon stopped"));
}

TEST_F(ContainerRunTest, WakesWhatIsStoppedToStopIt) {
  start(
      {shell("trap 'echo saved; exit 0' TERM; echo ready; kill -STOP $$; "
             "while :; do sleep 0.05; done")});
  ASSERT_TRUE(wait_for_line("ready"));
  run_->stop(Duration(10'000));
  finish();
  EXPECT_THAT(lines_, Contains("saved"));
}

TEST_F(ContainerRunTest, PassesASignalOnToWhatExpectsItAndSparesTheRest) {
  start(
      {shell("sh -c 'trap \"echo got it; exit 0\" USR1; echo ready; "
             "while :; do sleep 0.05; done'; echo the shell lives")});
  ASSERT_TRUE(wait_for_line("ready"));
  run_->signal(SIGUSR1);
  finish();
  EXPECT_THAT(lines_, Contains("got it"));
  EXPECT_THAT(lines_, Contains("the shell lives"));
  EXPECT_EQ(ends_.at(0).signal, 0);
}

TEST(ExpectsSignal, CountsHandlersAndBlockedSignals) {
  EXPECT_TRUE(expects_signal("SigBlk:\t0000000000000200\nSigCgt:\t0000000000000000\n", SIGUSR1));
  EXPECT_TRUE(expects_signal("SigBlk:\t0000000000000000\nSigCgt:\t0000000000000800\n", SIGUSR2));
  EXPECT_FALSE(expects_signal("SigIgn:\t0000000000000200\nSigCgt:\t0000000000000000\n", SIGUSR1));
  EXPECT_FALSE(expects_signal("SigBlk:\tfffffffe7ffbfeff\nSigCgt:\t0000000000000000\n", SIGUSR1))
      << "all of them, for a moment";
  EXPECT_FALSE(expects_signal("", SIGUSR1));
}

TEST(InitCommand, IsRefusedUnlessItIsOneOfOurs) {
  const auto stop = command_from_line("stop 250");
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->grace, Duration(250));
  const auto signal = command_from_line("signal " + std::to_string(SIGUSR2));
  ASSERT_TRUE(signal);
  EXPECT_EQ(signal->signal, SIGUSR2);
  for (const char* line : {"", "stop", "stop -1", "signal 9", "signal x", "go 1"}) {
    EXPECT_FALSE(command_from_line(line)) << line;
  }
}

TEST_F(ContainerRunTest, KillsWhatIgnoresAStopWhenTheTimeIsOver) {
  start({shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")});
  ASSERT_TRUE(wait_for_line("ready"));
  const auto begin = steady_clock::now();
  run_->stop(Duration(300));
  finish();
  EXPECT_EQ(ends_.at(0).signal, SIGKILL);
  EXPECT_GE(steady_clock::now() - begin, std::chrono::milliseconds(300));
}

TEST_F(ContainerRunTest, LeavesNoDaemonBehind) {
  start(
      {shell("setsid sh -c 'setsid sleep 86399.25 & exec sleep 86398.25' >/dev/null 2>&1 & "
             "sleep 0.2; echo up; exit 0")});
  ASSERT_TRUE(wait_for_line("up"));
  finish();
  EXPECT_EQ(ends_.at(0).code, 0);
  EXPECT_FALSE(sleeps_somewhere("86399.25"));
  EXPECT_FALSE(sleeps_somewhere("86398.25"));
  EXPECT_TRUE(ends_.size() == 2 && ends_[1].is_sweep) << "it tells that it has killed";
}

TEST_F(ContainerRunTest, GivesAMomentToWhatEndsByItselfAfterTheProgram) {
  run({shell("(sleep 0.2; echo saved) & exit 0")});
  EXPECT_THAT(lines_, Contains("saved"));
  ASSERT_EQ(ends_.size(), 1u) << "nothing was killed";
  EXPECT_FALSE(ends_[0].is_sweep);
}

TEST_F(ContainerRunTest, DiesWithItsOwner) {
  start({shell("echo up; sleep 86397.25")});
  ASSERT_TRUE(wait_for_line("up"));
  run_.reset();
  EXPECT_FALSE(sleeps_somewhere("86397.25"));
}

// cases.md 170
TEST_F(ContainerRunTest, NeverMixesTheLinesOfRanks) {
  const std::string text(480, 'x');
  std::vector<Process> processes(
      8, shell("i=0; while [ $i -lt 1000 ]; do echo $i " + text + "; i=$((i+1)); done"));
  run(ranked(std::move(processes)));
  std::map<std::string, int> next;
  for (const std::string& line : lines_) {
    const std::size_t end = line.find("] ");
    ASSERT_NE(end, std::string::npos);
    int& expected = next[line.substr(0, end)];
    ASSERT_EQ(line.substr(end + 2), std::to_string(expected) + " " + text);
    ++expected;
  }
  EXPECT_EQ(lines_.size(), 8000u);
  EXPECT_EQ(next.size(), 8u);
}

// cases.md 165
TEST_F(ContainerRunTest, GivesTheBytesOfEachProcessBesideItsLines) {
  run(ranked({shell("printf 'a\\377\\000\\033[31mb\\r\\n'"), shell("printf two")}));
  using std::string_literals::operator""s;
  EXPECT_EQ(raw_[0], "a\xFF\0\x1b[31mb\r\n"s);
  EXPECT_EQ(raw_[1], "two");
  EXPECT_THAT(lines_, Contains("[rank 0] a\uFFFD\uFFFDb"));
}

// cases.md 167
TEST_F(ContainerRunTest, KeepsTheTailOfACrash) {
  run(
      {shell("i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done; printf tail; "
             "kill -ABRT $$")});
  ASSERT_EQ(lines_.size(), 10'001u);
  EXPECT_EQ(lines_[9'999], "line 9999");
  EXPECT_EQ(lines_[10'000], "tail");
  EXPECT_EQ(ends_.at(0).signal, SIGABRT);
  EXPECT_EQ(run_->pump().tail(0).size(), LogPump::kTail);
}

TEST_F(ContainerRunTest, HoldsNoMoreRightsThanAContainer) {
  run(
      {shell("grep -E '^Cap(Eff|Bnd)|^NoNewPrivs' /proc/self/status; mount -t tmpfs x /mnt || "
             "echo refused")});
  EXPECT_THAT(lines_, Contains("CapEff:\t00000000000405fb"));
  EXPECT_THAT(lines_, Contains("CapBnd:\t00000000000405fb"));
  EXPECT_THAT(lines_, Contains("NoNewPrivs:\t1"));
  EXPECT_THAT(lines_, Contains("refused"));
}

TEST_F(ContainerRunTest, StartsInMilliseconds) {
  auto best = std::chrono::milliseconds::max();
  for (int attempt = 0; attempt < 5; ++attempt) {
    closed_ = false;
    lines_.clear();
    const auto begin = steady_clock::now();
    start({shell("echo up")});
    ASSERT_TRUE(wait_for_line("up"));
    best = std::min(
        best, std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin));
    finish();
  }
  std::printf("container start to first line: %lld ms\n", static_cast<long long>(best.count()));
  EXPECT_LT(best, std::chrono::milliseconds(300)) << "30 ms on an idle machine";
}

}  // namespace
}  // namespace trainyard::instance
