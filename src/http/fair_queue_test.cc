// SPDX-License-Identifier: Apache-2.0
#include "http/internal/fair_queue.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::http {
namespace {

struct Tasks {
  explicit Tasks(std::size_t workers, std::size_t room = 1'000) : queue(workers, room) {}

  // How many of `count` were taken.
  int add(const std::string& client, int count = 1) {
    int taken = 0;
    for (int i = 0; i < count; ++i) {
      FairQueue::Task task = [] {};
      taken += queue.push(client, task) ? 1 : 0;
    }
    return taken;
  }

  // Whose turn it is, as often as anybody may run.
  std::string run_all() {
    std::string order;
    while (auto next = queue.pop()) {
      order += next->client;
    }
    return order;
  }

  FairQueue queue;
};

TEST(FairQueue, CountsWhatNeverWaitedInTheSharesOfAll) {
  Tasks tasks(4);
  EXPECT_TRUE(tasks.queue.begin("a"));
  EXPECT_TRUE(tasks.queue.begin("a"));
  EXPECT_FALSE(tasks.queue.begin("a"));  // has as many as are free beside it
  EXPECT_TRUE(tasks.queue.begin("b"));
  tasks.add("a");
  EXPECT_EQ(tasks.run_all(), "");
  EXPECT_FALSE(tasks.queue.begin("c"));  // another waits
  tasks.queue.done("a");
  EXPECT_EQ(tasks.run_all(), "a");
  tasks.queue.done("a");
  tasks.queue.done("a");
  tasks.queue.done("b");
  EXPECT_TRUE(tasks.queue.begin("c"));
}

TEST(FairQueue, RunsInTheOrderOfArrivalForOneClient) {
  FairQueue queue(8, 10);
  std::string order;
  for (const char c : {'1', '2', '3'}) {
    FairQueue::Task task = [&order, c] { order += c; };
    ASSERT_TRUE(queue.push("a", task));
  }
  while (auto next = queue.pop()) {
    next->task();
    queue.done(next->client);
  }
  EXPECT_EQ(order, "123");
}

TEST(FairQueue, ClientsTakeTurns) {
  Tasks tasks(100);
  tasks.add("a", 4);
  tasks.add("b", 2);
  tasks.add("c", 1);
  EXPECT_EQ(tasks.run_all(), "abcabaa");
}

TEST(FairQueue, OneClientGetsHalfOfTheWorkersAndTheNextStillSome) {
  Tasks tasks(8);
  tasks.add("a", 20);
  EXPECT_EQ(tasks.run_all(), "aaaa");
  tasks.add("b", 20);
  EXPECT_EQ(tasks.run_all(), "bb");
  tasks.add("c");
  EXPECT_EQ(tasks.run_all(), "c");
  EXPECT_FALSE(tasks.queue.has_ready());
  EXPECT_EQ(tasks.queue.waiting(), 34u);
}

TEST(FairQueue, WhoWasPassedOverIsNextWhenItsShareIsFree) {
  Tasks tasks(4);
  tasks.add("a", 4);
  EXPECT_EQ(tasks.run_all(), "aa");
  tasks.add("b", 2);
  EXPECT_EQ(tasks.run_all(), "b");
  tasks.queue.done("a");
  EXPECT_EQ(tasks.run_all(), "a");
}

TEST(FairQueue, ASingleWorkerServesEverybody) {
  Tasks tasks(1);
  tasks.add("a", 2);
  tasks.add("b", 1);
  std::string order;
  while (auto next = tasks.queue.pop()) {
    EXPECT_FALSE(tasks.queue.has_ready());
    order += next->client;
    tasks.queue.done(next->client);
  }
  EXPECT_EQ(order, "aba");
}

TEST(FairQueue, NobodyFillsTheRoom) {
  Tasks tasks(1, 100);
  EXPECT_EQ(tasks.add("a", 200), 50);
  EXPECT_EQ(tasks.add("b", 200), 25);
  EXPECT_EQ(tasks.add("c", 1), 1);
  EXPECT_EQ(tasks.add("a", 1), 0);
  EXPECT_EQ(tasks.queue.waiting(), 76u);
}

TEST(FairQueue, WhatHasBegunIsTakenAndTakesNoRoom) {
  Tasks tasks(1, 4);
  EXPECT_EQ(tasks.add("a", 9), 2);
  FairQueue::Task rest = [] {};
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(tasks.queue.push("b", rest, FairQueue::Room::kNotNeeded));
  }
  EXPECT_EQ(tasks.queue.waiting(), 11u);
  EXPECT_EQ(tasks.add("c", 9), 1);
  EXPECT_EQ(tasks.run_all(), "a");
  EXPECT_EQ(tasks.add("a", 9), 1);  // in the place of the one that runs
}

TEST(FairQueue, RefusesWithoutTakingTheTask) {
  FairQueue queue(1, 1);
  bool has_run = false;
  FairQueue::Task first = [] {};
  FairQueue::Task second = [&] { has_run = true; };
  EXPECT_TRUE(queue.push("a", first));
  EXPECT_FALSE(queue.push("b", second));
  second();
  EXPECT_TRUE(has_run);
}

TEST(FairQueue, ForgetsWhoHasNothingLeft) {
  Tasks tasks(2, 10);
  for (int i = 0; i < 1'000; ++i) {
    const std::string client = std::to_string(i);
    EXPECT_EQ(tasks.add(client), 1);
    EXPECT_EQ(tasks.run_all(), client);
    tasks.queue.done(client);
  }
  EXPECT_EQ(tasks.queue.waiting(), 0u);
}

}  // namespace
}  // namespace trainyard::http
