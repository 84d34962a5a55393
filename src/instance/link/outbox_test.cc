// SPDX-License-Identifier: Apache-2.0
#include "instance/link/outbox.h"

#include <csignal>
#include <filesystem>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kText = 30;  // bytes of a report, of which three fit into memory

std::string report(std::int64_t seq) {
  std::string text = "{\"seq\":" + std::to_string(seq) + ",\"message\":\"";
  text.resize(kText - 2, 'x');
  return text + "\"}";
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::uint64_t room_taken(const Path& file) {
  struct stat info = {};
  EXPECT_EQ(stat(file.c_str(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

fs::space_info disk(std::uintmax_t capacity, std::uintmax_t free) {
  return {.capacity = capacity, .free = free, .available = free};
}

// While it lives, no file of this process grows beyond `size`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit full{.rlim_cur = size, .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_ = {};
  void (*before_)(int);
};

class OutboxTest : public testing::Test {
 protected:
  bool push(std::int64_t seq, bool must_keep) { return outbox_.push(seq, report(seq), must_keep); }
  void push_all(std::int64_t first, std::int64_t last) {
    for (std::int64_t seq = first; seq <= last; ++seq) {
      ASSERT_TRUE(push(seq, seq % 2 == 0));
    }
  }
  // What the server has stored when nothing more waits: of each batch what follows without a gap.
  std::vector<json> drain(std::int64_t acknowledged = 0) {
    std::vector<json> stored;
    for (int batches = 0; !outbox_.is_empty() && batches < 100; ++batches) {
      for (const json& item : json::parse(outbox_.batch(2 * kText + 4))) {
        if (item["seq"] == acknowledged + 1) {
          ++acknowledged;
          stored.push_back(item);
        }
      }
      outbox_.acknowledge(acknowledged);
    }
    return stored;
  }
  static std::vector<json> reports(std::int64_t last) {
    std::vector<json> all;
    for (std::int64_t seq = 1; seq <= last; ++seq) {
      all.push_back(json::parse(report(seq)));
    }
    return all;
  }
  // Of this process, however the file is called by now.
  std::optional<Path> spool() const {
    for (const auto& fd : fs::directory_iterator("/proc/self/fd")) {
      std::error_code failed;
      if (fs::read_symlink(fd, failed).string().starts_with(spool_path_.string())) {
        return fd.path();
      }
    }
    return std::nullopt;
  }

  TempDir directory_ = *TempDir::make();
  Path spool_path_ = directory_.path() / "spool";
  Outbox outbox_{spool_path_, 100, SpoolBounds{.spare = 0}};
};

TEST_F(OutboxTest, SendsAgainUntilAcknowledged) {
  EXPECT_EQ(outbox_.batch(1000), "[]");
  outbox_.push(1, "{\"seq\":1}", true);
  outbox_.push(2, "{\"seq\":2}", true);
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":1},{\"seq\":2}]");
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":1},{\"seq\":2}]");
  outbox_.acknowledge(1);
  EXPECT_EQ(outbox_.batch(1000), "[{\"seq\":2}]");
  outbox_.acknowledge(2);
  EXPECT_TRUE(outbox_.is_empty());
}

TEST_F(OutboxTest, GivesAtLeastOneHoweverLarge) {
  outbox_.push(1, std::string(90, '1'), true);
  outbox_.push(2, "2", true);
  EXPECT_EQ(outbox_.batch(10), "[" + std::string(90, '1') + "]");
}

TEST_F(OutboxTest, BringsWhatWentToDiskBackInOrder) {
  push_all(1, 50);
  EXPECT_LE(outbox_.batch(100'000).size(), 120u) << "memory holds no more than its limit";
  EXPECT_EQ(drain(), reports(50));
  ASSERT_TRUE(spool());
  EXPECT_EQ(fs::file_size(*spool()), 0u);
  outbox_.push(51, "again", true);
  EXPECT_EQ(outbox_.batch(10), "[again]");
}

TEST_F(OutboxTest, LeavesNothingOnTheDiskWhenItEnds) {
  push_all(1, 50);
  ASSERT_TRUE(spool());
  EXPECT_FALSE(fs::exists(spool_path_));
}

TEST_F(OutboxTest, KeepsTheOrderOfFactsThatAFullDiskDidNotTake) {
  push_all(1, 20);
  {
    const FullDisk full(fs::file_size(*spool()));
    EXPECT_TRUE(push(21, true));
    EXPECT_FALSE(push(22, false));
    EXPECT_TRUE(push(22, true));
  }
  EXPECT_EQ(drain(), reports(22));
}

TEST_F(OutboxTest, SpoolsAgainWhenTheDiskHasRoom) {
  push_all(1, 20);
  {
    const FullDisk full(fs::file_size(*spool()) + kText);  // half of a record fits
    EXPECT_TRUE(push(21, true));
  }
  push_all(22, 40);
  EXPECT_EQ(drain(), reports(40));
}

TEST_F(OutboxTest, TakesFactsWhileTheServerIsBackAndTheDiskFull) {
  push_all(1, 20);
  const FullDisk full(fs::file_size(*spool()));
  EXPECT_TRUE(push(21, true));
  outbox_.acknowledge(2);
  EXPECT_TRUE(push(22, true));
  EXPECT_THAT(drain(2).back(), json::parse(report(22)));
  EXPECT_TRUE(push(23, false)) << "there is room in memory";
}

TEST_F(OutboxTest, LeavesNoGapWhenTheSpoolCannotBeRead) {
  push_all(1, 20);
  {
    const FullDisk full(fs::file_size(*spool()));
    EXPECT_TRUE(push(21, true));
  }
  fs::resize_file(*spool(), 5 * fs::file_size(*spool()) / 10);  // amid a report
  const std::vector<json> stored = drain();
  ASSERT_EQ(stored.size(), 21u);
  EXPECT_EQ(stored[3], json::parse(report(4)));
  EXPECT_EQ(stored[15], json({{"seq", 16}}));
  EXPECT_EQ(stored[20], json::parse(report(21)));
  push_all(22, 30);
  EXPECT_THAT(drain(21).back(), json::parse(report(30)));
}

TEST_F(OutboxTest, GivesTheDiskBackWhatHasBeenReadWhileMoreWaits) {
  outbox_ = Outbox(spool_path_, kMiB, SpoolBounds{.spare = 0});
  for (std::int64_t seq = 1; seq <= 16; ++seq) {
    ASSERT_TRUE(outbox_.push(seq, std::string(kMiB, static_cast<char>('a' + seq)), false));
  }
  const std::uint64_t before = room_taken(*spool());
  for (std::int64_t seq = 1; seq <= 8; ++seq) {
    outbox_.acknowledge(seq);
  }
  EXPECT_LT(room_taken(*spool()) + 7 * kMiB, before);
  EXPECT_EQ(outbox_.batch(10), "[" + std::string(kMiB, 'a' + 9) + "]");
}

TEST_F(OutboxTest, RefusesLinesBeyondItsBoundsAndKeepsFactsInOrder) {
  outbox_ = Outbox(spool_path_, 100, SpoolBounds{.bytes = 100, .spare = 0});
  for (std::int64_t seq = 1; seq <= 6; ++seq) {
    ASSERT_TRUE(push(seq, false)) << "three in memory, three on the disk";
  }
  EXPECT_FALSE(push(7, false));
  EXPECT_TRUE(push(7, true));
  EXPECT_FALSE(push(8, false));
  EXPECT_TRUE(push(8, true));
  EXPECT_EQ(drain(), reports(8));
  EXPECT_TRUE(push(9, false)) << "there is room again";
}

TEST(SpoolBounds, LeaveATenthOfTheDiskToOthersOrWhatIsEnoughForThem) {
  const SpoolBounds bounds{.bytes = 50, .spare = 20};
  EXPECT_TRUE(may_grow(49, disk(1000, 20), bounds));
  EXPECT_FALSE(may_grow(50, disk(1000, 1000), bounds));
  EXPECT_FALSE(may_grow(0, disk(1000, 19), bounds));
  EXPECT_TRUE(may_grow(0, disk(100, 10), bounds));
  EXPECT_FALSE(may_grow(0, disk(100, 9), bounds));
}

TEST(Outbox, KeepsFactsAndLosesLinesWhenTheDiskFails) {
  Outbox outbox("/no/such/directory/spool", 10);
  EXPECT_TRUE(outbox.push(1, "12345678", true));
  EXPECT_FALSE(outbox.push(2, "lines", false));
  EXPECT_TRUE(outbox.push(2, "fact", true));
  EXPECT_EQ(outbox.batch(100), "[12345678,fact]");
}

}  // namespace
}  // namespace trainyard::instance
