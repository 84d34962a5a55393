// SPDX-License-Identifier: Apache-2.0
#include "comm/health/status_file.h"

#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

class StatusFileTest : public ::testing::Test {
 protected:
  Path place(const char* name) const { return folder_->path() / name; }
  bool has(const char* name) const { return std::filesystem::exists(place(name)); }

  Result<TempDir> folder_ = TempDir::make();
};

TEST_F(StatusFileTest, IsThereUntilItsEnd) {
  {
    const auto file = StatusFile::make(place("rank-0.world"), 4096);
    ASSERT_TRUE(file);
    EXPECT_EQ(std::filesystem::file_size(place("rank-0.world")), 4096U);
  }
  EXPECT_FALSE(has("rank-0.world"));
}

TEST_F(StatusFileTest, OfADeadProcessIsRemovedByTheNext) {
  ASSERT_TRUE(write_file(place("rank-7.world"), "of a process that is gone"));
  ASSERT_TRUE(write_file(place(".rank-abcdef"), "of one that was killed as it began"));
  ASSERT_TRUE(write_file(place("flight-rank-7.world.jsonl"), "for people"));
  const auto file = StatusFile::make(place("rank-0.world"), 1);
  EXPECT_FALSE(has("rank-7.world"));
  EXPECT_FALSE(has(".rank-abcdef"));
  EXPECT_TRUE(has("flight-rank-7.world.jsonl"));
}

TEST_F(StatusFileTest, OfARankThatDiesMeanwhileIsRemovedByTheLast) {
  std::optional<StatusFile> file(*StatusFile::make(place("rank-0.world"), 1));
  ASSERT_TRUE(write_file(place("rank-1.world"), "of a process that is gone"));
  file.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_->path()));
}

TEST_F(StatusFileTest, OfTheLivingStays) {
  const auto first = StatusFile::make(place("rank-0.world"), 1);
  { const auto second = StatusFile::make(place("rank-1.world"), 1); }
  EXPECT_TRUE(has("rank-0.world"));
}

TEST_F(StatusFileTest, TheLatestOfANameStays) {
  std::optional<StatusFile> first(*StatusFile::make(place("rank-0.world"), 1));
  const auto second = StatusFile::make(place("rank-0.world"), 2);
  first.reset();
  EXPECT_EQ(std::filesystem::file_size(place("rank-0.world")), 2U);
}

TEST_F(StatusFileTest, ManyMayBeginAndEndAtOnce) {
  std::atomic<int> failures = 0;
  std::vector<std::jthread> threads;
  threads.reserve(8);
  for (int rank = 0; rank < 8; ++rank) {
    threads.emplace_back([&, name = "rank-" + std::to_string(rank) + ".world"] {
      for (int turn = 0; turn < 400; ++turn) {
        const auto file = StatusFile::make(place(name.c_str()), 64);
        failures += file && has(name.c_str()) ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_->path()));
}

// Signals that come by the time that this process computes, so that it gets on between two of them.
TEST_F(StatusFileTest, IsMadeThoughSignalsComeMeanwhile) {
  const Result<TempDir> in_memory = TempDir::make("trainyard-", "/dev/shm");
  ASSERT_TRUE(in_memory);
  struct sigaction counts {};
  struct sigaction before {};
  counts.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGPROF, &counts, &before), 0);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 10'000},
                        .it_value = {.tv_sec = 0, .tv_usec = 10'000}};
  ASSERT_EQ(::setitimer(ITIMER_PROF, &often, nullptr), 0);
  for (int turn = 0; turn < 100; ++turn) {
    const auto file = StatusFile::make(in_memory->path() / "rank-0.world", std::size_t{4} << 20);
    EXPECT_TRUE(file) << file.error().message;
  }
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_PROF, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGPROF, &before, nullptr), 0);
}

// Others look for the dead all the while, and find each file in the making for a moment unlocked.
TEST_F(StatusFileTest, FilesForPeopleAreWrittenBesideThem) {
  std::atomic<bool> done = false;
  std::jthread others([&] {
    while (!done) {
      const auto file = StatusFile::make(place("rank-0.world"), 1);
    }
  });
  const std::string content(10'000, 'x');
  for (int turn = 0; turn < 1000; ++turn) {
    const auto written = write_beside_status(place("flight-rank-1.world.jsonl"), content);
    ASSERT_TRUE(written) << written.error().message;
  }
  done = true;
  others.join();
  EXPECT_EQ(*read_file(place("flight-rank-1.world.jsonl")), content);
  std::filesystem::remove(place("flight-rank-1.world.jsonl"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_->path()));
}

TEST_F(StatusFileTest, OfFilesForPeopleNothingIsLeftByAWriterThatIsKilled) {
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit small{.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    (void)write_beside_status(place("flight-rank-1.world.jsonl"), std::string(10'000, 'x'));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_FALSE(std::filesystem::is_empty(folder_->path()));
  { const auto next = StatusFile::make(place("rank-0.world"), 1); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_->path()));
}

TEST_F(StatusFileTest, NeedsItsFolder) {
  const auto file = StatusFile::make(place("nowhere/rank-0.world"), 1);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace trainyard::comm
