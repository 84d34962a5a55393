// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/broken_peers.h"

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr BrokenPeers::Time kBegin{seconds(100)};
constexpr BrokenPeers::Time kOver = kBegin + BrokenPeers::kLetOthersExplain;

bool all(std::int32_t) {
  return true;
}

TEST(BrokenPeers, OneIsDueOnceOthersHadTheirTimeToExplain) {
  BrokenPeers broken;
  broken.note(3, "reset by peer", kBegin);
  EXPECT_FALSE(broken.due(all, kOver - milliseconds(1)));
  const auto due = broken.due(all, kOver);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->rank, 3);
  EXPECT_EQ(due->why, "reset by peer");
}

TEST(BrokenPeers, TheFirstReasonAndItsTimeStay) {
  BrokenPeers broken;
  broken.note(3, "reset by peer", kBegin);
  broken.note(3, "closed", kOver);
  const auto due = broken.due(all, kOver);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->why, "reset by peer");
}

TEST(BrokenPeers, OneThatNobodyNeedsIsNeverDue) {
  BrokenPeers broken;
  broken.note(1, "closed", kBegin);
  broken.note(2, "unreachable", kBegin);
  const auto due = broken.due([](std::int32_t rank) { return rank == 2; }, kOver + seconds(60));
  ASSERT_TRUE(due);
  EXPECT_EQ(due->rank, 2);
  EXPECT_FALSE(broken.due([](std::int32_t) { return false; }, kOver + seconds(60)));
}

TEST(BrokenPeers, WaitsAreShortWhileThereIsOne) {
  BrokenPeers broken;
  EXPECT_TRUE(broken.is_empty());
  EXPECT_EQ(broken.limit(seconds(1)), seconds(1));
  broken.note(0, "closed", kBegin);
  EXPECT_TRUE(broken.has(0));
  EXPECT_FALSE(broken.has(1));
  EXPECT_EQ(broken.limit(seconds(1)), BrokenPeers::kLook);
  EXPECT_EQ(broken.limit(milliseconds(1)), milliseconds(1));
}

}  // namespace
}  // namespace trainyard::comm
