// SPDX-License-Identifier: Apache-2.0
#include "sql/group_commit.h"

#include <atomic>
#include <deque>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread.h"

namespace trainyard::sql {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Change put(const std::string& name, std::size_t bytes = 1) {
  return [name, bytes](Connection& connection) -> Result<void> {
    YARD_TRY(Statement statement,
             connection.prepare("INSERT INTO pair (name, value) VALUES (:name, :value)"));
    return statement.bind_text("name", name).bind_bytes("value", std::string(bytes, 'x')).run();
  };
}

Result<void> nothing(Connection&) {
  return {};
}

std::vector<Code> codes_of(const std::vector<Result<void>>& results) {
  std::vector<Code> codes;
  for (const Result<void>& result : results) {
    codes.push_back(result ? Code::kCancelled : result.error().code);
  }
  return codes;
}
constexpr Code kFine = Code::kCancelled;  // a stand-in: none of the changes is cancelled

class GroupCommitTest : public testing::Test {
 protected:
  // `more` is run on the writing connection; `first` begins each transaction.
  void open(std::string_view more = "", Change first = {}) {
    const Path file = folder_.path() / "test.db";
    ASSERT_TRUE(write_file(file, "", 0600));
    Connection writer = *Connection::open(file, Access::kWrite);
    ASSERT_TRUE(writer.execute(
        "PRAGMA journal_mode = WAL; CREATE TABLE pair (name TEXT PRIMARY KEY, value BLOB)"));
    ASSERT_TRUE(writer.execute(more));
    commits_ = std::make_unique<GroupCommit>(
        std::move(writer),
        AroundEach{.first = std::move(first), .committed = [this] { ++transactions_; }});
  }

  // All of them wait for the transaction after one that does nothing.
  std::vector<Result<void>> write_together(const std::vector<Change>& changes) {
    std::latch all_wait(1);
    GroupCommit::Ticket held(*commits_, [&](Connection&) {
      all_wait.wait();
      return Result<void>();
    });
    while (commits_->waiting() > 0) {
      std::this_thread::yield();
    }
    std::deque<GroupCommit::Ticket> tickets;
    for (const Change& change : changes) {
      tickets.emplace_back(*commits_, change);
    }
    all_wait.count_down();
    std::vector<Result<void>> results;
    for (GroupCommit::Ticket& ticket : tickets) {
      results.push_back(ticket.wait());
    }
    return results;
  }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    Connection reader = *Connection::open(folder_.path() / "test.db", Access::kRead);
    Statement all = *reader.prepare("SELECT name FROM pair ORDER BY rowid");
    while (*all.step()) {
      out.push_back(all.text(0));
    }
    return out;
  }

  TempDir folder_ =
      *TempDir::make("trainyard-group-", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "");
  std::atomic<int> transactions_{0};
  std::unique_ptr<GroupCommit> commits_;
};

TEST_F(GroupCommitTest, SharesOneTransactionAmongThoseThatWait) {
  open();
  std::vector<Change> changes;
  for (int i = 0; i < 32; ++i) {
    changes.push_back(put(std::to_string(i)));
  }
  EXPECT_THAT(codes_of(write_together(changes)), Each(kFine));
  EXPECT_EQ(names().size(), 32u);
  EXPECT_EQ(transactions_, 2);  // the one that held them back, and theirs
}

TEST_F(GroupCommitTest, KeepsTheOrderInWhichTheyCame) {
  open();
  write_together({put("c"), put("a"), put("b")});
  EXPECT_THAT(names(), ElementsAre("c", "a", "b"));
}

TEST_F(GroupCommitTest, WhoHasHandedInAChangeMayDoOtherThings) {
  open();
  std::latch has_run(1);
  GroupCommit::Ticket ticket(*commits_, [&](Connection& connection) {
    has_run.count_down();
    return put("a")(connection);
  });
  has_run.wait();
  EXPECT_TRUE(ticket.wait());
  EXPECT_TRUE(ticket.wait());  // again, and it is the same
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(GroupCommitTest, UndoesOnlyTheOneThatFails) {
  open();
  const auto half = [](Connection& connection) -> Result<void> {
    YARD_TRY(put("half")(connection));
    return Error{.code = Code::kDenied, .message = "no"};
  };
  const auto results = write_together({put("a"), put("a"), half, put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kAlreadyExists, Code::kDenied, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  EXPECT_EQ(transactions_, 2);
}

TEST_F(GroupCommitTest, WhatAFailedChangeDidAloneIsUndoneAndItsErrorIsTold) {
  open();
  const auto failed = commits_->run([](Connection& connection) -> Result<void> {
    YARD_TRY(put("a")(connection));
    return Error{Code::kConflict, "no", "precondition"};
  });
  EXPECT_EQ(failed.error().subject, "precondition");
  EXPECT_THAT(names(), ElementsAre());
  EXPECT_TRUE(commits_->run(put("a")));
  EXPECT_EQ(transactions_, 1);
}

// SQLite ends a whole transaction when the disk is full.
TEST_F(GroupCommitTest, AFullDiskFailsOnlyTheOneThatDoesNotFit) {
  open("PRAGMA max_page_count = 64");
  const auto results = write_together({put("a"), put("large", 1 << 20), put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kExhausted, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(GroupCommitTest, AChangeThatEndsTheTransactionTakesNobodyWithIt) {
  open();
  const auto rude = [](Connection& connection) -> Result<void> {
    YARD_TRY(connection.execute("ROLLBACK"));
    return Error{.code = Code::kUnavailable, .message = "the disk went away"};
  };
  const auto results = write_together({put("a"), rude, put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kUnavailable, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(GroupCommitTest, AFailureToBeginIsEverybodysAndPasses) {
  int begun = 0;
  open("", [&](Connection&) -> Result<void> {
    return ++begun == 2 ? Error{Code::kUnavailable, "not now"} : Result<void>();
  });
  EXPECT_THAT(codes_of(write_together({put("a"), put("b")})), Each(Code::kUnavailable));
  EXPECT_EQ(begun, 2);  // nobody waits for as many failures as there are others
  EXPECT_TRUE(commits_->run(put("a")));
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(GroupCommitTest, WhatEachTransactionBeginsWithIsKeptOrUndoneWithIt) {
  int begun = 0;
  open("", [&](Connection& connection) { return put(std::to_string(++begun))(connection); });
  EXPECT_FALSE(commits_->run([](Connection&) {
    return Result<void>(Error{Code::kConflict, "no"});
  }));
  EXPECT_TRUE(commits_->run(nothing));
  EXPECT_THAT(names(), ElementsAre("2"));
  EXPECT_EQ(transactions_, 1);
}

TEST_F(GroupCommitTest, TellsEveryoneWhenTheCommitIsLost) {
  open();
  bool has_power = true;
  int asked = 0;
  commits_->interrupt_by([&](GroupCommit::Moment) {
    ++asked;
    return has_power ? Result<void>() : Result<void>(Error{Code::kUnavailable, "no power"});
  });
  const auto dies = [&](Connection&) -> Result<void> {
    has_power = false;
    return {};
  };
  EXPECT_THAT(codes_of(write_together({put("a"), dies, put("b")})), Each(Code::kUnavailable));
  EXPECT_THAT(names(), ElementsAre());
  EXPECT_EQ(asked, 3);  // nobody runs anything again
}

// As the reconciler beside a flood of creations: it is in the first transaction after it came.
TEST_F(GroupCommitTest, NobodyIsKeptOutByAFlood) {
  open();
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> threads;
  int before_mine = -1;
  ASSERT_TRUE(commits_->run([&](Connection&) -> Result<void> {
    for (int i = 0; i < 16; ++i) {
      threads.push_back(start_thread("flood", [&, i](const std::stop_token&) {
        for (int n = 0; !is_over; ++n) {
          EXPECT_TRUE(commits_->run(put(std::to_string(i) + "-" + std::to_string(n))));
        }
      }));
    }
    while (commits_->waiting() < 16) {
      std::this_thread::yield();
    }
    threads.push_back(start_thread("mine", [&](const std::stop_token&) {
      EXPECT_TRUE(commits_->run([&](Connection&) -> Result<void> {
        before_mine = transactions_;
        return {};
      }));
      is_over = true;
    }));
    while (commits_->waiting() < 17) {
      std::this_thread::yield();
    }
    return {};
  }));
  threads.clear();
  EXPECT_EQ(before_mine, 1);
}

}  // namespace
}  // namespace trainyard::sql
