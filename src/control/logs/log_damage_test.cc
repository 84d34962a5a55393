// SPDX-License-Identifier: Apache-2.0
// A small segment that is cut off, or changed, at each of its bytes. The lines before it stay,
// those behind it are found again, what is lost is named, and nothing comes twice or in another
// order.
#include <atomic>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "control/logs/log_store.h"
#include "control/logs/log_stream.h"

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLines = 6;

WallTime at(std::int64_t millis) {
  return WallTime{Duration{millis}};
}

class LogDamage : public testing::Test {
 protected:
  LogDamage() {
    const auto stream = *LogStream::open(directory(), at(5));
    std::vector<LogEvent> lines;
    lines.reserve(kLines);
    for (int i = 0; i < kLines; ++i) {
      lines.push_back({.at = at(1000 + i), .text = text_of(i)});
    }
    EXPECT_TRUE(stream->append(lines, at(2000)));
    EXPECT_TRUE(stream->sync());
    intact_ = *read_file(segment());
  }

  static std::string text_of(int line) {
    return "line " + std::string(7, static_cast<char>('a' + line));
  }
  static std::size_t record_bytes() { return kRecordHeader + text_of(0).size(); }
  // The line that byte belongs to; -1 for the header.
  static int line_at(std::size_t byte) {
    return byte < kSegmentHeader ? -1 : static_cast<int>((byte - kSegmentHeader) / record_bytes());
  }
  Path directory() const { return folder_.path() / "stream"; }
  Path segment() const { return directory() / "00000000000000000000.log"; }

  // As a server finds it at its next start.
  LogPage read_after(const std::string& bytes, const LogQuery& query = {}) {
    std::filesystem::remove_all(directory());
    EXPECT_TRUE(make_directories(directory()));
    EXPECT_TRUE(write_file(segment(), bytes));
    const auto stream = LogStream::open(directory(), at(5));
    EXPECT_TRUE(stream) << stream.error().message;
    return *(*stream)->read(query);
  }

  // Notes of damage as "!".
  static std::vector<std::string> texts(const LogPage& page) {
    std::vector<std::string> out;
    out.reserve(page.events.size());
    for (const StoredEvent& event : page.events) {
      out.push_back(event.text.starts_with("[trainyard]") ? "!" : event.text);
    }
    return out;
  }
  static void expect_rising(const LogPage& page) {
    for (std::size_t i = 1; i < page.events.size(); ++i) {
      EXPECT_LT(page.events[i - 1].position, page.events[i].position);
    }
  }

  // In memory, so that no test waits for the disk.
  TempDir folder_ = *TempDir::make("log-damage-", "/dev/shm");
  std::string intact_;
};

TEST_F(LogDamage, CutAtAnyByteKeepsEveryWholeLine) {
  for (std::size_t size = 0; size <= intact_.size(); ++size) {
    SCOPED_TRACE(size);
    std::vector<std::string> whole;
    for (int line = 0; line < std::max(0, line_at(size)); ++line) {
      whole.push_back(text_of(line));
    }
    EXPECT_EQ(texts(read_after(intact_.substr(0, size))), whole);
  }
}

TEST_F(LogDamage, ChangedAtAnyByteLosesThatLineOnly) {
  for (std::size_t byte = 0; byte < intact_.size(); ++byte) {
    SCOPED_TRACE(byte);
    std::string bytes = intact_;
    bytes[byte] = static_cast<char>(bytes[byte] ^ 0x55);
    std::vector<std::string> expected;
    for (int line = 0; line < kLines; ++line) {
      const bool is_last = line == kLines - 1;
      if (line != line_at(byte)) {
        expected.push_back(text_of(line));
      } else if (!is_last) {  // the last one is torn, as far as anyone can tell
        expected.emplace_back("!");
      }
    }
    const LogPage page = read_after(bytes);
    EXPECT_EQ(texts(page), expected);
    expect_rising(page);
  }
}

// What power loss leaves of two appends of which only the later one reached the disk.
TEST_F(LogDamage, ZerosInTheMiddleAreSkippedAndNamed) {
  std::string bytes = intact_;
  const std::size_t from = kSegmentHeader + record_bytes();
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), 3 * record_bytes(), '\0');
  const LogPage page = read_after(bytes);
  EXPECT_THAT(texts(page), ElementsAre(text_of(0), "!", text_of(4), text_of(5)));
  EXPECT_THAT(page.events[1].text, HasSubstr("108 bytes are damaged in 00000000000000000000.log"));
  EXPECT_EQ(page.events[1].at, page.events[0].at);
}

// Numbers behind damage may be too high, never too low: that would skip lines.
TEST_F(LogDamage, AFollowerMissesNothingBehindDamage) {
  std::string bytes = intact_;
  const std::size_t from = kSegmentHeader + record_bytes();
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), 3 * record_bytes(), '\0');
  EXPECT_THAT(texts(read_after(bytes, {.from = 4})), ElementsAre(text_of(4), text_of(5)));
  EXPECT_THAT(texts(read_after(bytes, {.from = 100, .backward = true})),
              ElementsAre(text_of(0), "!", text_of(4), text_of(5)));
}

TEST_F(LogDamage, GoesOnBehindDamageAndKeepsItsNumbers) {
  std::string bytes = intact_;
  bytes[kSegmentHeader + 2 * record_bytes()] = 0x7f;
  const LogPage before = read_after(bytes);
  const auto stream = *LogStream::open(directory(), at(5));
  ASSERT_TRUE(stream->append(std::vector{LogEvent{.at = at(3000), .text = "new"}}, at(3000)));
  const LogPage after = *stream->read({.from = before.end});
  EXPECT_THAT(texts(after), ElementsAre("new"));
}

TEST_F(LogDamage, ATimeRangeIsFoundBehindDamage) {
  std::string bytes = intact_;
  bytes[kSegmentHeader] = 0x7f;
  EXPECT_THAT(texts(read_after(bytes, {.start = at(1004), .end = at(1005)})),
              ElementsAre(text_of(4)));
}

TEST(LogDurability, ALineIsOnDiskBeforeItIsShown) {
  const TempDir folder = *TempDir::make("log-sync-");
  const auto stream = *LogStream::open(folder.path() / "stream", at(5));
  ASSERT_TRUE(stream->append(std::vector{LogEvent{.at = at(1), .text = "a"}}, at(2)));
  EXPECT_TRUE(stream->read({.from = 1})->events.empty());
  EXPECT_TRUE(stream->is_dirty());  // nothing was shown
  EXPECT_EQ(stream->read({})->events.size(), 1u);
  EXPECT_FALSE(stream->is_dirty());
}

// By a process that died before it could sync it, whatever the clock says of when that was.
TEST(LogDurability, WhatWasWrittenBeforeAStartIsSyncedBeforeItIsShown) {
  const TempDir folder = *TempDir::make("log-sync-");
  {
    const auto stream = *LogStream::open(folder.path() / "stream", at(5));
    ASSERT_TRUE(stream->append(std::vector{LogEvent{.at = at(1), .text = "a"}}, at(2)));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "stream")) {
    std::filesystem::last_write_time(
        entry.path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  const auto again = *LogStream::open(folder.path() / "stream", at(5));
  EXPECT_TRUE(again->is_dirty());
  EXPECT_EQ(again->read({})->events.size(), 1u);
  EXPECT_FALSE(again->is_dirty());
}

// To look through many streams costs the disk nothing for those in which nobody has written.
TEST(LogDurability, WhatWasOnlyOpenedIsClosedWithoutASync) {
  static std::atomic<int> syncs;
  const TempDir folder = *TempDir::make("log-sync-");
  SystemClock clock;
  const LogStoreOptions options{.max_open = 4, .stream = {.sync_file = [](int fd) {
                                                 ++syncs;
                                                 return ::fdatasync(fd);
                                               }}};
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  {
    const auto store = *LogStore::open(folder.path() / "logs", clock);
    for (const std::string& name : names) {
      ASSERT_TRUE(store->append("group", name, std::vector{LogEvent{.at = at(1), .text = name}}));
    }
  }
  const auto store = *LogStore::open(folder.path() / "logs", clock, options);
  for (const std::string& name : names) {
    EXPECT_EQ(store->summary("group", name)->events, 1u);
  }
  EXPECT_EQ(syncs, 0);
  EXPECT_EQ(store->read("group", "a", {})->events.size(), 1u);
  EXPECT_EQ(syncs, 1) << "what is shown is on the disk";
}

TEST(LogDurability, WhatWasWrittenIsSyncedBeforeItIsClosed) {
  const TempDir folder = *TempDir::make("log-sync-");
  const auto stream = *LogStream::open(folder.path() / "stream", at(5));
  EXPECT_TRUE(stream->needs_sync_to_close()) << "it is new";
  ASSERT_TRUE(stream->sync());
  EXPECT_FALSE(stream->needs_sync_to_close());
  const auto again = *LogStream::open(folder.path() / "stream", at(5));
  EXPECT_FALSE(again->needs_sync_to_close());
  ASSERT_TRUE(again->append(std::vector{LogEvent{.at = at(1), .text = "a"}}, at(2)));
  EXPECT_TRUE(again->needs_sync_to_close());
}

// As the kernel tells an error of a disk: to the one who asks first, and to nobody after that.
class LogOnAFailingDisk : public testing::Test {
 protected:
  static int sync_file(int fd) {
    if (errors > 0) {
      --errors;
      errno = EIO;
      return -1;
    }
    return ::fdatasync(fd);
  }
  LogOnAFailingDisk() { errors = 0; }
  Result<void> append(const std::string& text) {
    return stream_->append(std::vector{LogEvent{.at = at(1), .text = text}}, at(2));
  }
  std::vector<std::string> texts() {
    std::vector<std::string> out;
    const auto page = stream_->read({});
    for (const StoredEvent& event : page ? page->events : std::vector<StoredEvent>()) {
      out.push_back(event.text);
    }
    return out;
  }

  static inline int errors = 0;  // still to come
  TempDir folder_ = *TempDir::make("log-disk-", "/dev/shm");
  std::shared_ptr<LogStream> stream_ =
      *LogStream::open(folder_.path() / "stream", at(5), {.sync_file = &sync_file});
};

TEST_F(LogOnAFailingDisk, NobodyIsToldThatAllIsWellAfterAnError) {
  ASSERT_TRUE(append("a"));
  errors = 1;
  EXPECT_FALSE(stream_->read({}));  // this reader hears of it,
  const auto acknowledged = stream_->sync();
  ASSERT_FALSE(acknowledged);  // and so does who asks next
  EXPECT_THAT(acknowledged.error().message, HasSubstr("cannot sync the log"));
  EXPECT_TRUE(stream_->is_dirty());
}

// Opened again, it would be told that all is well.
TEST_F(LogOnAFailingDisk, WhatCouldNotBeSyncedIsNotClosed) {
  ASSERT_TRUE(append("a"));
  stream_ = *LogStream::open(folder_.path() / "stream", at(5), {.sync_file = &sync_file});
  EXPECT_FALSE(stream_->needs_sync_to_close());
  errors = 1;
  ASSERT_FALSE(stream_->read({}));
  EXPECT_TRUE(stream_->needs_sync_to_close());
  EXPECT_FALSE(stream_->sync());
}

TEST_F(LogOnAFailingDisk, WhatIsSentAgainGoesToAnotherSegment) {
  ASSERT_TRUE(append("a") && stream_->sync() && append("b"));
  errors = 1;
  ASSERT_FALSE(stream_->sync());
  ASSERT_TRUE(append("b"));
  ASSERT_TRUE(stream_->sync());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "stream/00000000000000000001.log"));
  EXPECT_THAT(texts(), ElementsAre("a", "b"));
  stream_ = *LogStream::open(folder_.path() / "stream", at(5));
  EXPECT_THAT(texts(), ElementsAre("a", "b"));
}

// They were acknowledged before it was opened: nobody sends them again.
TEST_F(LogOnAFailingDisk, WhatWasThereWhenItWasOpenedStays) {
  ASSERT_TRUE(append("a"));
  stream_ = *LogStream::open(folder_.path() / "stream", at(5), {.sync_file = &sync_file});
  ASSERT_TRUE(append("b"));
  errors = 1;
  ASSERT_FALSE(stream_->sync());
  ASSERT_TRUE(append("b") && stream_->sync());
  EXPECT_THAT(texts(), ElementsAre("a", "b"));
}

TEST_F(LogOnAFailingDisk, AnEmptySegmentIsBegunAgain) {
  errors = 1;
  ASSERT_FALSE(stream_->sync());
  ASSERT_TRUE(append("a") && stream_->sync());
  EXPECT_THAT(texts(), ElementsAre("a"));
}

class SealedDamage : public testing::Test {
 protected:
  SealedDamage() {
    const auto stream = *LogStream::open(directory(), at(5), options());
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(stream->append(std::vector{LogEvent{.at = at(1000 + i), .text = "x"}}, at(2000)));
    }
  }
  static LogStreamOptions options() { return {.segment_bytes = 300}; }
  Path directory() const { return folder_.path() / "stream"; }
  Path second() const { return directory() / "00000000000000000011.log"; }
  std::vector<StoredEvent> read() const {
    const auto stream = LogStream::open(directory(), at(5), options());
    EXPECT_TRUE(stream) << stream.error().message;
    const auto forward = (*stream)->read({});
    const auto backward = (*stream)->read({.from = 1000, .backward = true});
    EXPECT_EQ(forward->events.size(), backward->events.size());
    return forward->events;
  }

  // In memory, so that no test waits for the disk.
  TempDir folder_ = *TempDir::make("log-damage-", "/dev/shm");
};

TEST_F(SealedDamage, AMissingFileIsNamedAndTheRestIsShown) {
  ASSERT_TRUE(std::filesystem::remove(second()));
  const auto events = read();
  ASSERT_EQ(events.size(), 40u - 11u + 1u);
  EXPECT_THAT(events[11].text, HasSubstr("00000000000000000011.log is missing: 11 lines"));
  EXPECT_EQ(events[12].position, 22u);
}

TEST_F(SealedDamage, AnIndexThatIsGoneOrWrongIsMadeAgain) {
  for (const std::string content : {"", "YARDIDX1 and then nothing that fits"}) {
    ASSERT_TRUE(write_file(directory() / "00000000000000000011.idx", content));
    EXPECT_EQ(read().size(), 40u);
  }
}

TEST_F(SealedDamage, CutAtAnyByteShowsTheOtherSegments) {
  const std::string bytes = *read_file(second());
  for (std::size_t size = 0; size < bytes.size(); size += 5) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(write_file(second(), bytes.substr(0, size)));
    const auto events = read();
    ASSERT_GE(events.size(), 40u - 11u + 1u);
    EXPECT_EQ(events[10].position, 10u);
    EXPECT_EQ(events[events.size() - 18].position, 22u);
  }
}

TEST_F(SealedDamage, CutWithoutAnIndexShowsTheOtherSegments) {
  const std::string bytes = *read_file(second());
  for (std::size_t size = 0; size < bytes.size(); size += 40) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(write_file(second(), bytes.substr(0, size)));
    std::filesystem::remove(directory() / "00000000000000000011.idx");
    const auto events = read();
    ASSERT_GE(events.size(), 40u - 11u + 1u);
    EXPECT_EQ(events[events.size() - 18].position, 22u);
  }
}

}  // namespace
}  // namespace trainyard::control
