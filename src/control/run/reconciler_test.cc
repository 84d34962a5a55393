// SPDX-License-Identifier: Apache-2.0
// The reconciler turn by turn, without its thread: calls come back when the test says so, the disk
// is slow, the database cannot be read. What goes well is told in control_test.cc.
#include "control/run/reconciler.h"

#include <filesystem>
#include <functional>
#include <future>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "control/tables/schema.h"
#include "control/testing/fake_engine.h"
#include "control/testing/job_values.h"
#include "s3/directory/directory_store.h"
#include "testing/fake_clock.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using wire::Phase;

class ReconcilerTest : public ::testing::Test {
 protected:
  ReconcilerTest() {
    EXPECT_TRUE(objects_->create_bucket("bucket"));
    EXPECT_TRUE(reconciler_.adopt());
  }

  // Handles what has come. Calls that are made meanwhile stay in flight.
  void turn() {
    std::vector<Event> events;
    while (auto event = events_->pop_for(Duration(0))) {
      events.push_back(std::move(*event));
    }
    reconciler_.take(events);
  }
  void tick() {
    clock_.advance(Duration(500));
    turn();
  }
  void finish_calls() {
    for (const auto& call : std::exchange(calls_, {})) {
      call();
    }
    turn();
  }

  // As CreateTrainingJob leaves it; with code in S3, which is not there.
  void create(bool with_source = false) {
    Job job = new_job("demo", 1);
    if (with_source) {
      job.request["HyperParameters"] = {
          {"sagemaker_submit_directory", "\"s3://bucket/no.tar.gz\""}};
    }
    EXPECT_TRUE(
        database_->write([&](Connection& connection) { return insert_job(connection, job); }));
    events_->push(JobCreated{.name = "demo"});
  }
  std::future<Result<void>> stop() {
    auto answer = std::make_shared<std::promise<Result<void>>>();
    events_->push(StopAsked{.name = "demo", .answer = answer});
    return answer->get_future();
  }
  Job job() {
    auto found =
        database_->read([](Connection& connection) { return find_job(connection, "demo"); });
    return found && *found ? std::move(**found) : Job();
  }

  Result<json> report(wire::Report report) {
    report.seq = ++seq_;
    return sessions_.reports({.token = engine_.token("demo", "algo-1")},
                             json::array({wire::to_json(report)}));
  }
  void train() {
    create();
    turn();
    finish_calls();  // prepares
    finish_calls();  // starts
    for (const Phase phase : {Phase::kDownloading, Phase::kReady, Phase::kTraining}) {
      ASSERT_TRUE(report({.phase = phase}));
      turn();
    }
    ASSERT_EQ(job().secondary, Secondary::kTraining);
  }

  // Meanwhile nobody can read the database. What is open of it stays so.
  void while_unreadable(const std::function<void()>& what) {
    const Path elsewhere = home_.path() / "elsewhere";
    std::filesystem::rename(file_, elsewhere);
    std::vector<Database::Reader> idle;
    while (auto reader = database_->reader()) {
      idle.push_back(*std::move(reader));
    }
    what();
    std::filesystem::rename(elsewhere, file_);
  }

  // What happens while the disk takes its time for the next sync of a log.
  inline static std::function<void()> during_sync_;
  static int sync_file(int fd) {
    if (const auto what = std::exchange(during_sync_, nullptr)) {
      what();
    }
    return ::fdatasync(fd);
  }

  TempDir home_ = *TempDir::make("reconciler-", "/dev/shm");
  testing::FakeClock clock_{kTestTime};
  SystemRandom random_;
  FakeEngine engine_;
  std::unique_ptr<s3::DirectoryStore> objects_ =
      std::move(*s3::DirectoryStore::open(home_.path() / "objects", clock_, random_));
  ControlOptions options_{.home = home_.path()};
  Config config_;
  Outside outside_{.clock = clock_, .random = random_, .objects = *objects_, .engine = engine_};
  Path file_ = home_.path() / "db";
  std::unique_ptr<Database> database_ = std::move(*Database::open(file_, schema_migrations()));
  // Its own thread syncs nothing before the test is over.
  std::unique_ptr<LogStore> logs_ = std::move(
      *LogStore::open(home_.path() / "logs", clock_,
                      {.sync_after = std::chrono::hours(1), .stream = {.sync_file = &sync_file}}));
  std::unique_ptr<Identity> identity_ = std::move(
      *Identity::open(*database_, clock_, random_, options_.account, home_.path() / "credentials"));
  std::shared_ptr<EventQueue> events_ = std::make_shared<EventQueue>(1000);
  Sessions sessions_{*database_, *logs_, clock_,
                     [this](News news) { events_->push(std::move(news)); }};
  std::vector<std::function<void()>> calls_;  // in flight
  Background background_ = [this](std::function<void()> call) {
    calls_.push_back(std::move(call));
  };
  Surroundings around_{options_,   config_,   outside_,    *database_, *logs_,
                       *identity_, sessions_, background_, background_};
  Reconciler reconciler_{around_, events_};
  std::int64_t seq_ = 0;
};

TEST_F(ReconcilerTest, TakesNobodyForSilentWhoseReportASlowDiskStores) {
  train();
  during_sync_ = [this] {
    for (int i = 0; i < 16; ++i) {
      tick();
    }
  };
  ASSERT_TRUE(report({.lines = {{.at = kTestTime, .text = "step 1"}}}));
  turn();
  EXPECT_EQ(job().secondary, Secondary::kTraining);
  EXPECT_EQ(job().attempts.size(), 1u);
  for (int i = 0; i < 11; ++i) {
    tick();
  }
  EXPECT_EQ(job().secondary, Secondary::kStarting) << "it has been silent since";
}

TEST_F(ReconcilerTest, RunsAJobThatCouldNotBeReadAtFirst) {
  create();
  while_unreadable([this] { turn(); });
  EXPECT_EQ(job().stage, Stage::kNew);
  tick();
  EXPECT_EQ(job().stage, Stage::kPreparing);
}

TEST_F(ReconcilerTest, DoesNotTakeAJobThatCannotBeReadForOneThatHasEnded) {
  create();
  auto answer = stop();
  while_unreadable([this] { turn(); });
  EXPECT_EQ(answer.get().error().code, Code::kUnavailable);
  answer = stop();
  tick();
  EXPECT_TRUE(answer.get());
  EXPECT_EQ(job().secondary, Secondary::kStopped);
}

TEST_F(ReconcilerTest, TakesNoAnswerThatIsAboutAJobOfTheSameName) {
  create(/*with_source=*/true);
  turn();
  ASSERT_EQ(job().stage, Stage::kChecking);
  const auto late = std::exchange(calls_, {});
  auto stopped = stop();
  turn();
  ASSERT_TRUE(stopped.get());
  ASSERT_TRUE(
      database_->write([](Connection& connection) { return delete_job(connection, "demo"); }));
  create(/*with_source=*/true);
  turn();
  for (const auto& call : late) {
    call();
  }
  turn();
  EXPECT_EQ(job().stage, Stage::kChecking);
  finish_calls();
  EXPECT_EQ(job().stage, Stage::kDone) << "its own answer counts";
}

}  // namespace
}  // namespace trainyard::control
