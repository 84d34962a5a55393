// SPDX-License-Identifier: Apache-2.0
// Backups that were made to reach out of themselves, and trees with what is no file in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/backup/home_check.h"
#include "server/backup/home_copy.h"
#include "server/backup/store_index.h"
#include "server/testing/home_in_use.h"
#include "sql/connection.h"

namespace trainyard::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HostileBackupTest : public HomeInUse {
 protected:
  HostileBackupTest() {
    EXPECT_TRUE(write_file(secret(), "passwd"));
    EXPECT_TRUE(make());
  }
  Path secret() const { return folder_.path() / "secret"; }
  Path index() const { return backup() / "objects" / "index.db"; }

  void rename_content(const std::string& old, const std::string& id) {
    auto database = *sql::Connection::open(index(), sql::Access::kWrite);
    auto change = *database.prepare("UPDATE objects SET content = :new WHERE content = :old");
    change.bind_bytes("new", id).bind_bytes("old", old);
    EXPECT_TRUE(change.run());
    EXPECT_EQ(database.changes(), 1);
  }
  void expect_refused(const std::string& why) {
    const auto done = restore();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kCorrupt) << done.error().message;
    EXPECT_THAT(done.error().message, HasSubstr(why));
    EXPECT_THAT(left_over(), ElementsAre("backup", "home", "secret"));
  }
  void move_and_link(const Path& path) {
    const Path elsewhere = backup() / "elsewhere";
    std::filesystem::rename(path, elsewhere);
    std::filesystem::create_symlink(elsewhere, path);
  }
  // The only folder of logs.
  Path group(const Path& tree) const {
    return std::filesystem::directory_iterator(tree / "logs")->path();
  }
};

// What is read stays inside, by way of a link; what is written is the same name without the link.
TEST_F(HostileBackupTest, AnIdThatIsAPathWritesNothingOutside) {
  const Path content = content_in(backup());
  ASSERT_TRUE(make_directories(backup() / "a/b/c/d/zz"));
  std::filesystem::copy_file(content, backup() / "planted");
  std::filesystem::create_directory_symlink("../../a/b/c/d", backup() / "objects/data/zz");
  rename_content(content.filename().string(), "zz/../../../../../planted");
  expect_refused("no id");
}

TEST_F(HostileBackupTest, AnIdIs32LowerCaseHexDigits) {
  const std::string good = content_in(backup()).filename().string();
  const std::string other = good.substr(0, 31);
  for (const std::string& bad :
       {std::string(), std::string(".."), other, other + "G", other + "A", good + "0", other + "/",
        other + std::string(1, '\0'), "../" + good.substr(3)}) {
    rename_content(good, bad);
    auto opened = *StoreIndex::open(index());
    const auto read = opened.each([](const StoredContent&) { return Result<void>(); });
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    rename_content(bad, good);
  }
}

TEST_F(HostileBackupTest, AContentThatIsALinkIsRefused) {
  Path content;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(backup() / "objects" / "data")) {
    content = entry.is_regular_file() && entry.file_size() == 6 ? entry.path() : content;
  }
  std::filesystem::remove(content);
  std::filesystem::create_symlink(secret(), content);  // of the right size
  expect_refused(content.filename().string());
  EXPECT_EQ(check_home(backup(), nobody_looks)->problem_count, 1u);
}

TEST_F(HostileBackupTest, AFolderOfContentsThatIsALinkIsRefused) {
  move_and_link(backup() / "objects" / "data");
  expect_refused("behind a link");
}

TEST_F(HostileBackupTest, ADatabaseThatIsALinkIsRefused) {
  move_and_link(backup() / "trainyard.db");
  expect_refused("trainyard.db");
}

TEST_F(HostileBackupTest, AnIndexBehindALinkIsRefused) {
  move_and_link(backup() / "objects");
  expect_refused("index.db");
}

TEST_F(HostileBackupTest, ALogFileThatIsALinkIsRefused) {
  const Path stream = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(group(backup()))) {
      if (entry.is_directory()) {
        return entry.path();
      }
    }
    return Path();
  }();
  std::filesystem::create_symlink(secret(), stream / "99999999999999999999.log");
  expect_refused("9.log");
}

TEST_F(HostileBackupTest, LogsBehindALinkAreRefused) {
  move_and_link(backup() / "logs");
  expect_refused("behind a link");
}

TEST_F(HostileBackupTest, OtherLinksAreLeftOut) {
  std::filesystem::create_symlink(secret(), group(backup()) / "stolen");
  std::filesystem::create_symlink(secret(), backup() / "tls" / "stolen");
  std::filesystem::create_symlink(secret(), backup() / "credentials");
  const auto done = restore();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(std::filesystem::exists(group(restored()) / "stolen"));
  EXPECT_FALSE(std::filesystem::exists(restored() / "tls" / "stolen"));
  EXPECT_FALSE(std::filesystem::exists(restored() / "credentials"));
  EXPECT_EQ(*read_file(restored() / "tls" / "key.pem"), "secret");
}

// A reader that opened one would wait for ever.
TEST_F(HostileBackupTest, PipesMakeNobodyWait) {
  for (const Path& pipe : {group(backup()) / "pipe", backup() / "tls" / "pipe",
                           backup() / "config.yaml", backup() / "objects" / "credentials"}) {
    std::filesystem::remove(pipe);
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  }
  const auto done = restore();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(std::filesystem::exists(restored() / "tls" / "pipe"));
  ASSERT_TRUE(remove_tree(restored()));
  for (const char* name : {"trainyard.db-wal", "objects/index.db", "trainyard.db", kBackupFile}) {
    SCOPED_TRACE(name);
    std::filesystem::remove(backup() / name);
    ASSERT_EQ(::mkfifo((backup() / name).c_str(), 0600), 0);
    EXPECT_FALSE(restore());
  }
  EXPECT_FALSE(check_home(backup(), nobody_looks));
}

// Of a home, links are followed: it belongs to who makes the backup.
TEST_F(HostileBackupTest, ABackupHoldsWhatTheLinksOfAHomeLeadTo) {
  ASSERT_TRUE(remove_tree(backup()));
  std::filesystem::create_symlink(secret(), home() / "tls" / "cert.pem");
  std::filesystem::create_symlink("/nowhere/at/all", home() / "tls" / "broken.pem");
  ASSERT_TRUE(make_directories(home() / "tls" / "archive"));
  ASSERT_EQ(::mkfifo((home() / "tls" / "pipe").c_str(), 0600), 0);
  const auto made = make();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(std::filesystem::is_symlink(backup() / "tls" / "cert.pem"));
  EXPECT_EQ(*read_file(backup() / "tls" / "cert.pem"), "passwd");
  EXPECT_FALSE(std::filesystem::exists(backup() / "tls" / "archive"));
}

}  // namespace
}  // namespace trainyard::server
