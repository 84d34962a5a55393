// SPDX-License-Identifier: Apache-2.0
#include "comm/health/shown_fault.h"

#include <memory>

#include <gtest/gtest.h>

#include "comm/health/standing.h"

namespace trainyard::comm {
namespace {

TEST(ShownFault, IsTheFirstOne) {
  ShownFault fault;
  EXPECT_FALSE(fault.seen());
  fault.show({Code::kCancelled, "enough"});
  fault.show({Code::kDeadline, "too late"});
  const Error seen = fault.seen().value_or(Error{});
  EXPECT_EQ(seen.code, Code::kCancelled);
  EXPECT_EQ(seen.message, "enough");
}

TEST(ShownFault, KeepsWhatItHasRoomFor) {
  ShownFault fault;
  const std::string text = std::string(ShownFault::kTextBytes - 1, 'a') + "bc";
  fault.show({Code::kConflict, text});
  EXPECT_EQ(fault.seen().value_or(Error{}).message, text.substr(0, ShownFault::kTextBytes));
}

TEST(Standing, ShowsAFaultToTheRanksOfTheHost) {
  const auto segment = std::make_shared<const Segment>(*Segment::create(default_shape(2)));
  Standing one(segment, {4, 6}, 4);
  const Standing other(segment, {4, 6}, 6);
  one.show({Code::kUnavailable, "rank 9 died"});
  EXPECT_EQ(other.fault_of(4).value_or(Error{}).message, "rank 9 died");
  EXPECT_FALSE(other.fault_of(6));
  EXPECT_FALSE(other.fault_of(9));  // of another host
}

}  // namespace
}  // namespace trainyard::comm
