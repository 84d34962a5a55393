// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/turns.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/thread.h"

namespace trainyard::s3 {
namespace {

TEST(Turns, OfTheSameNameComeOneAfterTheOther) {
  Turns turns;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(start_thread("turn", [&](const std::stop_token&) {
        for (int n = 0; n < 50; ++n) {
          const Turns::Turn turn(turns, "a");
          most = std::max(most.load(), ++inside);
          std::this_thread::yield();
          --inside;
        }
      }));
    }
  }
  EXPECT_EQ(most, 1);
}

TEST(Turns, OfOtherNamesDoNotWait) {
  Turns turns;
  const Turns::Turn a(turns, "a");
  const Turns::Turn b(turns, "b");
}

TEST(Turns, ANameIsFreeAgain) {
  Turns turns;
  { const Turns::Turn first(turns, "a"); }
  const Turns::Turn second(turns, "a");
}

}  // namespace
}  // namespace trainyard::s3
