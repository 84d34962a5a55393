// SPDX-License-Identifier: Apache-2.0
// Backups of what `trainyard store` keeps, which has no jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/backup/home_check.h"
#include "server/backup/home_copy.h"
#include "server/testing/home_in_use.h"

namespace trainyard::server {
namespace {

using ::testing::HasSubstr;

class StoreAloneBackupTest : public HomeInUse {
 protected:
  Path alone() const { return folder_.path() / "alone"; }

  // A store in `root`, with an object and its keys.
  void make_store(const Path& root) {
    const auto store = *s3::DirectoryStore::open(root, clock_, random_);
    ASSERT_TRUE(store->create_bucket("bucket"));
    ASSERT_TRUE(store->put("bucket", "key", bytes_of("kept"), {}));
    ASSERT_TRUE(write_file(root / "credentials", "keys", 0600));
  }
  void expect_whole_round(const Path& root_in_home) {
    const auto made = make_backup(alone(), backup(), clock_.now(), nobody_looks);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->contents, 1u);
    const auto done = restore();
    ASSERT_TRUE(done) << done.error().message;
    const auto report = check_home(restored(), nobody_looks);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->problem_count, 0u);
    EXPECT_EQ(report->contents, 1u);
    EXPECT_EQ(*read_file(restored() / root_in_home / "credentials"), "keys");
    const auto store = *s3::DirectoryStore::open(restored() / root_in_home, clock_, random_);
    EXPECT_EQ(get(*store, "key"), "kept");
  }
};

TEST_F(StoreAloneBackupTest, AHomeWithAStoreOnlyIsCopiedAndChecked) {
  make_store(alone() / "objects");
  expect_whole_round("objects");
  EXPECT_FALSE(std::filesystem::exists(restored() / "logs"));
}

TEST_F(StoreAloneBackupTest, TheRootOfAStoreIsCopiedAndChecked) {
  make_store(alone());
  expect_whole_round("");
}

// A server's backup without its database is not one of a store.
TEST_F(StoreAloneBackupTest, JobsThatAreLostAreNotForgotten) {
  ASSERT_TRUE(make());
  std::filesystem::remove(backup() / "trainyard.db");
  const auto done = restore();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("trainyard.db"));
  EXPECT_FALSE(check_home(backup(), nobody_looks));
}

}  // namespace
}  // namespace trainyard::server
