// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/lane.h"

#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

constexpr std::uint64_t kOffset = 4096;

// A lane whose only peer consumes in order, up to `consumed`.
struct OnePeer {
  explicit OnePeer(std::uint64_t bytes) : lane(kOffset, bytes) {}

  std::optional<std::uint64_t> take(std::uint64_t bytes) {
    const std::optional<std::uint64_t> at = lane.find(bytes);
    if (at) {
      lane.pending().mark({.peer = 0, .number = ++sent});
      lane.commit(bytes);
    }
    return at;
  }
  void consume(std::uint64_t number) {
    lane.let_go([number](Mark mark) { return mark.number <= number; });
  }

  Lane lane;
  std::uint64_t sent = 0;
};

TEST(Lane, TakesWholeLinesOneAfterTheOther) {
  OnePeer peer(1024);
  EXPECT_EQ(peer.take(1), kOffset);
  EXPECT_EQ(peer.take(65), kOffset + 64);
  EXPECT_EQ(peer.take(64), kOffset + 192);
}

TEST(Lane, IsFullUntilTheOldestIsConsumed) {
  OnePeer peer(1024);
  EXPECT_TRUE(peer.take(512));
  EXPECT_TRUE(peer.take(512));
  EXPECT_FALSE(peer.take(1));
  peer.consume(1);
  EXPECT_EQ(peer.take(512), kOffset);
  EXPECT_FALSE(peer.take(1));
}

TEST(Lane, LeavesAGapRatherThanToWrapAMessage) {
  OnePeer peer(1024);
  EXPECT_TRUE(peer.take(384));
  EXPECT_TRUE(peer.take(384));
  peer.consume(1);
  EXPECT_EQ(peer.take(320), kOffset);  // 256 bytes are left behind, 384 in front
  EXPECT_FALSE(peer.take(128));
  peer.consume(2);
  EXPECT_EQ(peer.take(128), kOffset + 320);
}

TEST(Lane, StartsAtItsBeginningWhenAllIsConsumed) {
  OnePeer peer(1024);
  peer.take(64);
  peer.take(64);
  peer.consume(2);
  EXPECT_EQ(peer.take(1024), kOffset);
}

TEST(Lane, WaitsForAllReadersOfAMessage) {
  Lane lane(0, 128);
  lane.pending().mark({.peer = 0, .number = 1});
  lane.pending().mark({.peer = 1, .number = 9});
  lane.commit(128);
  lane.let_go([](Mark mark) { return mark.peer == 0; });
  EXPECT_FALSE(lane.find(1));
  lane.let_go([](Mark mark) { return mark.peer == 1; });
  EXPECT_TRUE(lane.find(128));
}

TEST(Lane, NeverGivesMemoryTwice) {
  struct Message {
    std::uint64_t number, begin, end;
  };
  std::mt19937 random(1);
  OnePeer peer(4096);
  std::deque<Message> under_way;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bytes = random() % 1500;
    if (const auto at = peer.take(bytes); at && bytes > 0) {
      for (const Message& other : under_way) {
        ASSERT_TRUE(*at >= other.end || *at + bytes <= other.begin) << i;
      }
      ASSERT_GE(*at, kOffset);
      ASSERT_LE(*at + bytes, kOffset + 4096);
      under_way.push_back({peer.sent, *at, *at + bytes});
    }
    if (random() % 3 == 0 && !under_way.empty()) {
      peer.consume(under_way.front().number);
      under_way.pop_front();
    }
  }
}

}  // namespace
}  // namespace trainyard::comm
