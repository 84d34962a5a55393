// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/decide/decide.h"
#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::Phase;

const Now kNow = after({});

std::vector<wire::Command::Kind> kinds_sent_to(const std::string& host,
                                               const std::vector<Action>& actions) {
  std::vector<wire::Command::Kind> kinds;
  for (const Action& action : actions) {
    const Send* send = std::get_if<Send>(&action);
    if (send != nullptr && send->host == host) {
      kinds.push_back(send->kind);
    }
  }
  return kinds;
}

// An instance whose server was away has stopped at the limit; the server comes back and hears of it
// before its own clock, which may have been set back, says that the time is over.
wire::Exit overdue_exit() {
  wire::Exit exit = exit_with(0);
  exit.stopped = exit.is_overdue = exit.has_model = true;
  return exit;
}

TEST(DecideOverdue, TakesAStopThatAnInstanceMadeItselfForMaxRuntime) {
  Job job = running_job(Secondary::kTraining, 1);
  Facts facts = facts_in(Phase::kTraining, 1);
  end(facts.instances[0], overdue_exit());
  settle(job, facts, kNow);
  EXPECT_EQ(outcome_in(job).status, Secondary::kMaxRuntimeExceeded);
  EXPECT_EQ(job.stage, Stage::kUploading);
  EXPECT_EQ(job.epoch, 1);
}

TEST(DecideOverdue, StopsTheOthersWhenOneInstanceHasStoppedAtMaxRuntime) {
  Job job = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], overdue_exit());
  EXPECT_THAT(kinds_sent_to("algo-2", settle(job, facts, kNow)),
              ElementsAre(wire::Command::Kind::kStop));
  EXPECT_EQ(outcome_in(job).status, Secondary::kMaxRuntimeExceeded);
}

TEST(DecideOverdue, BlamesNobodyWhoFailedAfterAPeerHadStoppedAtMaxRuntime) {
  for (const bool is_after : {true, false}) {
    Job job = running_job(Secondary::kTraining);
    Facts facts = facts_in(Phase::kTraining);
    end(facts.instances[0], overdue_exit());
    wire::Exit failure = exit_with(1);
    failure.at = facts.instances[0].exit->at + seconds(is_after ? 1 : -1);
    end(facts.instances[1], failure);
    settle(job, facts, kNow);
    EXPECT_EQ(outcome_in(job).status,
              is_after ? Secondary::kMaxRuntimeExceeded : Secondary::kFailed);
  }
}

TEST(DecideOverdue, TakesAStopBySignalForOneFromOutsideAtAnyTime) {
  Job job = without_repairs(running_job(Secondary::kTraining, 1));
  Facts facts = facts_in(Phase::kTraining, 1);
  wire::Exit exit = overdue_exit();
  exit.is_leaving = true;
  exit.is_overdue = false;
  end(facts.instances[0], exit);
  settle(job, facts, kNow);
  EXPECT_THAT(outcome_in(job).reason, HasSubstr("was stopped from outside"));
}

}  // namespace
}  // namespace trainyard::control
