// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_transfer.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "instance/testing/checkpoint_fixture.h"
#include "instance/testing/flaky_store.h"
#include "instance/transfer/checkpoint_mirror.h"
#include "testing/fake_clock.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;
using Kind = TransferEnd::Kind;

class TransferTest : public CheckpointFixture {
 protected:
  void SetUp() override {
    CheckpointFixture::SetUp();
    flaky_ = std::make_unique<FlakyStore>(*store_, std::stop_token());
  }
  FlakyStore& flaky() { return *flaky_; }
  TransferReport send(const std::string& path, bool torn_is_fine = false) {
    UploadProgress progress(clock_);
    return send_file(CheckpointTree(place_), flaky(), {.path = path, .torn_is_fine = torn_is_fine},
                     {.is_pointless = [this] { return is_pointless_; }, .progress = progress});
  }
  // As send(), where there is an object.
  TransferReport replace(const std::string& path, std::optional<SentPart> sent) {
    UploadProgress progress(clock_);
    return send_file(CheckpointTree(place_), flaky(),
                     {.path = path, .has_object = true, .sent = sent},
                     {.is_pointless = [] { return false; }, .progress = progress});
  }
  Path place() {
    EXPECT_TRUE(make_directories(place_.directory));
    return place_.directory / "a";
  }
  void change_under_the_reader() {
    flaky().on_read = [this](const std::string& key, std::uint64_t bytes) {
      if (bytes > 0) {
        std::ofstream(place_.directory / key.substr(5), std::ios::app) << "more";
      }
    };
  }
  TransferReport remove(const std::string& path, const std::string& etag) {
    return remove_object(CheckpointTree(place_), flaky(), {.path = path, .etag = etag});
  }

  bool is_pointless_ = false;
  std::unique_ptr<FlakyStore> flaky_;
};

TEST_F(TransferTest, StoresAFileAndSaysWhatItIs) {
  write("a/b", "12345");
  const TransferReport report = send("a/b");
  EXPECT_EQ(report.end.kind, Kind::kDone);
  EXPECT_EQ(report.end.stored.state.size, 5u);
  EXPECT_EQ(report.end.stored.etag, store_->head("bucket", "ckpt/a/b")->etag);
}

TEST_F(TransferTest, StoresNothingOfAFileThatChangesWhileItIsRead) {
  write("a", "12345");
  change_under_the_reader();
  EXPECT_EQ(send("a").end.kind, Kind::kTorn);
  EXPECT_THAT(stored(), IsEmpty());
}

TEST_F(TransferTest, LeavesAnObjectAloneWhileItsFileIsOpenForWriting) {
  write("a", "whole");
  ASSERT_EQ(send("a").end.kind, Kind::kDone);
  std::ofstream out(place_.directory / "a");
  out << "hal" << std::flush;
  EXPECT_EQ(replace("a", {}).end.kind, Kind::kHeldOpen);
  EXPECT_EQ(stored().at("a"), "whole");
  out << "ves";
  out.close();
  EXPECT_EQ(replace("a", {}).end.kind, Kind::kDone);
  EXPECT_EQ(stored().at("a"), "halves");
}

TEST_F(TransferTest, SeesAMappingOfAClosedFile) {
  write("a", "whole");
  const int fd = open((place_.directory / "a").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  void* const mapped = mmap(nullptr, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(replace("a", {}).end.kind, Kind::kHeldOpen);
  munmap(mapped, 5);
  EXPECT_EQ(replace("a", {}).end.kind, Kind::kDone);
}

TEST_F(TransferTest, StoresAnOpenFileThatHasOnlyGrown) {
  std::ofstream out(place(), std::ios::app);
  out << "one" << std::flush;
  TransferEnd first = send("a").end;
  ASSERT_EQ(first.kind, Kind::kDone) << "there is nothing to lose";
  const SentPart sent{.size = first.stored.state.size, .checksum = first.checksum};
  out << ", two" << std::flush;
  EXPECT_EQ(replace("a", sent).end.kind, Kind::kDone);
  EXPECT_EQ(stored().at("a"), "one, two");
  std::ofstream(place(), std::ios::in | std::ios::out) << "ONE";
  EXPECT_EQ(replace("a", sent).end.kind, Kind::kHeldOpen);
}

TEST_F(TransferTest, NeitherDelaysNorIsEndedByAWriterThatOpensMeanwhile) {
  write("a", "1");
  std::atomic<bool> end = false;
  std::thread prober([&] {
    while (!end) {
      const auto file = CheckpointTree(place_).open("a");
      EXPECT_TRUE(file && is_open_for_writing(file->get()).has_value());
    }
  });
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 2'000; ++i) {
    std::ofstream out(place_.directory / "a", std::ios::app);
    EXPECT_TRUE(out.is_open());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10));
  end = true;
  prober.join();
}

TEST_F(TransferTest, StoresWhatWasThereWhenATornReadingIsFine) {
  write("a", "12345");
  change_under_the_reader();
  const TransferReport report = send("a", /*torn_is_fine=*/true);
  EXPECT_EQ(report.end.kind, Kind::kDone);
  EXPECT_FALSE(report.end.is_settled) << "it is to be sent again";
  EXPECT_EQ(stored(), (std::map<std::string, std::string>{{"a", "12345"}}));
}

TEST_F(TransferTest, BreaksOffWhatIsPointless) {
  write("a", "1");
  is_pointless_ = true;
  EXPECT_EQ(send("a").end.kind, Kind::kTorn);
  EXPECT_THAT(stored(), IsEmpty());
}

TEST_F(TransferTest, TellsAMissingFileFromARefusedOneAndAFailingStore) {
  ASSERT_TRUE(make_directories(place_.directory));
  EXPECT_EQ(send("missing").end.kind, Kind::kGone);
  fs::create_symlink("/etc/passwd", place_.directory / "link");
  EXPECT_EQ(send("link").end.kind, Kind::kRefused);
  write("a", "1");
  flaky().be(FlakyStore::Mood::kFailing);
  const TransferReport report = send("a");
  EXPECT_EQ(report.end.kind, Kind::kStoreFailed);
  EXPECT_EQ(report.why, "InternalError: try again");
}

TEST_F(TransferTest, RemovesOnlyTheObjectThatItKnowsAndOnlyWhenTheFileHasGone) {
  ASSERT_TRUE(make_directories(place_.directory));
  put("ckpt/a", "1");
  EXPECT_EQ(remove("a", "another").end.kind, Kind::kDone);
  EXPECT_THAT(stored(), ElementsAre(Key("a"))) << "it is another host's";
  const std::string etag = store_->head("bucket", "ckpt/a")->etag;
  write("a", "1");
  EXPECT_EQ(remove("a", etag).end.kind, Kind::kGone);
  EXPECT_THAT(stored(), SizeIs(1)) << "the file is there again";
  fs::remove(place_.directory / "a");
  EXPECT_EQ(remove("a", etag).end.kind, Kind::kDone);
  EXPECT_THAT(stored(), IsEmpty());
  EXPECT_EQ(remove("a", etag).end.kind, Kind::kDone) << "once more";
}

class UploadProgressTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPart = UploadProgress::kReadAhead / 2;

  // Whether that much of its body is news.
  bool moves(std::uint64_t bytes) {
    clock_.advance(seconds(1));
    progress_.read("a", bytes);
    return progress_.last() == clock_.steady_now();
  }

  testing::FakeClock clock_;
  UploadProgress progress_{clock_};
  const FileState content_{.size = 9 * kPart, .mtime_ns = 1, .inode = 1};
};

TEST_F(UploadProgressTest, CountsWhatIsCertain) {
  progress_.begin("a", content_);
  EXPECT_FALSE(moves(2 * kPart)) << "all of it may be unacknowledged";
  EXPECT_TRUE(moves(3 * kPart));
  EXPECT_FALSE(moves(3 * kPart));
  EXPECT_TRUE(moves(4 * kPart));
  clock_.advance(seconds(1));
  progress_.done("a");
  EXPECT_EQ(progress_.last(), clock_.steady_now());
}

TEST_F(UploadProgressTest, CountsWhatIsReadAgainOnlyAFewTimes) {
  for (int reading = 0; reading <= UploadProgress::kRepeats; ++reading) {
    progress_.begin("a", content_);
    EXPECT_TRUE(moves(3 * kPart)) << reading;
    EXPECT_TRUE(moves(8 * kPart)) << reading;
  }
  for (int reading = 0; reading < 10; ++reading) {
    progress_.begin("a", content_);
    EXPECT_FALSE(moves(3 * kPart) || moves(8 * kPart)) << reading;
  }
  EXPECT_TRUE(moves(9 * kPart)) << "farther than ever";
}

TEST_F(UploadProgressTest, CountsAReadingThatComesToNothingForNone) {
  for (int reading = 0; reading < 10; ++reading) {
    progress_.begin("a", content_);
    EXPECT_FALSE(moves(kPart)) << reading;
  }
  progress_.begin("a", content_);
  EXPECT_TRUE(moves(8 * kPart));
  progress_.begin("a", content_);
  EXPECT_TRUE(moves(3 * kPart));
}

TEST_F(UploadProgressTest, CountsOtherContentOfAPathAnew) {
  for (std::uint64_t version = 2; version < 12; ++version) {
    progress_.begin("a", {.size = content_.size, .mtime_ns = 1, .inode = version});
    EXPECT_TRUE(moves(3 * kPart)) << version;
    EXPECT_TRUE(moves(8 * kPart)) << version;
  }
}

TEST_F(UploadProgressTest, KnowsNothingOfFilesThatHaveGone) {
  for (int reading = 0; reading < 10; ++reading) {
    progress_.begin("a", content_);
    EXPECT_TRUE(moves(3 * kPart)) << reading;
    progress_.forget_all_but({{"b", content_}});
  }
}

TEST_F(UploadProgressTest, CountsTheTimeInWhichTheStorePutsAFileTogether) {
  const SteadyTime before = progress_.last();
  progress_.begin("a", content_);
  progress_.completing("a");
  clock_.advance(seconds(100));
  EXPECT_EQ(progress_.last(), clock_.steady_now());
  progress_.failed("a");
  EXPECT_EQ(progress_.last(), before) << "it has come to nothing";
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// As a store that takes one MiB of each file in that time, once it has begun to acknowledge.
std::function<void(const std::string&, std::uint64_t)> one_mib_in(Duration time) {
  const auto seen = std::make_shared<std::map<std::string, std::uint64_t>>();
  const auto mutex = std::make_shared<Mutex>();
  return [=](const std::string& key, std::uint64_t bytes) {
    bool is_another = false;
    {
      const MutexLock lock(*mutex);
      is_another = std::exchange((*seen)[key], bytes / kMiB) != bytes / kMiB;
    }
    if (is_another && bytes > UploadProgress::kReadAhead) {
      std::this_thread::sleep_for(time);
    }
  };
}

// A mirror that gives up soon, over a store that is slow.
class FlushTest : public CheckpointFixture {
 protected:
  void begin(std::function<void(const std::string& key, std::uint64_t bytes)> on_read) {
    flaky_ = std::make_unique<FlakyStore>(*store_, cancel_.get_token());
    flaky_->on_read = std::move(on_read);
    ASSERT_TRUE(make_directories(place_.directory));
    auto mirror = CheckpointMirror::start(
        {.place = place_,
         .store = *flaky_,
         .cancel = cancel_,
         .clock = clock_,
         .sinks = {.progress = sinks(), .lag = [](auto&) {}},
         .options = {.times = {.settle = Duration(30), .quiet = Duration(100)},
                     .look_interval = Duration(100),
                     .no_progress = Duration(500)}},
        {});
    ASSERT_TRUE(mirror) << mirror.error().message;
    mirror_ = std::move(*mirror);
  }

  std::stop_source cancel_;
  std::unique_ptr<FlakyStore> flaky_;
  std::unique_ptr<CheckpointMirror> mirror_;
};

TEST_F(FlushTest, SendsALargeFileThatWasReplacedWhileItWasSent) {
  const auto slow = one_mib_in(Duration(100));
  const std::string next(42 * kMiB, '2');
  ASSERT_TRUE(write_file(scratch() / "next", next));
  std::atomic<bool> once = true;
  begin([&](const std::string& key, std::uint64_t bytes) {
    if (bytes >= 36 * kMiB && once.exchange(false)) {
      fs::rename(scratch() / "next", place_.directory / "last");
      mirror_->flush();
    }
    if (!once) {
      slow(key, bytes);
    }
  });
  write("last", std::string(42 * kMiB, '1'));
  EXPECT_TRUE(mirror_->wait_for_end(seconds(20)));
  EXPECT_TRUE(mirror_->is_complete());
  EXPECT_TRUE(stored().at("last") == next);
}

TEST_F(FlushTest, WaitsForSeveralSlowFilesAtOnce) {
  begin(one_mib_in(Duration(180)));
  for (const char* name : {"a", "b", "c", "d"}) {
    write(name, std::string(28 * kMiB, 'x'));
  }
  mirror_->flush();
  EXPECT_TRUE(mirror_->wait_for_end(seconds(20)));
  EXPECT_TRUE(mirror_->is_complete());
}

TEST_F(FlushTest, WaitsForAStoreThatPutsAFileTogetherWithoutAWord) {
  begin({});
  flaky_->on_put = [](const std::string&) { std::this_thread::sleep_for(Duration(1'500)); };
  write("last", "x");
  mirror_->flush();
  EXPECT_TRUE(mirror_->wait_for_end(seconds(20)));
  EXPECT_TRUE(mirror_->is_complete());
}

// A mirror that is held up in the midst of its next look once "target" has gone: only a look finds
// that "link" leads nowhere any more, and it says so.
class SlowLookTest : public CheckpointFixture {
 protected:
  void begin(const MirrorTimes& times, std::function<void()> in_look) {
    put("ckpt/last.pt", "whole");
    const StoredFiles restored = restore();
    write("target", "x");
    fs::create_symlink("target", place_.directory / "link");
    ProgressSinks all = sinks();
    all.note = [note = all.note, in_look = std::move(in_look)](const std::string& text) {
      note(text);
      if (text.find("/link is not mirrored") != std::string::npos) {
        in_look();
      }
    };
    auto mirror =
        CheckpointMirror::start({.place = place_,
                                 .store = *store_,
                                 .cancel = std::stop_source(),
                                 .clock = clock_,
                                 .sinks = {.progress = all, .lag = [](auto&) {}},
                                 .options = {.times = times, .look_interval = Duration(60'000)}},
                                restored);
    ASSERT_TRUE(mirror) << mirror.error().message;
    mirror_ = std::move(*mirror);
    settle();
  }
  void settle() { mirror_->stopping(); }  // all that was done before has been seen
  Path last() const { return place_.directory / "last.pt"; }
  std::string flushed() {
    mirror_->flush();
    EXPECT_TRUE(mirror_->wait_for_end(seconds(20)));
    return stored().at("last.pt");
  }

  std::unique_ptr<CheckpointMirror> mirror_;
};

TEST_F(SlowLookTest, KeepsTheObjectOfAFileWhoseWriterWasKilled) {
  begin({}, [] { std::this_thread::sleep_for(Duration(400)); });
  fs::remove(place_.directory / "target");
  std::ofstream(last()) << "tor";  // closed, as by the kernel when a process dies
  mirror_->killed({.at = clock_.now()});
  EXPECT_EQ(flushed(), "whole");
}

TEST_F(SlowLookTest, KeepsTheObjectOfAFileThatAStopHasTorn) {
  std::promise<void> torn;
  begin({.settle = seconds(60), .quiet = seconds(60)}, [&] { torn.get_future().wait(); });
  write("last.pt", "ne");
  settle();
  std::ofstream out(last(), std::ios::app);
  out << "w" << std::flush;
  fs::remove(place_.directory / "target");
  mirror_->stopping();  // it does not wait for so long
  out.close();
  mirror_->killed({.at = clock_.now() + Duration(5), .is_by_stop = true});
  torn.set_value();
  EXPECT_EQ(flushed(), "whole");
}

}  // namespace
}  // namespace trainyard::instance
