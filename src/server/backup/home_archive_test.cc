// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/home_in_use.h"

namespace trainyard::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HomeArchiveTest : public HomeInUse {
 protected:
  Path file() const { return folder_.path() / "backup.tar.gz"; }
  Path draft() const { return folder_.path() / "backup.tar.gz.partial"; }
  Result<CopyCounts> pack(const CopyProgress& progress = nobody_looks) {
    return make_backup_file(home(), file(), clock_.now(), progress);
  }
};

TEST_F(HomeArchiveTest, AFileHoldsAllThatADirectoryDoes) {
  const Path file = folder_.path() / "backup.tar.gz";
  const auto made = make_backup_file(home(), file, clock_.now(), nobody_looks);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(std::filesystem::exists(home() / "backup.in-progress"));
  EXPECT_EQ(make_backup_file(home(), file, clock_.now(), nobody_looks).error().code,
            Code::kAlreadyExists);
  const auto done = restore_backup_file(file, restored(), nobody_looks);
  ASSERT_TRUE(done) << done.error().message;
  const auto store = *s3::DirectoryStore::open(restored() / "objects", clock_, random_);
  EXPECT_EQ(get(*store, "a"), "first");
  EXPECT_EQ(*read_file(restored() / "tls" / "key.pem"), "secret");
  EXPECT_THAT(left_over(), ElementsAre("backup.tar.gz", "home", "restored"));
}

TEST_F(HomeArchiveTest, HalfAFileIsRefusedAndLeavesNothing) {
  const Path file = folder_.path() / "backup.tgz";
  ASSERT_TRUE(make_backup_file(home(), file, clock_.now(), nobody_looks));
  const std::uintmax_t size = std::filesystem::file_size(file);
  for (int tenths = 9; tenths >= 0; tenths -= 3) {
    SCOPED_TRACE(tenths);
    std::filesystem::resize_file(file, size * static_cast<std::uintmax_t>(tenths) / 10);
    EXPECT_FALSE(restore_backup_file(file, restored(), nobody_looks));
    EXPECT_THAT(left_over(), ElementsAre("backup.tgz", "home"));
  }
}

TEST_F(HomeArchiveTest, UnpacksNothingForAHomeThatIsNotEmpty) {
  ASSERT_TRUE(pack());
  const auto done = restore_backup_file(file(), home(), [](const std::string& what, auto, auto) {
    return Error{Code::kInternal, "at work: " + what};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kConflict);
  EXPECT_THAT(done.error().message, HasSubstr("is not empty"));
}

TEST_F(HomeArchiveTest, StopsWhereItIsToldToAndLeavesNothing) {
  const auto stop_at = [](const std::string& where) {
    return [where](const std::string& what, std::uint64_t, std::uint64_t) {
      return what == where ? Result<void>(Error{Code::kCancelled, "enough"}) : Result<void>();
    };
  };
  EXPECT_EQ(pack(stop_at("packed bytes")).error().code, Code::kCancelled);
  EXPECT_THAT(left_over(), ElementsAre("home"));
  EXPECT_FALSE(std::filesystem::exists(home() / "backup.in-progress"));
  ASSERT_TRUE(pack());
  const auto done = restore_backup_file(file(), restored(), stop_at("unpacked bytes"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCancelled);
  EXPECT_THAT(left_over(), ElementsAre("backup.tar.gz", "home"));
}

TEST_F(HomeArchiveTest, ReplacesNoFileThatComesMeanwhile) {
  const auto made = pack([&](const std::string& what, std::uint64_t, std::uint64_t) {
    return what == "packed bytes" ? write_file(file(), "precious") : Result<void>();
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kAlreadyExists);
  EXPECT_EQ(*read_file(file()), "precious");
  EXPECT_THAT(left_over(), ElementsAre("backup.tar.gz", "home"));
}

TEST_F(HomeArchiveTest, LeavesTheDraftOfAnotherOneAlone) {
  const auto made = pack([&](const std::string& what, std::uint64_t, std::uint64_t) {
    return what == "check" ? write_file(draft(), "of another") : Result<void>();
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(*read_file(draft()), "of another");
  EXPECT_THAT(pack().error().message, HasSubstr("left by one that was killed: remove it"));
}

TEST_F(HomeArchiveTest, LeavesNoLockInWhatIsNoHome) {
  const Path wrong = folder_.path() / "wrong";
  ASSERT_TRUE(make_directories(wrong));
  const auto made = make_backup_file(wrong, file(), clock_.now(), nobody_looks);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("--home"));
  EXPECT_TRUE(std::filesystem::is_empty(wrong));
}

}  // namespace
}  // namespace trainyard::server
