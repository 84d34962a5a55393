// SPDX-License-Identifier: Apache-2.0
#include "control/decide/signal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/testing/job_values.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::Phase;
using wire::UserSignal;

const Now kNow = after({});

std::vector<std::string> planned(const Job& job, const Facts& facts) {
  const auto sends = plan_signal(job, facts, UserSignal::kUsr2, kNow);
  if (!sends) {
    return {sends.error().message};
  }
  std::vector<std::string> lines;
  for (const Send& send : *sends) {
    EXPECT_EQ(send.signal, UserSignal::kUsr2);
    lines.push_back(describe(send));
  }
  return lines;
}

TEST(PlanSignal, TellsEveryInstanceThatTrains) {
  EXPECT_THAT(planned(running_job(Secondary::kTraining), facts_in(Phase::kTraining)),
              ElementsAre("Send algo-1 signal", "Send algo-2 signal"));
}

// It was told to go before, and commands are heard in order.
TEST(PlanSignal, TellsOneThatHasNotSaidYetThatItTrains) {
  Facts facts = facts_in(Phase::kTraining);
  facts.instances[1].phase = Phase::kReady;
  EXPECT_THAT(planned(running_job(Secondary::kTraining), facts),
              ElementsAre("Send algo-1 signal", "Send algo-2 signal"));
}

TEST(PlanSignal, LeavesOutInstancesWhoseProgramHasEnded) {
  Facts facts = facts_in(Phase::kTraining);
  end(facts.instances[0], exit_with(0));
  EXPECT_THAT(planned(running_job(Secondary::kTraining), facts), ElementsAre("Send algo-2 signal"));
  end(facts.instances[1], exit_with(0));
  EXPECT_THAT(planned(running_job(Secondary::kTraining), facts),
              ElementsAre(HasSubstr("its program is not running")));
}

TEST(PlanSignal, IsRefusedWithTheJobsStateWhileNoProgramRuns) {
  EXPECT_THAT(planned(running_job(Secondary::kDownloading), facts_in(Phase::kDownloading)),
              ElementsAre("USR2 cannot be sent to the training job 'demo': its program is not "
                          "running, the job is InProgress, Downloading."));
  EXPECT_THAT(planned(job_in(Stage::kWaiting), {}), ElementsAre(HasSubstr("InProgress, Starting")));
  Job stopping = running_job(Secondary::kTraining);
  Facts facts = facts_in(Phase::kTraining);
  stopping.stop_requested = kTestTime;
  settle(stopping, facts, kNow);
  EXPECT_THAT(planned(stopping, facts), ElementsAre(HasSubstr("the job is Stopping.")));
  const auto refused = plan_signal(stopping, facts, UserSignal::kUsr1, kNow);
  EXPECT_EQ(refused.error().code, Code::kConflict);
}

}  // namespace
}  // namespace trainyard::control
