// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/group_commit.h"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/thread.h"

namespace trainyard::s3 {
namespace {

struct GroupCommitTest : testing::Test {
  void SetUp() override {
    auto writer = *Connection::open(folder.path() / "db");
    ASSERT_TRUE(writer->execute("CREATE TABLE t(n INTEGER PRIMARY KEY)"));
    commits = std::make_unique<GroupCommit>(std::move(writer));
    commits->around_each([](Connection&) { return Result<void>(); }, [this] { ++transactions; });
  }

  Result<void> insert(int n) {
    return commits->run([n](Connection& connection) -> Result<void> {
      YARD_TRY(Statement statement, connection.prepare("INSERT INTO t(n) VALUES(?1)"));
      return statement.bind(1, n).run();
    });
  }
  std::int64_t count() {
    auto connection = *Connection::open(folder.path() / "db");
    auto query = *connection->prepare("SELECT count(*) FROM t");
    return query.step() ? query.integer(0) : -1;
  }

  // Holds the committing thread until `threads` others wait for it, each with `change(i)`.
  std::vector<Result<void>> run_together(int threads,
                                         const std::function<Result<void>(int)>& change) {
    std::vector<Result<void>> results(static_cast<std::size_t>(threads));
    std::atomic<int> begun{0};
    std::vector<std::jthread> running;
    const auto held = commits->run([&](Connection&) -> Result<void> {
      for (int i = 0; i < threads; ++i) {
        running.push_back(start_thread("change", [&, i](const std::stop_token&) {
          ++begun;
          results[static_cast<std::size_t>(i)] = change(i);
        }));
      }
      while (begun < threads) {
        std::this_thread::yield();
      }
      return {};
    });
    EXPECT_TRUE(held);
    running.clear();
    return results;
  }

  TempDir folder =
      *TempDir::make("trainyard-group-", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "");
  std::atomic<int> transactions{0};
  std::unique_ptr<GroupCommit> commits;
};

TEST_F(GroupCommitTest, ChangesThatWaitTogetherShareATransaction) {
  const auto results = run_together(32, [this](int i) { return insert(i); });
  for (const auto& result : results) {
    EXPECT_TRUE(result);
  }
  EXPECT_EQ(count(), 32);
  // One held the others up; a thread that had begun may still have been on its way to the queue.
  EXPECT_LT(transactions, 20);
}

TEST_F(GroupCommitTest, OneThatFailsTakesNobodyWithIt) {
  ASSERT_TRUE(insert(3));
  const auto results = run_together(8, [this](int i) { return insert(i); });
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(results[static_cast<std::size_t>(i)].has_value(), i != 3) << i;
  }
  EXPECT_EQ(count(), 8);
}

TEST_F(GroupCommitTest, WhatAFailedChangeDidBeforeIsUndone) {
  const auto failed = commits->run([](Connection& connection) -> Result<void> {
    YARD_TRY(connection.execute("INSERT INTO t(n) VALUES(7)"));
    return Error{Code::kConflict, "no", "precondition"};
  });
  EXPECT_EQ(failed.error().subject, "precondition");
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(insert(7));
}

TEST_F(GroupCommitTest, ATransactionThatEndsEarlyFailsAllThatWereInIt) {
  const auto results = run_together(4, [this](int i) {
    return i != 2 ? insert(i) : commits->run([](Connection& connection) -> Result<void> {
      // As a full disk does.
      YARD_TRY(connection.execute("ROLLBACK"));
      return Error{Code::kExhausted, "the disk is full"};
    });
  });
  EXPECT_FALSE(results[2]);
  std::int64_t kept = 0;
  for (const auto& result : results) {
    kept += result ? 1 : 0;
  }
  EXPECT_EQ(count(), kept);
  EXPECT_TRUE(insert(9));
}

TEST_F(GroupCommitTest, AFailureToBeginIsEverybodysAndPasses) {
  int calls = 0;
  commits->around_each(
      [&calls](Connection&) -> Result<void> {
        return ++calls == 1 ? Error{Code::kUnavailable, "not now"} : Result<void>();
      },
      [] {});
  EXPECT_EQ(insert(1).error().code, Code::kUnavailable);
  EXPECT_TRUE(insert(1));
  EXPECT_EQ(count(), 1);
}

}  // namespace
}  // namespace trainyard::s3
