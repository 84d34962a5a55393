// SPDX-License-Identifier: Apache-2.0
#include "control/tables/commit_queue.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class CommitQueueTest : public testing::Test {
 protected:
  CommitQueueTest() {
    const Path file = directory_.path() / "test.db";
    EXPECT_TRUE(write_file(file, "", 0600));
    writer_ = std::make_unique<Connection>(*Connection::open(file, false));
    EXPECT_TRUE(
        writer_->execute("PRAGMA journal_mode = WAL; CREATE TABLE pair (name TEXT PRIMARY "
                         "KEY, value BLOB)"));
    queue_ = std::make_unique<CommitQueue>(*writer_);
  }

  // Runs one write that holds the connection until all of `bodies` wait for the next commit.
  std::vector<Result<void>> write_together(const std::vector<CommitQueue::Body>& bodies) {
    std::vector<Result<void>> results(bodies.size());
    std::vector<std::jthread> threads;
    EXPECT_TRUE(queue_->write([&](Connection&) -> Result<void> {
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        threads.emplace_back([&, i] { results[i] = queue_->write(bodies[i]); });
        while (queue_->waiting() <= i) {
          std::this_thread::yield();
        }
      }
      return {};
    }));
    threads.clear();
    return results;
  }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    Statement all = *writer_->prepare("SELECT name FROM pair ORDER BY rowid");
    while (*all.step()) {
      out.push_back(all.text(0));
    }
    return out;
  }

  TempDir directory_ = *TempDir::make();
  std::unique_ptr<Connection> writer_;
  std::unique_ptr<CommitQueue> queue_;
};

CommitQueue::Body put(const std::string& name, std::size_t bytes = 1) {
  return [name, bytes](Connection& connection) -> Result<void> {
    YARD_TRY(Statement statement,
             connection.prepare("INSERT INTO pair (name, value) VALUES (:name, :value)"));
    return statement.bind("name", name).bind_bytes("value", std::string(bytes, 'x')).run();
  };
}

std::vector<Code> codes_of(const std::vector<Result<void>>& results) {
  std::vector<Code> codes;
  for (const Result<void>& result : results) {
    codes.push_back(result ? Code::kCancelled : result.error().code);
  }
  return codes;
}
constexpr Code kFine = Code::kCancelled;  // a stand-in: none of the writes is cancelled

TEST_F(CommitQueueTest, SharesOneCommitAmongThoseThatWait) {
  int commits = 0;
  queue_->interrupt_by([&](CommitQueue::Moment moment) {
    commits += moment == CommitQueue::Moment::kAfterCommit ? 1 : 0;
    return Result<void>();
  });
  std::vector<CommitQueue::Body> bodies;
  for (int i = 0; i < 32; ++i) {
    bodies.push_back(put(std::to_string(i)));
  }
  EXPECT_THAT(codes_of(write_together(bodies)), Each(kFine));
  EXPECT_EQ(names().size(), 32u);
  EXPECT_EQ(commits, 2);  // the one that held them back, and theirs
}

TEST_F(CommitQueueTest, KeepsTheOrderInWhichTheyCame) {
  write_together({put("c"), put("a"), put("b")});
  EXPECT_THAT(names(), ElementsAre("c", "a", "b"));
}

TEST_F(CommitQueueTest, UndoesOnlyTheOneThatFails) {
  const auto half = [](Connection& connection) -> Result<void> {
    YARD_TRY(put("half")(connection));
    return Error{.code = Code::kDenied, .message = "no"};
  };
  const auto results = write_together({put("a"), put("a"), half, put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kAlreadyExists, Code::kDenied, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

// SQLite ends a whole transaction when the disk is full.
TEST_F(CommitQueueTest, AFullDiskFailsOnlyTheOneThatDoesNotFit) {
  ASSERT_TRUE(writer_->execute("PRAGMA max_page_count = 64"));
  const auto results = write_together({put("a"), put("large", 1 << 20), put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kExhausted, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(CommitQueueTest, ABodyThatEndsTheTransactionTakesNobodyWithIt) {
  const auto rude = [](Connection& connection) -> Result<void> {
    YARD_TRY(connection.execute("ROLLBACK"));
    return Error{.code = Code::kUnavailable, .message = "the disk went away"};
  };
  const auto results = write_together({put("a"), rude, put("b")});
  EXPECT_THAT(codes_of(results), ElementsAre(kFine, Code::kUnavailable, kFine));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(CommitQueueTest, TellsEveryoneWhenTheCommitIsLost) {
  bool has_power = true;
  queue_->interrupt_by([&](CommitQueue::Moment) {
    return has_power ? Result<void>() : Result<void>(Error{Code::kUnavailable, "no power"});
  });
  const auto dies = [&](Connection&) -> Result<void> {
    has_power = false;
    return {};
  };
  EXPECT_THAT(codes_of(write_together({put("a"), dies, put("b")})), Each(Code::kUnavailable));
  EXPECT_THAT(names(), ElementsAre());
}

// As the reconciler beside a flood of creations: it is in the first commit after it came.
TEST_F(CommitQueueTest, NobodyIsKeptOutByAFlood) {
  int commits = 0;
  queue_->interrupt_by([&](CommitQueue::Moment moment) {
    commits += moment == CommitQueue::Moment::kAfterCommit ? 1 : 0;
    return Result<void>();
  });
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> threads;
  int before_mine = -1;
  ASSERT_TRUE(queue_->write([&](Connection&) -> Result<void> {
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        for (int n = 0; !is_over; ++n) {
          EXPECT_TRUE(queue_->write(put(std::to_string(i) + "-" + std::to_string(n))));
        }
      });
    }
    while (queue_->waiting() < 16) {
      std::this_thread::yield();
    }
    threads.emplace_back([&] {
      EXPECT_TRUE(queue_->write([&](Connection&) -> Result<void> {
        before_mine = commits;
        return {};
      }));
      is_over = true;
    });
    while (queue_->waiting() < 17) {
      std::this_thread::yield();
    }
    return {};
  }));
  threads.clear();
  EXPECT_EQ(before_mine, 1);
}

}  // namespace
}  // namespace trainyard::control
