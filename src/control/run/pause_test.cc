// SPDX-License-Identifier: Apache-2.0
#include "control/run/pause.h"

#include <gtest/gtest.h>

#include "control/decide/failure.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;

constexpr Duration kTick{500};

Duration between(Duration gap) {
  return pause_between(after({}).steady, after(gap).steady, kTick);
}

TEST(Pause, IsNoneForWhatABusyMachineDoes) {
  EXPECT_EQ(between(kTick).count(), 0);
  EXPECT_EQ(between(seconds(2)).count(), 0);
}

TEST(Pause, IsWhatExceedsATick) {
  EXPECT_EQ(between(Duration(9500)), seconds(9));
}

TEST(Pause, IsNoSilenceOfInstances) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  const Now now = after(seconds(9));
  ASSERT_TRUE(is_lost(facts.instances[0], facts, now));
  forgive(seconds(9), now, job, facts);
  EXPECT_FALSE(is_lost(facts.instances[0], facts, now));
  EXPECT_FALSE(is_lost(facts.instances[0], facts, after(seconds(14))));
  EXPECT_TRUE(is_lost(facts.instances[0], facts, after(Duration(14'001))));
}

TEST(Pause, IsNoTimeForAFirstReport) {
  Job job = running_job(Secondary::kStarting);
  Facts facts = facts_in(wire::Phase::kStarting);
  facts.instances[0].last_report.reset();
  const Now now = after(seconds(70));
  forgive(seconds(60), now, job, facts);
  EXPECT_FALSE(is_lost(facts.instances[0], facts, now));
}

TEST(Pause, LeavesNoReportInTheFuture) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(wire::Phase::kTraining);
  const Now now = after(seconds(3));
  forgive(seconds(9), now, job, facts);
  EXPECT_EQ(facts.instances[0].last_report.value_or(Now()).steady, now.steady);
  EXPECT_EQ(facts.instances[0].last_report.value_or(Now()).wall, kTestTime);
}

TEST(Pause, StretchesTheDeadlineOfAStage) {
  Job job = running_job(Secondary::kTraining);
  job.stage_until = kTestTime + seconds(15);
  Facts facts;
  forgive(seconds(9), after(seconds(9)), job, facts);
  EXPECT_EQ(job.stage_until, kTestTime + seconds(24));
}

}  // namespace
}  // namespace trainyard::control
