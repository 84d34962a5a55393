// SPDX-License-Identifier: Apache-2.0
// A disk that is full for the database while the log has room: what was reported comes again until
// it is stored, each line stands once, and who speaks is not taken for silent.
#include "control/run/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "control/tables/schema.h"
#include "control/testing/job_values.h"
#include "testing/fake_clock.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kStream = "demo/algo-1";
const InstanceCaller kCaller{.token = "token"};

class SessionsTest : public ::testing::Test {
 protected:
  SessionsTest() {
    Job job = new_job("demo", 1);
    const InstanceRow row{.key = {.job = "demo", .host = "algo-1"},
                          .token_hash = sha256_hex(kCaller.token),
                          .facts = {.host = "algo-1"}};
    EXPECT_TRUE(database_->write([&](Connection& connection) -> Result<void> {
      YARD_TRY(insert_job(connection, job));
      return insert_instance(connection, row);
    }));
    wire::Assignment assignment;
    assignment.log_stream = kStream;
    sessions_.open("demo", {{.row = row, .assignment = assignment}});
  }

  // SQLite then answers as it does when its file cannot grow.
  void set_most_pages(int pages) {
    EXPECT_TRUE(database_->write([&](Connection& connection) {
      return connection.execute("PRAGMA max_page_count = " + std::to_string(pages));
    }));
  }
  void fill_disk() { set_most_pages(1); }
  void make_room() { set_most_pages(1'000'000); }

  // Facts that need more room than the database has.
  static wire::Report report(std::int64_t seq) {
    wire::Report report{.seq = seq, .message = std::string(100'000, 'm')};
    report.lines = {{.at = kTestTime, .text = "line " + std::to_string(seq)}};
    return report;
  }
  Result<nlohmann::json> send(std::initializer_list<std::int64_t> numbers) {
    nlohmann::json body = nlohmann::json::array();
    for (const std::int64_t seq : numbers) {
      body.push_back(wire::to_json(report(seq)));
    }
    return sessions_.reports(kCaller, body);
  }
  std::vector<std::string> lines() {
    std::vector<std::string> texts;
    const auto page = logs_->read(kTrainingLogGroup, kStream, {});
    for (const StoredEvent& event : page ? page->events : std::vector<StoredEvent>()) {
      texts.push_back(event.text);
    }
    return texts;
  }

  TempDir folder_ = *TempDir::make("sessions-", "/dev/shm");
  testing::FakeClock clock_{kTestTime};
  std::unique_ptr<Database> database_ =
      std::move(*Database::open(folder_.path() / "db", schema_migrations()));
  std::unique_ptr<LogStore> logs_ = std::move(*LogStore::open(folder_.path() / "logs", clock_));
  std::vector<News> news_;
  Sessions sessions_{*database_, *logs_, clock_,
                     [this](News news) { news_.push_back(std::move(news)); }};
};

TEST_F(SessionsTest, KeepsEachLineOnceHoweverOftenTheFactsAreRefused) {
  fill_disk();
  for (int i = 0; i < 3; ++i) {
    const auto refused = send({1, 2});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kExhausted);
  }
  EXPECT_FALSE(send({1, 2, 3}));  // more has come meanwhile
  make_room();
  const auto stored = send({1, 2, 3, 4});
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ((*stored)["acknowledged"], 4);
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3", "line 4"));
}

TEST_F(SessionsTest, TellsThatItWasHeardAndWhyNothingCouldBeKept) {
  fill_disk();
  ASSERT_FALSE(send({1}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_.back().acknowledged, 0);
  EXPECT_EQ(news_.back().facts.message, "");
  EXPECT_THAT(news_.back().facts.unstored, HasSubstr("full"));
  make_room();
  ASSERT_TRUE(send({1}));
  EXPECT_EQ(news_.back().facts.unstored, "");
}

}  // namespace
}  // namespace trainyard::control
