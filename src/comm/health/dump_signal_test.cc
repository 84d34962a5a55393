// SPDX-License-Identifier: Apache-2.0
#include "comm/health/dump_signal.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
// A child of a process with threads starts one of its own here.
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

namespace trainyard::comm {
namespace {

bool comes_true(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!what() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return what();
}

TEST(OnDumpSignal, CallsEachThatLivesForEachSignal) {
  std::atomic<int> first = 0;
  std::atomic<int> second = 0;
  const OnDumpSignal one([&] { ++first; });
  {
    const OnDumpSignal other([&] { ++second; });
    ::raise(SIGUSR2);
    EXPECT_TRUE(comes_true([&] { return first == 1 && second == 1; }));
  }
  ::raise(SIGUSR2);
  EXPECT_TRUE(comes_true([&] { return first == 2; }));
  EXPECT_EQ(second, 1);
}

TEST(OnDumpSignal, LeavesAChildAlone) {
  std::atomic<int> calls = 0;
  const OnDumpSignal one([&] { ++calls; });
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGUSR2);
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_EQ(calls, 0) << "the child's signal reached its parent";
  ::raise(SIGUSR2);
  EXPECT_TRUE(comes_true([&] { return calls == 1; }));
}

// The fork comes while the parent's records are being written.
TEST(OnDumpSignal, WorksForAChildsOwnWorld) {
  std::atomic<bool> is_writing = false;
  std::atomic<bool> may_end = false;
  const OnDumpSignal one([&] {
    is_writing = true;
    comes_true([&] { return may_end.load(); });
  });
  ::raise(SIGUSR2);
  ASSERT_TRUE(comes_true([&] { return is_writing.load(); }));
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> calls = 0;
    const OnDumpSignal own([&] { ++calls; });
    ::raise(SIGUSR2);
    ::_exit(comes_true([&] { return calls == 1; }) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  may_end = true;
  EXPECT_EQ(status, 0);
}

// In a process of its own, since this one has the handler already.
TEST(OnDumpSignal, KeepsTheProgramsOwnHandler) {
  const pid_t child = ::fork();
  if (child == 0) {
    static std::atomic<int> own;
    std::signal(SIGUSR2, [](int) { ++own; });
    std::atomic<int> calls = 0;
    const OnDumpSignal one([&] { ++calls; });
    ::raise(SIGUSR2);
    ::_exit(own == 1 && calls == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace trainyard::comm
