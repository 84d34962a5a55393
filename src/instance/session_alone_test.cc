// SPDX-License-Identifier: Apache-2.0
// Instances that nobody waits for: their job has finished before they came, or their server is
// gone.
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instance/testing/session_fixture.h"
#include "instance/testing/sleepers.h"

namespace trainyard::instance {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SessionTest, EndsAtOnceAndWellWhenItsJobHasFinishedBeforeItCame) {
  source({{"train.sh", "echo ran"}});
  make_server();
  server_->deny(true);
  launch();
  wait_for_end(0);
  EXPECT_THAT(supervisor_log(),
              AllOf(HasSubstr("job already finished"), HasSubstr("the server answers 403")));
  EXPECT_THAT(server_->reports(), IsEmpty());
}

// They wait until a server counts as away: seconds, so that these are integration tests.
class SessionAloneTest : public SessionTest {};

int times_in(std::string_view text, std::string_view part) {
  int times = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

// Saves when it is stopped, and leaves a daemon behind. Tests run side by side: each has its own.
std::string hang(const std::string& daemon) {
  return "setsid sleep " + daemon +
         " &\n"
         "trap 'echo saved > /opt/ml/model/last; exit 0' TERM\n"
         "echo up; while :; do sleep 0.05; done\n";
}

TEST_F(SessionAloneTest, EndsAProgramWhoseTimeIsOverAndLeavesWhenNoServerComesBack) {
  source({{"train.sh", hang("86393.25")}});
  request_["StoppingCondition"] = {{"MaxRuntimeInSeconds", 1}};
  // In which a busy machine hears of its server, while there is one.
  orphan_limit_ = wire::kSilence;
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->be_away(true);
  wait_for_end(1);
  EXPECT_THAT(supervisor_log(), HasSubstr("the server is away, and MaxRuntimeInSeconds with the "
                                          "stop grace (4 s) is over: stopping the program"));
  EXPECT_THAT(supervisor_log(),
              HasSubstr("leaving; what was not sent lies in " + scratch().string()));
  EXPECT_LE(times_in(supervisor_log(), "reports are not sent"), 3) << supervisor_log();
  EXPECT_LE(times_in(supervisor_log(), "no commands"), 3);
  EXPECT_EQ(read_file(scratch() / "ml/model/last").value_or(""), "saved\n");
  EXPECT_FALSE(sleeps_somewhere("86393.25"));
}

TEST_F(SessionAloneTest, KeepsWhatAProgramSavedThatItStoppedAloneForAServerThatComesBack) {
  source({{"train.sh", hang("86392.25")}});
  request_["StoppingCondition"] = {{"MaxRuntimeInSeconds", 1}};
  launch();
  ASSERT_TRUE(wait_for_line("up"));
  server_->be_away(true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::exists(scratch() / "ml/model/last") &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(Duration(20));
  }
  server_->be_away(false);
  wait_for_end();
  EXPECT_TRUE(exit().stopped && exit().is_overdue && !exit().is_leaving);
  EXPECT_EQ(model_file("last"), "saved\n");
  EXPECT_THAT(server_->lines(), Contains(HasSubstr("stopping the program")));
}

TEST_F(SessionAloneTest, LeavesAStoreThatTakesNothingWhenNoServerComesBack) {
  source({{"train.sh", "echo saved > /opt/ml/model/last"}});
  orphan_limit_ = Duration(5000);
  make_server();
  server_->refuse_puts(1'000'000, 507, "InsufficientStorage");
  server_->be_away_from(wire::Phase::kUploading);
  launch();
  wait_for_end(1);
  EXPECT_THAT(supervisor_log(), AllOf(HasSubstr("The store is full"),
                                      HasSubstr("was heard of the server for 5 s: leaving")));
  EXPECT_EQ(read_file(scratch() / "ml/model/last").value_or(""), "saved\n");
}

TEST_F(SessionAloneTest, WaitsForTheOrphanLimitWithTheWordThatAllIsSent) {
  source({{"train.sh", "echo saved > /opt/ml/model/last"}});
  orphan_limit_ = Duration(5000);
  make_server();
  server_->be_away_from(wire::Phase::kFinished);
  launch();
  wait_for_end(1);
  EXPECT_EQ(model_file("last"), "saved\n");
  EXPECT_THAT(supervisor_log(), HasSubstr("nothing was heard of the server for 5 s: leaving"));
}

TEST_F(SessionAloneTest, LeavesWhenItIsToldToThoughNobodyHasHeardThatAllIsSent) {
  source({{"train.sh", "echo saved > /opt/ml/model/last"}});
  orphan_limit_ = Duration(60'000);
  make_server();
  server_->be_away_from(wire::Phase::kFinished);
  launch();
  ASSERT_TRUE(server_->wait_until([&] { return server_->refused() > 0; }));
  ASSERT_TRUE(instance_->signal(SIGTERM));
  wait_for_end(1, Duration(5'000));
}

TEST_F(SessionAloneTest, LeavesWhenItIsToldToWhileItAsksForItsAssignment) {
  source({{"train.sh", "echo ran"}});
  make_server();
  server_->be_away(true);
  launch();
  ASSERT_TRUE(server_->wait_until([&] { return server_->refused() > 0; }));
  ASSERT_TRUE(instance_->signal(SIGTERM));
  wait_for_end(1, Duration(5'000));
}

TEST_F(SessionAloneTest, TellsAServerThatComesBackThatAllIsSent) {
  source({{"train.sh", "echo saved > /opt/ml/model/last"}});
  make_server();
  server_->be_away_from(wire::Phase::kFinished);
  launch();
  ASSERT_TRUE(server_->wait_until([&] { return server_->refused() > 0; }));
  server_->be_away_from(wire::Phase::kStarting);
  server_->be_away(false);
  wait_for_end();
  EXPECT_TRUE(server_->has_phase(wire::Phase::kFinished));
}

}  // namespace
}  // namespace trainyard::instance
