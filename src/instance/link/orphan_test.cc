// SPDX-License-Identifier: Apache-2.0
#include "instance/link/orphan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr OrphanLimits kLimits{.runtime = seconds(3600 + 120), .orphan = hours(24)};

SteadyTime at(Duration time) {
  return SteadyTime(hours(1) + time);
}

TEST(OrphanStep, StopsAProgramWhoseTimeIsOverWhenTheServerIsAway) {
  const OrphanFacts facts{.runs_since = at(seconds(0)), .heard = at(seconds(10))};
  EXPECT_EQ(orphan_step(facts, kLimits, at(seconds(3719))), OrphanStep::kGoOn);
  EXPECT_EQ(orphan_step(facts, kLimits, at(seconds(3720))), OrphanStep::kStop);
}

// It may have reasons that nobody here knows: a clock that was set, a pause of its own.
TEST(OrphanStep, LeavesTheLimitToAServerThatIsHeard) {
  const OrphanFacts facts{.runs_since = at(seconds(0)), .heard = at(seconds(9000))};
  EXPECT_EQ(orphan_step(facts, kLimits, at(seconds(9004))), OrphanStep::kGoOn);
  EXPECT_EQ(orphan_step(facts, kLimits, at(seconds(9005))), OrphanStep::kStop);
}

TEST(OrphanStep, NeverLeavesAProgramThatRuns) {
  const OrphanFacts facts{.runs_since = at(seconds(0)), .heard = at(seconds(0))};
  const OrphanLimits patient{.runtime = hours(100), .orphan = seconds(1)};
  EXPECT_EQ(orphan_step(facts, patient, at(hours(99))), OrphanStep::kGoOn);
}

TEST(OrphanStep, WaitsWithResultsFromTheirEndAndFromTheServersLastWord) {
  const OrphanFacts ended{.idle_since = at(hours(30)), .heard = at(hours(2))};
  EXPECT_EQ(orphan_step(ended, kLimits, at(hours(54) - seconds(1))), OrphanStep::kGoOn);
  EXPECT_EQ(orphan_step(ended, kLimits, at(hours(54))), OrphanStep::kLeave);
  const OrphanFacts heard{.idle_since = at(hours(2)), .heard = at(hours(30))};
  EXPECT_EQ(orphan_step(heard, kLimits, at(hours(53))), OrphanStep::kGoOn);
  EXPECT_EQ(orphan_step(heard, kLimits, at(hours(54))), OrphanStep::kLeave);
}

TEST(OrphanLimits, AreTheRequestsOrTheServices) {
  wire::Assignment assignment;
  assignment.stop_grace = seconds(120);
  assignment.orphan_limit = hours(3);
  assignment.request = {{"StoppingCondition", {{"MaxRuntimeInSeconds", 60}}}};
  EXPECT_EQ(orphan_limits(assignment).runtime, seconds(180));
  EXPECT_EQ(orphan_limits(assignment).orphan, hours(3));
  assignment.request = nlohmann::json::object();
  EXPECT_EQ(orphan_limits(assignment).runtime, hours(24) + seconds(120));
  assignment.request = {{"StoppingCondition", {{"MaxRuntimeInSeconds", INT64_MAX}}}};
  EXPECT_EQ(orphan_limits(assignment).runtime, hours(24 * 365) + seconds(120));
}

TEST(OrphanStep, IsToldWithWhereTheResultsLie) {
  EXPECT_THAT(describe(OrphanStep::kLeave, kLimits, "/home/run/job"),
              HasSubstr("86400 s: leaving; what was not sent lies in /home/run/job"));
}

}  // namespace
}  // namespace trainyard::instance
