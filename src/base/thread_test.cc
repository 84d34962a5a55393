// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <atomic>
#include <latch>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "base/wake_up.h"

namespace trainyard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

TEST(StartThread, NamesTheThreadWithinTheKernelsLimit) {
  std::string name(16, '\0');
  start_thread("a-name-of-more-than-15", [&](const std::stop_token&) {
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }).join();
  EXPECT_STREQ(name.c_str(), "a-name-of-more-");
}

TEST(BoundedQueue, GivesItemsInOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  EXPECT_EQ(queue.pop_for(seconds(1)), 1);
  EXPECT_EQ(queue.pop_for(seconds(1)), 2);
  EXPECT_EQ(queue.pop_for(milliseconds(0)), std::nullopt);
}

TEST(BoundedQueue, HoldsProducersBackWhileItIsFull) {
  BoundedQueue<int> queue(1);
  std::vector<int> got;
  std::jthread producer = start_thread("producer", [&](const std::stop_token&) {
    for (int i = 0; i < 1000; ++i) {
      queue.push(i);
    }
    queue.close();
  });
  while (const auto item = queue.pop_for(seconds(10))) {
    got.push_back(*item);
  }
  EXPECT_EQ(got.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
}

TEST(BoundedQueue, IsDrainedAfterItIsClosed) {
  BoundedQueue<int> queue(2);
  queue.push(1);
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop_for(seconds(1)), 1);
  EXPECT_EQ(queue.pop_for(seconds(1)), std::nullopt);
}

TEST(BoundedQueue, WakesAWaitingProducerWhenItCloses) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  std::atomic<bool> taken = true;
  std::jthread producer =
      start_thread("producer", [&](const std::stop_token&) { taken = queue.push(2); });
  queue.close();
  producer.join();
  EXPECT_FALSE(taken);
}

TEST(WorkerPool, RunsTasksSideBySide) {
  std::latch all(3);
  WorkerPool pool("pool", 3);
  for (int i = 0; i < 3; ++i) {
    pool.post([&] { all.arrive_and_wait(); });
  }
  all.wait();  // would never end with fewer than three threads
}

TEST(WorkerPool, StartsNoMoreThreadsThanAllowed) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  {
    WorkerPool pool("pool", 2);
    for (int i = 0; i < 200; ++i) {
      pool.post([&] {
        const std::scoped_lock lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
    }
  }
  EXPECT_GE(ids.size(), 1u);
  EXPECT_LE(ids.size(), 2u);
}

TEST(WorkerPool, RunsAllThatWasQueuedBeforeItEnds) {
  std::atomic<int> done = 0;
  {
    WorkerPool pool("pool", 1);
    for (int i = 0; i < 500; ++i) {
      pool.post([&] { ++done; });
    }
  }
  EXPECT_EQ(done, 500);
}

TEST(WorkerPool, RunsWhatATaskPostsWhileThePoolEnds) {
  std::vector<int> order;
  {
    WorkerPool pool("pool", 1);
    pool.post([&] {
      order.push_back(1);
      pool.post([&] { order.push_back(2); });
    });
  }
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(WakeUp, ACallThatComesBeforeTheSleepIsNotLost) {
  WakeUp wake_up;
  int told = 0;
  const std::jthread caller = start_thread("caller", [&](const std::stop_token&) {
    for (int i = 0; i < 100; ++i) {
      ++told;
    }
    wake_up.call();
  });
  wake_up.sleep();
  EXPECT_EQ(told, 100);
  wake_up.call();
  wake_up.sleep();
}

}  // namespace
}  // namespace trainyard
