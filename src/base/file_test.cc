// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <array>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Path at(const std::string& name) const { return dir_.path() / name; }

  TempDir dir_ = *TempDir::make();
};

mode_t mode_of(const Path& path) {
  struct stat status = {};
  lstat(path.c_str(), &status);
  return status.st_mode & 07777;
}

TEST(Fd, MovesItsDescriptor) {
  Pipe pipe = *make_pipe();
  const int number = pipe.read_end.get();
  Fd taken = std::move(pipe.read_end);
  EXPECT_EQ(taken.get(), number);
  taken = std::move(pipe.write_end);
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  EXPECT_NE(fcntl(taken.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(FdDeathTest, TellsWhenItsDescriptorWasClosedByAnother) {
  EXPECT_DEATH(
      {
        const Pipe pipe = *make_pipe();
        close(pipe.read_end.get());
      },
      "closed twice");
}

TEST(WriteAll, SaysThatTheDeviceIsFull) {
  const Fd full = *open_file("/dev/full", O_WRONLY);
  EXPECT_EQ(write_all(full.get(), "x").error().code, Code::kExhausted);
}

TEST_F(Files, AreCopiedFromWhereTheyStand) {
  ASSERT_TRUE(write_file(at("from"), "0123456789"));
  const Fd from = *open_file(at("from"), O_RDONLY);
  const Fd to = *open_file(at("to"), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(lseek(from.get(), 4, SEEK_SET), 4);
  ASSERT_TRUE(write_all(to.get(), "ab"));
  ASSERT_TRUE(copy_rest(from.get(), to.get()));
  EXPECT_EQ(*read_file(at("to")), "ab456789");
}

// The kernel copies between files only; from a pipe the bytes pass through us.
TEST_F(Files, AreCopiedFromAPipe) {
  Pipe pipe = *make_pipe();
  ASSERT_TRUE(write_all(pipe.write_end.get(), "through a pipe"));
  pipe.write_end.reset();
  const Fd to = *open_file(at("to"), O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(copy_rest(pipe.read_end.get(), to.get()));
  EXPECT_EQ(*read_file(at("to")), "through a pipe");
}

TEST(WriteAll, PassesMoreThanAPipeHolds) {
  Pipe pipe = *make_pipe();
  const std::string text(300'000, 'y');
  std::string got;
  std::thread reader([&] {
    std::array<std::byte, 4096> piece;
    while (const std::size_t size = *read_some(pipe.read_end.get(), piece)) {
      got.append(reinterpret_cast<const char*>(piece.data()), size);
    }
  });
  EXPECT_TRUE(write_all(pipe.write_end.get(), text).has_value());
  pipe.write_end.reset();
  reader.join();
  EXPECT_EQ(got, text);
}

TEST_F(Files, ReadAtStopsAtTheEnd) {
  ASSERT_TRUE(write_file(at("f"), "0123456789").has_value());
  const Fd fd = *open_file(at("f"), O_RDONLY);
  std::array<char, 8> out;
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_EQ(*read_at(fd.get(), bytes, 1), 8u);
  EXPECT_EQ(std::string_view(out.data(), 8), "12345678");
  EXPECT_EQ(*read_at(fd.get(), bytes, 8), 2u);
  EXPECT_EQ(*read_at(fd.get(), bytes, 20), 0u);
}

TEST_F(Files, ComeBackWhole) {
  const std::string content(200'001, 'z');
  ASSERT_TRUE(write_file_durably(at("f"), content, 0640).has_value());
  EXPECT_EQ(*read_file(at("f")), content);
  EXPECT_EQ(mode_of(at("f")), 0640u);
  ASSERT_TRUE(write_file(at("f"), "").has_value());
  EXPECT_EQ(*read_file(at("f")), "");
  EXPECT_EQ(mode_of(at("f")), 0644u);
}

TEST_F(Files, AreReadUpToALimit) {
  ASSERT_TRUE(write_file(at("f"), "12345").has_value());
  EXPECT_EQ(*read_file(at("f"), 5), "12345");
  EXPECT_EQ(*read_file(at("f"), std::numeric_limits<std::size_t>::max()), "12345");
  EXPECT_EQ(read_file(at("f"), 4).error().code, Code::kExhausted);
  EXPECT_EQ(read_file("/dev/zero", 1000).error().code, Code::kExhausted);
  EXPECT_THAT(*read_file("/proc/self/status"), HasSubstr("Pid:"));
}

TEST_F(Files, ThatAreMissingAreNotFound) {
  EXPECT_EQ(read_file(at("f")).error().code, Code::kNotFound);
  EXPECT_THAT(read_file(at("f")).error().message, HasSubstr(at("f").string()));
  EXPECT_EQ(write_file(at("no/f"), "").error().code, Code::kNotFound);
  EXPECT_FALSE(read_file(dir_.path()).has_value());
}

TEST_F(Files, ReplaceALinkInsteadOfWritingThroughIt) {
  ASSERT_TRUE(write_file(at("target"), "old").has_value());
  fs::create_symlink("target", at("link"));
  ASSERT_TRUE(write_file_durably(at("link"), "new").has_value());
  EXPECT_EQ(*read_file(at("target")), "old");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at("link"))));
}

TEST_F(Files, LeaveNothingBehindWhenTheyCannotBeWritten) {
  fs::create_directory(at("f"));
  EXPECT_EQ(write_file(at("f"), "x").error().code, Code::kConflict);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 1);
}

TEST_F(Files, MayHaveTheLongestName) {
  EXPECT_TRUE(write_file(at(std::string(255, 'n')), "x").has_value());
}

TEST_F(Files, MakeDirectoriesMakesParentsAndAcceptsWhatIsThere) {
  EXPECT_TRUE(make_directories(at("a/b/c"), 0700).has_value());
  EXPECT_TRUE(make_directories(at("a/b/c/")).has_value());
  EXPECT_EQ(mode_of(at("a/b/c")), 0700u);
  ASSERT_TRUE(write_file(at("f"), "").has_value());
  EXPECT_EQ(make_directories(at("f")).error().code, Code::kAlreadyExists);
  EXPECT_FALSE(make_directories(at("f/g")).has_value());
}

TEST(TempDir, IsRemovedWithAllItHolds) {
  Path path;
  {
    const TempDir dir = *TempDir::make("mine-");
    path = dir.path();
    EXPECT_THAT(path.filename(), MatchesRegex("mine-......"));
    EXPECT_EQ(mode_of(path), 0700u);
    ASSERT_TRUE(make_directories(path / "a/b").has_value());
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TempDir, MovesWithItsContent) {
  TempDir first = *TempDir::make();
  const Path path = first.path();
  TempDir second = *TempDir::make();
  second = std::move(first);
  EXPECT_EQ(second.path(), path);
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(Files, LockKeepsOthersOutAndNamesTheHolder) {
  {
    const auto lock = FileLock::acquire(at("lock"));
    ASSERT_TRUE(lock.has_value());
    const auto second = FileLock::acquire(at("lock"));
    EXPECT_EQ(second.error().code, Code::kConflict);
    EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(getpid())));
  }
  EXPECT_TRUE(FileLock::acquire(at("lock")).has_value());
}

TEST_F(Files, LockOfTheDeadIsWaitedFor) {
  // The holder dies at once; a child of its own, about to execute another program, has its lock
  // yet.
  const pid_t holder = fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    const auto lock = FileLock::acquire(at("lock"));
    if (fork() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    _exit(lock.has_value() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(FileLock::acquire(at("lock")).has_value());
}

TEST_F(Files, LogKeepsEachFactOnOneLine) {
  ASSERT_TRUE(start_log(LogLevel::kInfo, at("log")).has_value());
  log_debug("not shown");
  log_info("job=a\nb\x1b[2J");
  log_error("{} is not a format");
  const std::string text = *read_file(at("log"));
  ASSERT_TRUE(start_log(LogLevel::kInfo).has_value());
  EXPECT_THAT(text, MatchesRegex("20[0-9-]+T[0-9:.]+Z info job=a\\\\nb\\\\x1b\\[2J\n"
                                 "20[0-9-]+T[0-9:.]+Z error \\{\\} is not a format\n"));
}

TEST_F(Files, LogThatCannotBeOpenedIsAnError) {
  ASSERT_TRUE(write_file(at("f"), "").has_value());
  EXPECT_EQ(start_log(LogLevel::kInfo, at("f/log")).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard
