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

// Rank -1 where none is due.
BrokenPeers::Due due_at(BrokenPeers::Time now, const BrokenPeers& broken,
                        const std::function<bool(std::int32_t)>& is_needed = all) {
  return broken.due(is_needed, now).value_or(BrokenPeers::Due{.rank = -1, .why = ""});
}

TEST(BrokenPeers, OneIsDueOnceOthersHadTheirTimeToExplain) {
  BrokenPeers broken;
  broken.note(3, "reset by peer", kBegin);
  EXPECT_EQ(due_at(kOver - milliseconds(1), broken).rank, -1);
  EXPECT_EQ(due_at(kOver, broken).rank, 3);
  EXPECT_EQ(due_at(kOver, broken).why, "reset by peer");
}

TEST(BrokenPeers, TheFirstReasonAndItsTimeStay) {
  BrokenPeers broken;
  broken.note(3, "reset by peer", kBegin);
  broken.note(3, "closed", kOver);
  EXPECT_EQ(due_at(kOver, broken).why, "reset by peer");
}

TEST(BrokenPeers, OneThatNobodyNeedsIsNeverDue) {
  BrokenPeers broken;
  broken.note(1, "closed", kBegin);
  broken.note(2, "unreachable", kBegin);
  const BrokenPeers::Time later = kOver + seconds(60);
  EXPECT_EQ(due_at(later, broken, [](std::int32_t rank) { return rank == 2; }).rank, 2);
  EXPECT_EQ(due_at(later, broken, [](std::int32_t) { return false; }).rank, -1);
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
