// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_copy.h"

#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "s3/directory/kept_back.h"
#include "server/backup/home_check.h"
#include "server/testing/home_in_use.h"

namespace trainyard::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using HomeCopyTest = HomeInUse;

TEST_F(HomeCopyTest, ARestoredHomeHasAllThatTheBackupHad) {
  const auto made = make();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->contents, 2u);
  put("a", "changed later");
  log("later");
  const auto done = restore();
  ASSERT_TRUE(done) << done.error().message;
  const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
  EXPECT_EQ(get(*store, "a"), "first");
  EXPECT_EQ(get(*store, "b"), "second");
  const auto logs = *control::LogStore::open(restored() / "logs", clock_);
  const auto page = *logs->read("group", "stream", {});
  ASSERT_EQ(page.events.size(), 1u);
  EXPECT_EQ(page.events[0].text, "one");
  EXPECT_EQ(*read_file(restored() / "config.yaml"), "capacity: {instances: 2}\n");
  EXPECT_EQ(*read_file(restored() / "tls" / "key.pem"), "secret");
  EXPECT_FALSE(std::filesystem::exists(restored() / "server.json"));
  EXPECT_FALSE(std::filesystem::exists(restored() / kBackupFile));
}

// Hard links: whatever happens to the home, its backup keeps the bytes.
TEST_F(HomeCopyTest, TheBackupOutlivesTheHome) {
  ASSERT_TRUE(make());
  EXPECT_GE(std::filesystem::hard_link_count(content_in(backup())), 2u);
  ASSERT_TRUE(store_->remove_all("bucket", {"a", "b"}));
  logs_.reset();
  store_.reset();
  database_.reset();
  ASSERT_TRUE(remove_tree(home()));
  ASSERT_TRUE(restore());
  const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
  EXPECT_EQ(get(*store, "b"), "second");
}

TEST_F(HomeCopyTest, WhatWasThereBeforeItBeganIsThereUnderWrites) {
  const std::jthread writer([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      put("busy" + std::to_string(i % 3), std::to_string(i));
      put("new" + std::to_string(i), "n");
      log("busy");
    }
  });
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const std::string key = "before" + std::to_string(round);
    put(key, key);
    const auto made = make();
    ASSERT_TRUE(made) << made.error().message;
    const auto done = restore();
    ASSERT_TRUE(done) << done.error().message;
    const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
    EXPECT_EQ(get(*store, key), key);
    EXPECT_EQ(get(*store, "a"), "first");
    ASSERT_TRUE(remove_tree(backup()));
    ASSERT_TRUE(remove_tree(restored()));
  }
}

// Between the copy of the index and the link of its content, and whenever it could try again.
TEST_F(HomeCopyTest, HasTheObjectsOfOneMomentHoweverOftenTheyAreReplaced) {
  put("c", "third");
  const auto made = make([&](const std::string& what, std::uint64_t, std::uint64_t) {
    if (what == "objects") {
      put("a", "again");
      put("b", "again");
      EXPECT_TRUE(store_->remove("bucket", "c"));
    }
    return Result<void>();
  });
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(restore());
  const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
  EXPECT_EQ(get(*store, "a"), "first");
  EXPECT_EQ(get(*store, "b"), "second");
  EXPECT_EQ(get(*store, "c"), "third");
  // What was replaced stays no longer than the backup takes.
  store_->collect_kept();
  EXPECT_EQ(contents_in(home()), 2u);
}

// Beside a server of an older program, which keeps nothing for it.
TEST_F(HomeCopyTest, FollowsObjectsThatAreReplacedWhileTheyAreCopied) {
  ASSERT_TRUE(std::filesystem::remove(home() / "objects" / s3::kPinsFile));
  int replaced = 0;
  const auto made = make([&](const std::string& what, std::uint64_t done, std::uint64_t) {
    if (what == "objects" && done == 1 && replaced++ < 3) {
      put("a", "again");
      put("b", "again");
    }
    return Result<void>();
  });
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_GE(replaced, 2);
  ASSERT_TRUE(restore());
  const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
  EXPECT_EQ(get(*store, "b"), "again");
  // Nothing of the versions in between takes space for ever.
  EXPECT_EQ(check_home(backup(), nobody_looks)->contents, 2u);
  EXPECT_EQ(contents_in(backup()), 2u);
}

TEST_F(HomeCopyTest, GivesUpWhereEveryObjectIsReplacedAgainAndAgainAndNothingKept) {
  ASSERT_TRUE(std::filesystem::remove(home() / "objects" / s3::kPinsFile));
  const auto made = make([&](const std::string& what, std::uint64_t, std::uint64_t) {
    if (what == "objects") {
      put("a", "again");
      put("b", "again");
    }
    return Result<void>();
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_THAT(left_over(), ElementsAre("home"));
}

TEST_F(HomeCopyTest, TwoBackupsToOnePlaceDoNotMix) {
  ASSERT_TRUE(make_directories(folder_.path() / "backup.partial"));
  const auto other = FileLock::acquire(folder_.path() / "backup.partial" / "unfinished");
  ASSERT_TRUE(other);
  EXPECT_EQ(make().error().code, Code::kConflict);
}

TEST_F(HomeCopyTest, ReplacesNothing) {
  ASSERT_TRUE(make());
  EXPECT_EQ(make().error().code, Code::kAlreadyExists);
  ASSERT_TRUE(make_directories(restored()));
  ASSERT_TRUE(write_file(restored() / "file", "precious"));
  const auto done = restore();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kConflict);
  EXPECT_THAT(done.error().message, HasSubstr("file is there"));
  std::filesystem::remove(restored() / "file");
  EXPECT_TRUE(restore());  // into an empty directory
}

TEST_F(HomeCopyTest, AFailedBackupLeavesNothing) {
  const Path content = content_in(home());
  ASSERT_TRUE(std::filesystem::remove(content));  // the store has lost it
  const auto made = make();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_THAT(made.error().message, HasSubstr(content.filename().string()));
  EXPECT_THAT(left_over(), ElementsAre("home"));
}

// As it is left by one that was killed at any moment before the end.
TEST_F(HomeCopyTest, AHalfBackupIsNoneAndTheNextOneRemovesIt) {
  ASSERT_TRUE(make_directories(folder_.path() / "backup.partial" / "objects"));
  ASSERT_TRUE(write_file(folder_.path() / "backup.partial" / "unfinished", ""));
  const auto half = restore_backup(folder_.path() / "backup.partial", restored(), nobody_looks);
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().message, HasSubstr("no whole backup"));
  ASSERT_TRUE(make());
  EXPECT_THAT(left_over(), ElementsAre("backup", "home"));
}

TEST_F(HomeCopyTest, OneThatWasKilledAtItsBeginningIsNotInTheWay) {
  ASSERT_TRUE(make_directories(folder_.path() / "backup.partial"));
  ASSERT_TRUE(make());
  EXPECT_THAT(left_over(), ElementsAre("backup", "home"));
  EXPECT_FALSE(std::filesystem::exists(backup() / "unfinished"));
}

TEST_F(HomeCopyTest, DoesNotRemoveADirectoryOfSomebodyElse) {
  ASSERT_TRUE(make_directories(folder_.path() / "backup.partial"));
  ASSERT_TRUE(write_file(folder_.path() / "backup.partial" / "thesis.txt", "3 years"));
  EXPECT_EQ(make().error().code, Code::kAlreadyExists);
  EXPECT_EQ(*read_file(folder_.path() / "backup.partial" / "thesis.txt"), "3 years");
}

TEST_F(HomeCopyTest, RestoresNothingFromADamagedBackup) {
  ASSERT_TRUE(make());
  const Path content = content_in(backup());
  ASSERT_TRUE(write_file(content, "short"));
  std::filesystem::resize_file(content, 2);
  const auto done = restore();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCorrupt);
  EXPECT_THAT(done.error().message, HasSubstr(content.filename().string()));
  EXPECT_THAT(left_over(), ElementsAre("backup", "home"));
}

TEST_F(HomeCopyTest, RefusesWhatIsNoHomeAndWhatANewerProgramMade) {
  EXPECT_EQ(
      make_backup(folder_.path() / "nothing", backup(), clock_.now(), nobody_looks).error().code,
      Code::kNotFound);
  ASSERT_TRUE(make());
  ASSERT_TRUE(write_file(backup() / kBackupFile, R"({"format": 2})"));
  EXPECT_EQ(restore().error().code, Code::kUnimplemented);
}

// As `trainyard backup $HOME_DIR/monday.tar.gz` leaves them: each would hold all earlier ones.
TEST_F(HomeCopyTest, LeavesOutWhatPeopleKeepInAHome) {
  ASSERT_TRUE(write_file(home() / "monday.tar.gz", "large"));
  ASSERT_TRUE(write_file(home() / "credentials", "keys"));
  ASSERT_TRUE(write_file(home() / "objects" / "credentials", "keys of `trainyard store`"));
  ASSERT_TRUE(make());
  EXPECT_FALSE(std::filesystem::exists(backup() / "monday.tar.gz"));
  EXPECT_EQ(*read_file(backup() / "credentials"), "keys");
  EXPECT_EQ(*read_file(backup() / "objects" / "credentials"), "keys of `trainyard store`");
}

TEST_F(HomeCopyTest, StopsWhereItIsToldToAndLeavesNothing) {
  for (const char* where : {"objects", "logs", "check"}) {
    SCOPED_TRACE(where);
    const auto made = make([&](const std::string& what, std::uint64_t, std::uint64_t) {
      return what == where ? Result<void>(Error{Code::kCancelled, "enough"}) : Result<void>();
    });
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::kCancelled);
    EXPECT_THAT(left_over(), ElementsAre("home"));
  }
}

TEST_F(HomeCopyTest, ReplacesNothingThatComesMeanwhile) {
  const auto made = make([&](const std::string& what, std::uint64_t, std::uint64_t) {
    return what == "check" ? make_directories(backup()) : Result<void>();
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kAlreadyExists);
  EXPECT_THAT(left_over(), ElementsAre("backup", "home"));
}

TEST_F(HomeCopyTest, RefusesAMountPointBeforeItCopiesAnything) {
  ASSERT_TRUE(make());
  const auto done = restore_backup(backup(), "/proc", nobody_looks);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kConflict);
  EXPECT_THAT(done.error().message, HasSubstr("is a mount point"));
  EXPECT_THAT(done.error().message, HasSubstr("--home /proc/home"));
}

TEST_F(HomeCopyTest, AnEmptyHomePassesOnItsMode) {
  ASSERT_TRUE(make());
  ASSERT_TRUE(make_directories(restored()));
  ASSERT_EQ(::chmod(restored().c_str(), 0750), 0);
  ASSERT_TRUE(restore());
  struct stat status {};
  ASSERT_EQ(::stat(restored().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0750u);
}

TEST_F(HomeCopyTest, AnEmptyHomePassesOnItsOwner) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ASSERT_TRUE(make());
  ASSERT_TRUE(make_directories(restored()));
  ASSERT_EQ(::chown(restored().c_str(), 4321, 4322), 0);
  ASSERT_TRUE(restore());
  struct stat status {};
  for (const Path& path : {restored(), restored() / "trainyard.db", content_in(restored())}) {
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 4321u) << path;
    EXPECT_EQ(status.st_gid, 4322u) << path;
  }
  ASSERT_EQ(::stat(content_in(backup()).c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0u);
}

// Whoever owns a content could write into it after it was restored.
TEST_F(HomeCopyTest, LinksNoContentOfSomebodyElse) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ASSERT_TRUE(make());
  const Path content = content_in(backup());
  ASSERT_EQ(::chown(content.c_str(), 4321, 4322), 0);
  const std::uintmax_t before = std::filesystem::hard_link_count(content);
  ASSERT_TRUE(restore());
  EXPECT_EQ(std::filesystem::hard_link_count(content), before);
}

}  // namespace
}  // namespace trainyard::server
