// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/channel.h"

#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

namespace trainyard::comm {
namespace {

struct Ring {
  explicit Ring(std::size_t depth) : entries(depth) {}
  std::vector<Entry> entries;
  Consumed consumed;
  ChannelSender out{entries.data(), &consumed, entries.size()};
  ChannelReceiver in{entries.data(), &consumed, entries.size()};
};

std::uint64_t push(ChannelSender& out, std::uint64_t length) {
  out.next().length = length;
  return out.push();
}

TEST(Channel, IsEmptyAtFirstAndHasRoomForItsDepth) {
  Ring ring(4);
  EXPECT_EQ(ring.in.front(), nullptr);
  for (std::uint64_t n = 1; n <= 4; ++n) {
    ASSERT_TRUE(ring.out.has_room());
    EXPECT_EQ(push(ring.out, n), n);
  }
  EXPECT_FALSE(ring.out.has_room());
  EXPECT_EQ(ring.in.front()->length, 1U);
  ring.in.pop();
  EXPECT_TRUE(ring.out.has_room());
}

TEST(Channel, TellsWhichMessagesAreConsumed) {
  Ring ring(4);
  push(ring.out, 0);
  push(ring.out, 0);
  EXPECT_FALSE(ring.out.is_consumed(1));
  ring.in.pop();
  EXPECT_TRUE(ring.out.is_consumed(1));
  EXPECT_FALSE(ring.out.is_consumed(2));
}

TEST(Channel, HasNewsOncePerConsumption) {
  Ring ring(4);
  push(ring.out, 0);
  EXPECT_FALSE(ring.out.has_news());
  ring.in.pop();
  EXPECT_TRUE(ring.out.has_news());
  EXPECT_FALSE(ring.out.has_news());
}

TEST(Channel, DoesNotTakeAnEntryOfTheLastRoundForANewOne) {
  Ring ring(2);
  for (std::uint64_t n = 1; n <= 100; ++n) {
    push(ring.out, n);
    ASSERT_EQ(ring.in.front()->length, n);
    ring.in.pop();
    ASSERT_EQ(ring.in.front(), nullptr);
  }
}

// Under ThreadSanitizer this also shows that entries and payloads are handed over by `turn` and
// `consumed` alone.
TEST(Channel, HandsOverEntriesAndPayloadsBetweenThreads) {
  constexpr std::uint64_t kCount = 2'000;
  Ring ring(8);
  std::vector<std::uint64_t> payload(8);
  std::jthread sender([&] {
    for (std::uint64_t n = 1; n <= kCount; ++n) {
      while (!ring.out.has_room()) {
        sched_yield();
      }
      payload[n % 8] = n;
      push(ring.out, n);
    }
  });
  for (std::uint64_t n = 1; n <= kCount; ++n) {
    while (ring.in.front() == nullptr) {
      sched_yield();
    }
    ASSERT_EQ(ring.in.front()->length, n);
    ASSERT_EQ(payload[n % 8], n);
    ring.in.pop();
  }
}

}  // namespace
}  // namespace trainyard::comm
