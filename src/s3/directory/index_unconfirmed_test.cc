// SPDX-License-Identifier: Apache-2.0
// Puts whose sync fails, alone, two on one key, and when the index cannot be changed either.
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread.h"
#include "s3/directory/index.h"

namespace trainyard::s3 {
namespace {

using testing::UnorderedElementsAre;

struct IndexUnconfirmed : testing::Test {
  void SetUp() override {
    index = *Index::open(file);
    ASSERT_TRUE(index->add_bucket({.name = "bucket"}));
    ASSERT_TRUE(index->put_object("bucket", row("old")));
  }
  static ObjectRow row(const std::string& content) {
    return {.info = {.key = "k", .size = 1, .etag = "e" + content}, .content = content};
  }
  static Result<void> broken() { return Error{Code::kUnavailable, "the disk is gone"}; }
  std::string there() { return index->object("bucket", "k")->content; }
  void wait_for(const std::string& content) {
    while (there() != content) {
      std::this_thread::yield();
    }
  }
  // Two puts on the key, the second while the first waits for its sync, which fails then.
  void fail_first_then(const std::function<Result<void>()>& second) {
    std::latch first_is_back(1);
    std::jthread other;
    const auto first = index->put_object_while("bucket", row("first"), {}, [&] {
      other = start_thread("second", [&](const std::stop_token&) {
        static_cast<void>(index->put_object_while("bucket", row("second"), {}, [&] {
          first_is_back.wait();
          return second();
        }));
      });
      wait_for("second");
      return broken();
    });
    EXPECT_FALSE(first);
    first_is_back.count_down();
  }

  TempDir folder =
      *TempDir::make("trainyard-index-", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "");
  Path file = folder.path() / "index.db";
  std::unique_ptr<Index> index;
};

TEST_F(IndexUnconfirmed, TwoPutsThatFailGiveBackWhatWasBeforeBoth) {
  fail_first_then(broken);
  EXPECT_EQ(there(), "old");
  EXPECT_TRUE(index->unconfirmed()->empty());
  EXPECT_THAT(*index->garbage(), UnorderedElementsAre("first", "second"));
}

TEST_F(IndexUnconfirmed, APutAfterOneThatFailsStands) {
  fail_first_then([] { return Result<void>(); });
  EXPECT_EQ(there(), "second");
}

TEST_F(IndexUnconfirmed, ARecordThatACrashLeavesNamesWhatWasBeforeBoth) {
  fail_first_then([&] {
    // As a start after a crash here would find it, with the second torn.
    EXPECT_EQ(index->unconfirmed()->size(), 1u);
    EXPECT_TRUE(index->confirm({.content = "second", .etag = {}}, false));
    EXPECT_EQ(there(), "old");
    return broken();
  });
  EXPECT_EQ(there(), "old");
}

TEST_F(IndexUnconfirmed, APutThatCannotBeTakenBackNowIsWithTheNextChange) {
  auto raw = *Connection::open(file, sql::Access::kWrite);
  const auto put = index->put_object_while("bucket", row("new"), {}, [&] {
    wait_for("new");
    EXPECT_TRUE(raw.execute(
        "CREATE TRIGGER fault BEFORE DELETE ON unconfirmed BEGIN SELECT RAISE(ABORT,'no'); END"));
    return broken();
  });
  EXPECT_EQ(put.error().message, "the disk is gone");
  EXPECT_EQ(there(), "new");
  ASSERT_TRUE(raw.execute("DROP TRIGGER fault"));
  ASSERT_TRUE(index->add_bucket({.name = "another"}));
  EXPECT_EQ(there(), "old");
  EXPECT_TRUE(index->unconfirmed()->empty());
}

}  // namespace
}  // namespace trainyard::s3
