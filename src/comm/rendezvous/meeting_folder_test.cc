// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/meeting_folder.h"

#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

class MeetingFolderTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // Two minutes older than it is.
  void age(const std::string& name) const {
    const std::time_t then = std::time(nullptr) - 120;
    const timespec times[2] = {{.tv_sec = then, .tv_nsec = 0}, {.tv_sec = then, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(name).c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(std::filesystem::symlink_status(path(name)));
  }

  TempDir folder_ = *TempDir::make();
};

TEST_F(MeetingFolderTest, LosesTheSocketsOfRanksThatWereKilledWhileTheyJoined) {
  { ASSERT_TRUE(listen_local(path("comm-dead"))); }
  age("comm-dead");
  remove_abandoned_sockets(folder_.path());
  EXPECT_FALSE(is_there("comm-dead"));
}

TEST_F(MeetingFolderTest, KeepsTheSocketsOfRanksThatJoin) {
  const auto listener = listen_local(path("comm-slow"));
  ASSERT_TRUE(listener);
  age("comm-slow");
  { ASSERT_TRUE(listen_local(path("comm-young"))); }  // perhaps it will listen in a moment
  remove_abandoned_sockets(folder_.path());
  EXPECT_TRUE(is_there("comm-slow"));
  EXPECT_TRUE(is_there("comm-young"));
  EXPECT_TRUE(connect_local(path("comm-slow")));
}

TEST_F(MeetingFolderTest, KeepsWhatIsNotOfRanks) {
  { ASSERT_TRUE(listen_local(path("another"))); }
  ASSERT_TRUE(write_file(path("comm-file"), ""));
  age("another");
  age("comm-file");
  remove_abandoned_sockets(folder_.path());
  EXPECT_TRUE(is_there("another"));
  EXPECT_TRUE(is_there("comm-file"));
}

// The job's own users may differ, and the umask of each is its own.
TEST_F(MeetingFolderTest, HasSocketsThatEveryUserMayConnectTo) {
  const mode_t before = ::umask(077);
  const auto listener = listen_local(path("comm-one"));
  ::umask(before);
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat status {};
  ASSERT_EQ(::stat(path("comm-one").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0777U);
}

TEST_F(MeetingFolderTest, IsNotUsedByWhoMayNotWriteIt) {
  const std::string folder = folder_.path();
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const bool is_root = ::geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (is_root && ::seteuid(kNobody) != 0) {
    GTEST_SKIP() << "no other user can be told here";
  }
  ::testing::internal::CaptureStderr();
  const std::string used = usable_meeting_folder(folder);
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(used, "");
  EXPECT_NE(said.find("this user may not use the folder " + folder), std::string::npos) << said;
}

TEST_F(MeetingFolderTest, IsUsedWhereItIsThere) {
  EXPECT_EQ(usable_meeting_folder(folder_.path()), folder_.path());
  EXPECT_EQ(usable_meeting_folder(""), "");
  ASSERT_TRUE(write_file(path("file"), ""));
  EXPECT_EQ(usable_meeting_folder(path("file")), "");
  EXPECT_EQ(usable_meeting_folder(path("missing")), "");
}

}  // namespace
}  // namespace trainyard::comm
