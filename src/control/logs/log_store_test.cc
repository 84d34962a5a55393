// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_store.h"

#include <atomic>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace trainyard::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kGroup = "/aws/sagemaker/TrainingJobs";
constexpr std::string_view kStream = "job/algo-1-1795983734";

WallTime at(std::int64_t millis) {
  return WallTime{Duration{millis}};
}

std::vector<LogEvent> lines(int first, int count) {
  std::vector<LogEvent> out(static_cast<std::size_t>(count));
  int number = first;
  for (LogEvent& event : out) {
    event = {.at = at(1000 + number), .text = "line " + std::to_string(number)};
    ++number;
  }
  return out;
}

std::vector<std::string> texts(const LogPage& page) {
  std::vector<std::string> out;
  out.reserve(page.events.size());
  for (const StoredEvent& event : page.events) {
    out.push_back(event.text);
  }
  return out;
}

class LogStoreTest : public testing::Test {
 protected:
  void open() { open({}); }
  void open(const LogStoreOptions& options) {
    store_.reset();
    auto opened = LogStore::open(directory_->path() / "logs", clock_, options);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    store_ = std::move(*opened);
  }
  // Segments so small that a few lines fill several.
  void open_with_small_segments() { open({.stream = {.segment_bytes = 2'000}}); }

  void append(const std::vector<LogEvent>& events, std::string_view stream = kStream) {
    auto appended = store_->append(kGroup, stream, events);
    ASSERT_TRUE(appended.has_value()) << appended.error().message;
  }
  LogPage read(const LogQuery& query, std::string_view stream = kStream) {
    auto page = store_->read(kGroup, stream, query);
    EXPECT_TRUE(page.has_value()) << page.error().message;
    return page ? *page : LogPage{};
  }
  std::vector<Path> files(const char* extension) {
    std::vector<Path> found;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory_->path() / "logs")) {
      if (entry.path().extension() == extension) {
        found.push_back(entry.path());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  Result<TempDir> directory_ = TempDir::make("log-store-");
  SystemClock clock_;
  std::unique_ptr<LogStore> store_;
};

TEST_F(LogStoreTest, GivesBackWhatWasAppendedInOrder) {
  open();
  append(lines(0, 3));
  append({{.at = at(500), .text = "日本語\t\"quoted\""}, {.at = at(2000), .text = ""}});
  const LogPage page = read({});
  EXPECT_THAT(texts(page), ElementsAre("line 0", "line 1", "line 2", "日本語\t\"quoted\"", ""));
  EXPECT_EQ(page.events[3].at, at(500));
  EXPECT_EQ(page.events[3].position, 3u);
  EXPECT_TRUE(page.complete);
}

TEST_F(LogStoreTest, PagesForwardWithoutGapOrRepeat) {
  open_with_small_segments();
  append(lines(0, 300));
  std::vector<std::string> seen;
  LogPage page;
  do {
    page = read({.from = page.end, .max_events = 7});
    for (const std::string& text : texts(page)) {
      seen.push_back(text);
    }
  } while (!page.complete);
  ASSERT_EQ(seen.size(), 300u);
  EXPECT_EQ(seen.front(), "line 0");
  EXPECT_EQ(seen.back(), "line 299");
}

TEST_F(LogStoreTest, PagesBackwardFromTheEnd) {
  open_with_small_segments();
  append(lines(0, 300));
  const LogPage last =
      read({.from = std::numeric_limits<std::uint64_t>::max(), .backward = true, .max_events = 2});
  EXPECT_THAT(texts(last), ElementsAre("line 298", "line 299"));
  const LogPage before = read({.from = last.begin, .backward = true, .max_events = 3});
  EXPECT_THAT(texts(before), ElementsAre("line 295", "line 296", "line 297"));
  const LogPage rest = read({.from = before.begin, .backward = true});
  EXPECT_EQ(rest.events.size(), 295u);
  EXPECT_TRUE(rest.complete);
}

TEST_F(LogStoreTest, CutsAPageByBytesButAlwaysGivesOneEvent) {
  open();
  append({{.at = at(1), .text = std::string(3'000, 'a')},
          {.at = at(2), .text = std::string(500, 'b')},
          {.at = at(3), .text = std::string(500, 'c')}});
  EXPECT_EQ(read({.max_bytes = 1'000}).events.size(), 1u);
  EXPECT_EQ(read({.from = 1, .max_bytes = 1'100}).events.size(), 2u);
}

TEST_F(LogStoreTest, FindsATimeRangeInManySegments) {
  open_with_small_segments();
  append(lines(0, 200));
  append(lines(200, 200));
  const LogPage page = read({.start = at(1150), .end = at(1153)});
  EXPECT_THAT(texts(page), ElementsAre("line 150", "line 151", "line 152"));
  EXPECT_EQ(page.end, 400u);
  EXPECT_TRUE(page.complete);
}

TEST_F(LogStoreTest, KeepsAMebibyteLineWhole) {
  open();
  const std::string text(std::size_t{1} << 20, 'x');
  append({{.at = at(1), .text = text}, {.at = at(2), .text = "next"}});
  EXPECT_EQ(read({.max_events = 1}).events.at(0).text, text);
  EXPECT_THAT(texts(read({.from = 1})), ElementsAre("next"));
}

TEST_F(LogStoreTest, GoesOnWhereItWasAfterARestart) {
  open_with_small_segments();
  append(lines(0, 150));
  open_with_small_segments();
  append(lines(150, 150));
  const LogPage page = read({});
  ASSERT_EQ(page.events.size(), 300u);
  EXPECT_EQ(page.events[299].text, "line 299");
  EXPECT_FALSE(files(".idx").empty());
}

TEST_F(LogStoreTest, CutsOffATornTailAndKeepsTheRest) {
  open();
  append(lines(0, 10));
  store_.reset();
  const Path segment = files(".log").at(0);
  std::filesystem::resize_file(segment, std::filesystem::file_size(segment) - 3);
  open();
  EXPECT_EQ(read({}).events.size(), 9u);
  append(lines(9, 1));
  EXPECT_THAT(texts(read({.from = 8})), ElementsAre("line 8", "line 9"));
}

TEST_F(LogStoreTest, CutsOffWhatPowerLossLeftAsZeros) {
  open();
  append(lines(0, 10));
  store_.reset();
  const Path segment = files(".log").at(0);
  std::filesystem::resize_file(segment, std::filesystem::file_size(segment) + 4'096);
  open();
  append(lines(10, 1));
  EXPECT_EQ(read({}).events.size(), 11u);
}

TEST_F(LogStoreTest, SurvivesALastSegmentThatWasNeverFilled) {
  open();
  append(lines(0, 10));
  store_.reset();
  const Path segment = files(".log").at(0);
  ASSERT_TRUE(write_file(segment.parent_path() / "00000000000000000010.log", "YARD").has_value());
  open();
  append(lines(10, 2));
  EXPECT_EQ(read({}).events.size(), 12u);
}

TEST_F(LogStoreTest, MakesALostIndexAgain) {
  open_with_small_segments();
  append(lines(0, 150));
  append(lines(150, 150));
  store_.reset();
  ASSERT_FALSE(files(".idx").empty());
  std::filesystem::resize_file(files(".idx").at(0), 50);
  open_with_small_segments();
  EXPECT_EQ(read({}).events.size(), 300u);
}

TEST_F(LogStoreTest, NamesADamagedRecordInItsPlace) {
  open_with_small_segments();
  append(lines(0, 150));
  append(lines(150, 150));
  const Fd file(::open(files(".log").at(0).c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), "#", 1, 200), 1);
  const LogPage page = read({});
  ASSERT_EQ(page.events.size(), 300u);
  EXPECT_THAT(page.events[5].text, testing::HasSubstr("are damaged in 00000000000000000000.log"));
  EXPECT_EQ(page.events[6].text, "line 6");
}

TEST_F(LogStoreTest, DoesNotKnowAGroupOrStreamThatNobodyWrote) {
  open();
  EXPECT_EQ(store_->read(kGroup, kStream, {}).error().subject, "log_group");
  append(lines(0, 1));
  const auto missing = store_->read(kGroup, "other", {});
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().subject, "log_stream");
  EXPECT_EQ(store_->streams("nope").error().subject, "log_group");
}

TEST_F(LogStoreTest, ListsByPrefixInNameOrder) {
  open();
  for (const char* stream : {"b/algo-1-1", "a/algo-2-1", "a/algo-1-1", "..", "created"}) {
    append(lines(0, 1), stream);
  }
  open();
  EXPECT_THAT(*store_->streams(kGroup, "a/"), ElementsAre("a/algo-1-1", "a/algo-2-1"));
  EXPECT_THAT(*store_->streams(kGroup),
              ElementsAre("..", "a/algo-1-1", "a/algo-2-1", "b/algo-1-1", "created"));
  EXPECT_THAT(store_->groups("/aws/"), ElementsAre(kGroup));
  EXPECT_THAT(store_->groups("/x"), IsEmpty());
}

TEST_F(LogStoreTest, RefusesANameThatDoesNotFitOnDisk) {
  open();
  const auto refused = store_->append(kGroup, std::string(300, 'a'), lines(0, 1));
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_F(LogStoreTest, SummarisesAStreamAlsoWhenItIsClosed) {
  open({.max_open = 4});
  append({{.at = at(700), .text = "x"}, {.at = at(300), .text = "y"}});
  for (int i = 0; i < 20; ++i) {
    append(lines(0, 1), "other/" + std::to_string(i));
  }
  const auto summary = store_->summary(kGroup, kStream);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->events, 2u);
  EXPECT_EQ(summary->first_at, at(700));
  EXPECT_EQ(summary->last_at, at(300));
  EXPECT_EQ(summary->earliest, at(300));
  EXPECT_EQ(summary->latest, at(700));
  EXPECT_EQ(read({}).events.size(), 2u);
}

TEST_F(LogStoreTest, AFollowerSeesEveryLineOnceWhileTheWriterAppends) {
  open_with_small_segments();
  constexpr int kLines = 3'000;
  ASSERT_TRUE(store_->append(kGroup, kStream, {}).has_value());
  const std::jthread writer([&] {
    for (int i = 0; i < kLines; i += 10) {
      append(lines(i, 10));
    }
  });
  const SteadyTime deadline = clock_.steady_now() + std::chrono::seconds(30);
  std::uint64_t next = 0;
  while (next < kLines && clock_.steady_now() < deadline) {
    const LogPage page = read({.from = next, .max_events = 64});
    for (const StoredEvent& event : page.events) {
      ASSERT_EQ(event.text, "line " + std::to_string(next));
      ASSERT_EQ(event.position, next);
      next += 1;
    }
  }
  EXPECT_EQ(next, static_cast<std::uint64_t>(kLines));
}

// This process may have no more open files than it has now and `more`.
class FewFiles {
 public:
  explicit FewFiles(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &previous_);
    const Fd probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit few{.rlim_cur = static_cast<rlim_t>(probe.get()) + more,
                     .rlim_max = previous_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &previous_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit previous_{};
};

TEST_F(LogStoreTest, ServesManyStreamsWithFewOpenFiles) {
  const FewFiles few(40);
  open();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) {
      append(lines(round, 1), "job/algo-" + std::to_string(i));
    }
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(texts(read({}, "job/algo-" + std::to_string(i))), ElementsAre("line 0", "line 1"));
  }
}

TEST_F(LogStoreTest, ManyWritersDoNotMixTheirStreams) {
  open({.max_open = 3, .stream = {.segment_bytes = 2'000}});
  {
    std::vector<std::jthread> writers;
    writers.reserve(8);
    for (int w = 0; w < 8; ++w) {
      writers.emplace_back([this, w] {
        for (int i = 0; i < 100; ++i) {
          append(lines(i, 1), "s" + std::to_string(w));
        }
      });
    }
  }
  for (int w = 0; w < 8; ++w) {
    const LogPage page = read({}, "s" + std::to_string(w));
    ASSERT_EQ(page.events.size(), 100u);
    EXPECT_EQ(page.events[99].text, "line 99");
  }
}

}  // namespace
}  // namespace trainyard::control
