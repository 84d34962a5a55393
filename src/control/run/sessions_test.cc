// SPDX-License-Identifier: Apache-2.0
// A database that refuses facts while the log has room, because the disk is full or the server
// dies in between: what was reported comes again until it is stored, each line stands once, and who
// speaks is not taken for silent.
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
    EXPECT_TRUE(database_->write([](Connection& connection) {
      Job job = new_job("demo", 1);
      return insert_job(connection, job);
    }));
    begin_attempt(1);
  }

  void begin_attempt(int epoch) {
    const InstanceRow row{.key = {.job = "demo", .epoch = epoch, .host = "algo-1"},
                          .token_hash = sha256_hex(kCaller.token),
                          .facts = {.host = "algo-1"}};
    EXPECT_TRUE(database_->write([&](Connection& connection) -> Result<void> {
      YARD_TRY(delete_instances(connection, "demo"));
      return insert_instance(connection, row);
    }));
    open(row);
  }
  void open(const InstanceRow& row) {
    wire::Assignment assignment;
    assignment.log_stream = kStream;
    sessions_->open("demo", {{.row = row, .assignment = assignment}});
  }
  // As the server is started again: it knows what is on the disk.
  void restart(int epoch = 1) {
    make_room();
    sessions_ = make_sessions();
    const auto rows = database_->read(
        [&](Connection& connection) { return instances_of(connection, "demo", epoch); });
    ASSERT_EQ(rows.value().size(), 1u);
    open(rows->front());
  }
  std::unique_ptr<Sessions> make_sessions() {
    return std::make_unique<Sessions>(*database_, *logs_, clock_,
                                      [this](News news) { news_.push_back(std::move(news)); });
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
    return sessions_->reports(kCaller, body);
  }
  // Reports from `seq` on, of one line each, all of one moment.
  Result<nlohmann::json> say(std::int64_t seq, std::initializer_list<const char*> texts) {
    nlohmann::json body = nlohmann::json::array();
    for (const char* text : texts) {
      body.push_back(
          wire::to_json(wire::Report{.seq = seq++, .lines = {{.at = kTestTime, .text = text}}}));
    }
    return sessions_->reports(kCaller, body);
  }
  // The server dies when their lines are in the log and their facts are not yet stored.
  void die_while_storing(std::initializer_list<std::int64_t> numbers) {
    fill_disk();
    EXPECT_FALSE(send(numbers));
    restart();
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
  std::unique_ptr<Sessions> sessions_ = make_sessions();
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

TEST_F(SessionsTest, KeepsEachLineOnceOverADeathBetweenLogAndDatabase) {
  ASSERT_TRUE(send({1}));
  die_while_storing({2, 3});
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3"));
  const auto stored = send({2, 3, 4});
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ((*stored)["acknowledged"], 4);
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3", "line 4"));
}

TEST_F(SessionsTest, KeepsEachLineOnceInWhateverPortionsTheyComeAgain) {
  die_while_storing({1, 2, 3});
  ASSERT_TRUE(send({1}));
  die_while_storing({2});
  ASSERT_TRUE(send({2}));
  ASSERT_TRUE(send({3, 4}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3", "line 4"));
}

// A loss of power may leave the first of the lines that were written.
TEST_F(SessionsTest, AddsWhatIsMissingOfTornLines) {
  ASSERT_TRUE(send({1}));
  const std::vector<LogEvent> torn = {{.at = kTestTime, .text = "line 2"}};
  ASSERT_TRUE(logs_->append(kTrainingLogGroup, kStream, torn));
  restart();
  ASSERT_TRUE(send({2, 3}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3"));
}

TEST_F(SessionsTest, KeepsEveryOneOfEqualLines) {
  ASSERT_TRUE(say(1, {"tick", "tick"}));
  restart();
  ASSERT_TRUE(say(3, {"tick"}));
  ASSERT_TRUE(say(4, {"tick"}));
  EXPECT_THAT(lines(), ElementsAre("tick", "tick", "tick", "tick"));
}

TEST_F(SessionsTest, TakesOtherLinesInTheLogForNoRepetition) {
  ASSERT_TRUE(send({1}));
  const std::vector<LogEvent> other = {{.at = kTestTime, .text = "line 2, or nearly"}};
  ASSERT_TRUE(logs_->append(kTrainingLogGroup, kStream, other));
  restart();
  ASSERT_TRUE(send({2}));
  ASSERT_TRUE(send({3}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2, or nearly", "line 2", "line 3"));
}

// It numbers its reports anew, in the same stream.
TEST_F(SessionsTest, KeepsTheLinesOfAFurtherAttempt) {
  ASSERT_TRUE(send({1, 2}));
  begin_attempt(2);
  ASSERT_TRUE(send({1}));
  fill_disk();
  EXPECT_FALSE(send({2}));
  restart(2);
  ASSERT_TRUE(send({2, 3}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 1", "line 2", "line 3"));
}

TEST_F(SessionsTest, KeepsTheFirstLinesOfAFurtherAttemptOnceOverADeath) {
  ASSERT_TRUE(say(1, {"line 1"}));
  begin_attempt(2);
  for (int deaths = 0; deaths < 2; ++deaths) {
    fill_disk();
    EXPECT_FALSE(send({1}));
    restart(2);
  }
  ASSERT_TRUE(send({1, 2}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 1", "line 2"));
}

TEST_F(SessionsTest, KeepsTheFirstLinesOfAFurtherAttemptOnceWhenTheirFactsAreRefused) {
  ASSERT_TRUE(say(1, {"line 1"}));
  begin_attempt(2);
  fill_disk();
  EXPECT_FALSE(send({1}));
  make_room();
  ASSERT_TRUE(send({1, 2}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 1", "line 2"));
}

// As servers have left it that did not say where the log ends.
TEST_F(SessionsTest, KeepsLinesOnceOfAnInstanceWhoseEndOfTheLogIsUnknown) {
  ASSERT_TRUE(say(1, {"line 1"}));
  ASSERT_TRUE(database_->write([](Connection& connection) {
    return save_facts(connection, {.job = "demo", .epoch = 1, .host = "algo-1"}, {.host = "algo-1"},
                      1);
  }));
  restart();
  fill_disk();
  EXPECT_FALSE(send({2}));
  restart();
  ASSERT_TRUE(send({2, 3}));
  EXPECT_THAT(lines(), ElementsAre("line 1", "line 2", "line 3"));
}

}  // namespace
}  // namespace trainyard::control
