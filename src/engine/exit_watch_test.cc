// SPDX-License-Identifier: Apache-2.0
#include "engine/exit_watch.h"

#include <csignal>
#include <future>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/subprocess.h"
#include "sandbox/process.h"

namespace trainyard::engine {
namespace {

constexpr std::chrono::seconds kDeadline(5);

Child start(const std::string& script) {
  Result<Child> child =
      spawn({.argv = {"/bin/sh", "-c", script}, .env = {{"PATH", "/usr/bin:/bin"}}});
  EXPECT_TRUE(child);
  return *std::move(child);
}

Fd copy_of(int fd) {
  return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

TEST(ExitWatch, TellsOfAChildsEndAndReapsIt) {
  const auto exits = ExitWatch::make();
  ASSERT_TRUE(exits);
  Child child = start("exec sleep 1000");
  std::promise<void> ended;
  ASSERT_TRUE((*exits)->add(copy_of(child.pidfd()), [&] { ended.set_value(); }));
  ASSERT_TRUE(child.signal(SIGKILL));
  ASSERT_EQ(ended.get_future().wait_for(kDeadline), std::future_status::ready);
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), -1) << "it is still there to be reaped";
}

TEST(ExitWatch, TellsOfAProcessThatHadEndedBefore) {
  const auto exits = ExitWatch::make();
  ASSERT_TRUE(exits);
  Child child = start("exit 3");
  ASSERT_TRUE(sandbox::kill_and_wait(child.pidfd(), kDeadline));
  std::promise<void> ended;
  ASSERT_TRUE((*exits)->add(copy_of(child.pidfd()), [&] { ended.set_value(); }));
  EXPECT_EQ(ended.get_future().wait_for(kDeadline), std::future_status::ready);
}

TEST(ExitWatch, WatchesAProcessThatIsNotOurChild) {
  const auto exits = ExitWatch::make();
  ASSERT_TRUE(exits);
  const auto output = run_command({.argv = {"/bin/sh", "-c",
                                            "setsid sleep 1000 </dev/null >/dev/null 2>&1 & "
                                            "echo $!"},
                                   .env = {{"PATH", "/usr/bin:/bin"}}},
                                  kDeadline);
  ASSERT_TRUE(output);
  const pid_t pid = std::stoi(output->out);
  const auto id = sandbox::identify(pid);
  ASSERT_TRUE(id);
  auto pidfd = sandbox::open_process(*id);
  ASSERT_TRUE(pidfd);
  std::promise<void> ended;
  ASSERT_TRUE((*exits)->add(*std::move(pidfd), [&] { ended.set_value(); }));
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  EXPECT_EQ(ended.get_future().wait_for(kDeadline), std::future_status::ready);
}

TEST(ExitWatch, EndsWhileProcessesGoOn) {
  Child child = start("exec sleep 1000");
  {
    const auto exits = ExitWatch::make();
    ASSERT_TRUE(exits);
    ASSERT_TRUE((*exits)->add(copy_of(child.pidfd()), [] { FAIL() << "it has not ended"; }));
  }
  ASSERT_TRUE(child.signal(SIGKILL));
  ASSERT_TRUE(child.wait());
}

}  // namespace
}  // namespace trainyard::engine
