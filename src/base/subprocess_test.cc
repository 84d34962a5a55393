// SPDX-License-Identifier: Apache-2.0
#include "base/subprocess.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

SpawnOptions shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}};
}

Output run_shell(const std::string& script) {
  return *run_command(shell(script), seconds(20));
}

TEST(RunCommand, CollectsBothStreamsAndTheExitCode) {
  const Output output = run_shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(output.out, "out\n");
  EXPECT_EQ(output.err, "err\n");
  EXPECT_EQ(to_string(output.status), "exit code 3");
  EXPECT_FALSE(output.status.ok());
}

TEST(RunCommand, NamesTheSignalThatEndedIt) {
  const Output output = run_shell("kill -SEGV $$");
  EXPECT_EQ(output.status.signal, SIGSEGV);
  EXPECT_EQ(to_string(output.status), "signal 11 (SIGSEGV)");
}

TEST(RunCommand, PassesMoreThanAPipeHolds) {
  EXPECT_EQ(run_shell("head -c 300000 /dev/zero").out.size(), 300'000u);
}

TEST(RunCommand, KillsTheWholeCommandAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto output = run_command(shell("sleep 60 & sleep 60"), milliseconds(50));
  EXPECT_EQ(output.error().code, Code::kDeadline);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
}

TEST(RunCommand, DoesNotWaitForAGrandchildThatKeepsTheStream) {
  const auto start = std::chrono::steady_clock::now();
  const Output output = run_shell("sleep 30 & echo $!");
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  kill(static_cast<pid_t>(*parse_int(trim(output.out))), SIGKILL);
}

TEST(Spawn, ReportsAProgramThatCannotBeRun) {
  EXPECT_EQ(spawn({.argv = {"/no/such/program"}}).error().code, Code::kNotFound);
  EXPECT_EQ(spawn({.argv = {"no-such-program"}, .env = {{"PATH", "/bin"}}}).error().code,
            Code::kNotFound);
  EXPECT_EQ(spawn({.argv = {"/etc/passwd"}}).error().code, Code::kDenied);
  EXPECT_EQ(spawn({.argv = {}}).error().code, Code::kInvalidArgument);
  EXPECT_THAT(spawn({.argv = {"/no/such/program"}}).error().message,
              StartsWith("start /no/such/program: "));
}

TEST(Spawn, ReportsAMissingDirectory) {
  const auto child = spawn({.argv = {"/bin/true"}, .directory = "/no/such"});
  EXPECT_EQ(child.error().code, Code::kNotFound);
  EXPECT_THAT(child.error().message, HasSubstr("/no/such"));
}

TEST(Spawn, LeavesNoChildBehindWhenItFails) {
  ASSERT_FALSE(spawn({.argv = {"/no/such/program"}}).has_value());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, LooksTheProgramUpInTheChildsPath) {
  const auto output =
      run_command({.argv = {"env"}, .env = {{"PATH", "/nowhere:/usr/bin:/bin"}}}, seconds(20));
  EXPECT_EQ(output->out, "PATH=/nowhere:/usr/bin:/bin\n");
  EXPECT_FALSE(spawn({.argv = {"env"}, .env = {{"PATH", "/nowhere"}}}).has_value());
}

TEST(Spawn, GivesExactlyTheEnvironmentOrAddsToOurs) {
  setenv("YARD_TEST_OURS", "1", 1);
  const SpawnOptions exact = {.argv = {"/usr/bin/env"}, .env = {{"A", "b=c"}}};
  EXPECT_EQ(run_command(exact, seconds(20))->out, "A=b=c\n");
  SpawnOptions more = exact;
  more.inherit_env = true;
  EXPECT_THAT(run_command(more, seconds(20))->out,
              testing::AllOf(HasSubstr("YARD_TEST_OURS=1\n"), HasSubstr("A=b=c\n")));
  unsetenv("YARD_TEST_OURS");
}

TEST(Spawn, PassesTheNamedDescriptorsAndNoOthers) {
  const Fd leak(dup(STDOUT_FILENO));  // without close-on-exec
  Pipe pipe = *make_pipe();
  // ls itself opens one more to read the directory.
  SpawnOptions options = {.argv = {"/bin/ls", "/proc/self/fd"}};
  options.fds = {{pipe.write_end.get(), 1}, {pipe.write_end.get(), 40}};
  Child child = *spawn(options);
  pipe.write_end.reset();
  std::array<char, 256> text;
  ASSERT_TRUE(child.wait()->ok());
  const auto size = *read_some(pipe.read_end.get(), std::as_writable_bytes(std::span(text)));
  EXPECT_THAT(split(trim({text.data(), size}), '\n'), ElementsAre("0", "1", "2", "3", "40"));
}

TEST(Spawn, CanSwapDescriptors) {
  Pipe pipe = *make_pipe();
  const int read_end = pipe.read_end.get();
  const int write_end = pipe.write_end.get();
  SpawnOptions options =
      shell(fmt::format("echo hello >&{}; read x <&{}; echo $x", read_end, write_end));
  options.fds = {{write_end, read_end}, {read_end, write_end}};
  EXPECT_EQ(run_command(options, seconds(20))->out, "hello\n");
}

TEST(Spawn, ConnectsTheStandardStreamsToNothing) {
  EXPECT_EQ(run_shell("readlink /proc/self/fd/0").out, "/dev/null\n");
}

TEST(Spawn, ResetsSignalsInTheChild) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  const Output output = run_shell("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(output.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Spawn, StartsInTheDirectoryAndInASessionOfItsOwn) {
  EXPECT_EQ(run_command({.argv = {"/bin/pwd"}, .directory = "/usr"}, seconds(20))->out, "/usr\n");
  Child child = *spawn({.argv = {"/bin/sleep", "60"}, .new_session = true});
  EXPECT_EQ(getsid(child.pid()), child.pid());
  ASSERT_TRUE(child.signal(SIGKILL).has_value());
  EXPECT_EQ(child.wait()->signal, SIGKILL);
}

TEST(Child, IsWaitedForWithADeadline) {
  Child child = *spawn({.argv = {"/bin/sleep", "60"}});
  EXPECT_EQ(*child.wait_for(milliseconds(10)), std::nullopt);
  ASSERT_TRUE(child.signal(SIGTERM).has_value());
  EXPECT_EQ(child.wait()->signal, SIGTERM);
  EXPECT_EQ(child.wait()->signal, SIGTERM);
  EXPECT_EQ(child.signal(SIGTERM).error().code, Code::kNotFound);
}

TEST(Child, CanBePolledThroughItsPidfd) {
  Child child = *spawn(shell("exit 7"));
  EXPECT_NE(fcntl(child.pidfd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(child.wait_for(seconds(20))->value_or(ExitStatus{}).code, 7);
}

TEST(Spawn, EndsTheChildWithItsParent) {
  Result<Child> child = Error{};
  // The kernel takes the end of the thread that spawned for the end of the parent.
  std::thread([&] {
    child = spawn({.argv = {"/bin/sleep", "60"}, .die_with_parent = true});
  }).join();
  EXPECT_EQ(child->wait()->signal, SIGKILL);
}

TEST(Spawn, EntersANetworkNamespace) {
  Fd own;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) == 0) {
      own = *open_file("/proc/thread-self/ns/net", O_RDONLY);
    }
  }).join();
  if (!own.is_open()) {
    GTEST_SKIP() << "needs the right to make a network namespace (root)";
  }
  const auto output = run_command(
      {.argv = {"/bin/cat", "/proc/net/dev"}, .network_namespace = own.get()}, seconds(20));
  EXPECT_THAT(output->out, HasSubstr("lo:"));
  EXPECT_THAT(output->out, testing::Not(HasSubstr("eth")));
}

TEST(Spawn, WorksFromManyThreadsAtOnce) {
  std::array<int, 8> sums = {};
  std::vector<std::thread> threads;
  threads.reserve(sums.size());
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        sums[t] += run_shell("exit " + std::to_string(i)).status.code;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(sums, testing::Each(45));
}

}  // namespace
}  // namespace trainyard
