// SPDX-License-Identifier: Apache-2.0
#include "comm/health/fault.h"

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

TEST(Fault, KeepsTheFirstErrorAndTellsItOnce) {
  Fault fault;
  std::vector<std::string> told;
  fault.on_raise([&](const Error& error) { told.push_back(error.message); });
  EXPECT_FALSE(fault.is_raised());

  EXPECT_TRUE(fault.raise(Error{Code::kConflict, "rank 1 broadcasts"}));
  EXPECT_FALSE(fault.raise(Error{Code::kDeadline, "too late"}));

  EXPECT_TRUE(fault.is_raised());
  EXPECT_EQ(fault.error().code, Code::kConflict);
  EXPECT_EQ(fault.error().message, "rank 1 broadcasts");
  EXPECT_EQ(told, std::vector<std::string>{"rank 1 broadcasts"});
}

TEST(Fault, IsPassedOnBeforeAnyoneGetsIt) {
  Fault fault;
  std::atomic<bool> is_passed_on = false;
  std::latch has_begun(1);
  fault.pass_on_by([&](const Error& error) {
    EXPECT_EQ(error.message, "enough");
    has_begun.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // of a watchdog that is slow
    is_passed_on = true;
  });
  std::jthread other([&] { fault.raise(Error{Code::kCancelled, "enough"}); });
  has_begun.wait();
  EXPECT_TRUE(fault.is_raised());  // operations end
  EXPECT_FALSE(fault.raise(Error{Code::kDeadline, "too late"}));
  EXPECT_EQ(fault.error().message, "enough");
  EXPECT_TRUE(is_passed_on);
}

TEST(Fault, IsWrittenDownBeforeAnyoneGetsIt) {
  Fault fault(std::chrono::minutes(5));
  std::atomic<bool> is_written = false;
  std::latch has_begun(1);
  fault.on_raise([&](const Error&) {
    has_begun.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // of a file that is large
    is_written = true;
  });
  std::jthread other([&] { fault.raise(Error{Code::kCancelled, "enough"}); });
  has_begun.wait();
  EXPECT_EQ(fault.error().message, "enough");
  EXPECT_TRUE(is_written);
}

TEST(Fault, IsNotKeptByAFileSystemThatHangs) {
  Fault fault;
  std::latch has_begun(1);
  std::latch goes_on(1);
  fault.on_raise([&](const Error&) {
    has_begun.count_down();
    goes_on.wait();
  });
  std::jthread other([&] { fault.raise(Error{Code::kCancelled, "enough"}); });
  has_begun.wait();
  EXPECT_EQ(fault.error().message, "enough");
  goes_on.count_down();
}

TEST(Fault, LetsOneOfManyThreadsWin) {
  Fault fault;
  std::atomic<int> told = 0;
  std::atomic<int> won = 0;
  fault.on_raise([&](const Error&) { ++told; });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        won += fault.raise(Error{Code::kUnavailable, "rank " + std::to_string(i)}) ? 1 : 0;
        EXPECT_TRUE(fault.is_raised());
        EXPECT_EQ(fault.error().code, Code::kUnavailable);
      });
    }
  }
  EXPECT_EQ(told, 1);
  EXPECT_EQ(won, 1);
}

}  // namespace
}  // namespace trainyard::comm
