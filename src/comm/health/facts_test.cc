// SPDX-License-Identifier: Apache-2.0
#include "comm/health/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;

const std::vector<Member> kMembers = {{.rank = 0, .host_name = "a", .pid = 10},
                                      {.rank = 1, .host_name = "b", .pid = 11}};
const Signature kFour{.kind = OpKind::kAllReduce, .reduce = ReduceOp::kSum, .count = 4};
const Signature kFive{.kind = OpKind::kAllReduce, .reduce = ReduceOp::kSum, .count = 5};

TEST(FindDisagreement, ComparesOperationsOfOneNumberOnly) {
  const RankProgress zero{.rank = 0, .issued = 2, .recent = {{1, kFour}, {2, kFive}}};
  const RankProgress behind{.rank = 1, .issued = 1, .recent = {{1, kFour}}};
  EXPECT_FALSE(find_disagreement({zero, behind}, kMembers));
  const RankProgress other{.rank = 1, .issued = 2, .recent = {{2, kFour}, {1, kFour}}};
  const auto error = find_disagreement({zero, other}, kMembers);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("operation 2, rank 0 (pid 10 on a) runs all_reduce of 5"));
}

TEST(FindLeftBehind, IsNoFaultWhileNobodyNeedsTheOneWhoLeft) {
  const RankProgress gone{.rank = 0, .issued = 8, .completed = 8, .has_left = true};
  EXPECT_FALSE(find_left_behind({gone, {.rank = 1, .issued = 8, .completed = 7}}, kMembers));
  EXPECT_TRUE(find_left_behind({gone, {.rank = 1, .issued = 9, .completed = 8}}, kMembers));
}

TEST(RankProgress, TravelsWholeOrNotAtAll) {
  const RankProgress progress{
      .rank = 3, .issued = 9, .completed = 8, .has_left = true, .recent = {{8, kFour}, {9, kFive}}};
  const std::string text = encode(progress);
  EXPECT_EQ(*decode_progress(text), progress);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto cut = decode_progress(text.substr(0, length));
    EXPECT_TRUE(!cut || cut->recent.size() < 2) << length;
  }
}

}  // namespace
}  // namespace trainyard::comm
