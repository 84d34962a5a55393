// SPDX-License-Identifier: Apache-2.0
// The mirror with real files, real news of the kernel and a store that fails on demand. Times are
// scaled down: kQuick.
#include "instance/transfer/checkpoint_mirror.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "instance/testing/checkpoint_fixture.h"
#include "instance/testing/flaky_store.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Files = std::map<std::string, std::string>;
using Mood = FlakyStore::Mood;

constexpr MirrorOptions kQuick{.times = {.settle = Duration(30),
                                         .quiet = Duration(100),
                                         .open_quiet = Duration(300),
                                         .patience = Duration(400),
                                         .force_after = Duration(2'000),
                                         .first_retry = Duration(10),
                                         .last_retry = Duration(100)},
                               .threads = 4,
                               .look_interval = Duration(100),
                               .no_progress = Duration(500)};

class MirrorTest : public CheckpointFixture {
 protected:
  void SetUp() override {
    CheckpointFixture::SetUp();
    flaky_ = std::make_unique<FlakyStore>(*store_, cancel_.get_token());
  }
  void start(const MirrorOptions& options = kQuick) {
    const StoredFiles restored = restore();
    const auto report = [this](const wire::CheckpointLag& lag) {
      const MutexLock lock(mutex_);
      lags_.push_back(lag);
    };
    auto mirror = CheckpointMirror::start({.place = place_,
                                           .store = *flaky_,
                                           .cancel = cancel_,
                                           .clock = clock_,
                                           .sinks = {.progress = progress(), .lag = report},
                                           .options = options},
                                          restored);
    ASSERT_TRUE(mirror) << mirror.error().message;
    mirror_ = std::move(*mirror);
  }
  // With the times of a job; returns when changes are told by the kernel.
  void start_and_watch() {
    start({});
    write("first", "x");
    ASSERT_TRUE(eventually([&] { return stored().contains("first"); }));
  }
  // `on_note_` runs in the mirror's thread, once.
  ProgressSinks progress() {
    ProgressSinks all = sinks();
    all.note = [this, note = all.note](const std::string& text) {
      note(text);
      if (const auto once = std::exchange(on_note_, nullptr)) {
        once();
      }
    };
    return all;
  }
  void renew() {
    mirror_.reset();
    cancel_ = std::stop_source();
    flaky_ = std::make_unique<FlakyStore>(*store_, cancel_.get_token());
  }
  // Whether it ends by itself, and in time.
  bool flush(Duration time = seconds(20)) {
    mirror_->flush();
    return mirror_->wait_for_end(time);
  }
  static bool eventually(const std::function<bool()>& condition, Duration time = seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= deadline) {
        return false;
      }
      std::this_thread::sleep_for(Duration(5));
    }
    return true;
  }
  bool becomes(const Files& files) {
    return eventually([&] { return stored() == files; });
  }
  Path at(const std::string& path) const { return place_.directory / path; }
  std::vector<wire::CheckpointLag> lags() {
    const MutexLock lock(mutex_);
    return lags_;
  }

  std::stop_source cancel_;
  std::unique_ptr<FlakyStore> flaky_;
  Mutex mutex_;
  std::vector<wire::CheckpointLag> lags_;
  std::function<void()> on_note_;
  std::unique_ptr<CheckpointMirror> mirror_;
};

TEST_F(MirrorTest, SendsNewFilesAndKeepsSubdirectories) {
  start();
  write("a", "1");
  write("deep/er/still/b", "2");
  EXPECT_TRUE(becomes({{"a", "1"}, {"deep/er/still/b", "2"}}));
}

TEST_F(MirrorTest, SendsWhatWasThereBeforeIt) {
  put("ckpt/restored", "1");
  start();
  write("a", "1");
  EXPECT_TRUE(becomes({{"a", "1"}, {"restored", "1"}}));
  EXPECT_EQ(flaky_->puts(), 1) << "what was restored was sent again";
}

TEST_F(MirrorTest, FollowsARenameOverAnOldFile) {
  start();
  write("model", "old");
  ASSERT_TRUE(becomes({{"model", "old"}}));
  write("model.tmp", "new");
  fs::rename(at("model.tmp"), at("model"));
  EXPECT_TRUE(becomes({{"model", "new"}}));
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), (Files{{"model", "new"}}));
}

TEST_F(MirrorTest, LeavesNoTemporaryNameBehind) {
  start();
  for (int i = 0; i < 20; ++i) {
    const std::string name = "step-" + std::to_string(i);
    write(name + ".tmp", name);
    fs::rename(at(name + ".tmp"), at(name));
  }
  EXPECT_TRUE(flush());
  EXPECT_THAT(stored(), SizeIs(20));
  EXPECT_THAT(stored(), Not(Contains(Key(HasSubstr("tmp")))));
}

TEST_F(MirrorTest, RemovesATemporaryNameThatWasRenamedLate) {
  start();
  write("a.tmp", "1");
  ASSERT_TRUE(becomes({{"a.tmp", "1"}}));
  fs::rename(at("a.tmp"), at("a"));
  EXPECT_TRUE(becomes({{"a", "1"}}));
}

TEST_F(MirrorTest, FollowsRenamedDirectories) {
  start();
  write("tmp-checkpoint-1/part/a", "1");
  write("tmp-checkpoint-1/b", "2");
  ASSERT_TRUE(eventually([&] { return stored().size() == 2; }));
  fs::rename(at("tmp-checkpoint-1"), at("checkpoint-1"));
  EXPECT_TRUE(becomes({{"checkpoint-1/part/a", "1"}, {"checkpoint-1/b", "2"}}));
  write("checkpoint-1/part/c", "3");
  EXPECT_TRUE(becomes(
      {{"checkpoint-1/part/a", "1"}, {"checkpoint-1/b", "2"}, {"checkpoint-1/part/c", "3"}}));
}

TEST_F(MirrorTest, RepeatsDeletions) {
  put("ckpt/restored", "1");
  put("ckpt/dir/restored", "2");
  start();
  write("own", "3");
  ASSERT_TRUE(eventually([&] { return stored().size() == 3; }));
  ASSERT_TRUE(remove_tree(at("restored")));
  ASSERT_TRUE(remove_tree(at("dir")));
  EXPECT_TRUE(becomes({{"own", "3"}}));
  ASSERT_TRUE(remove_tree(at("own")));
  EXPECT_TRUE(becomes({}));
}

TEST_F(MirrorTest, LeavesTheObjectsOfOtherHostsAlone) {
  put("ckpt/shared", "restored");
  start();
  put("ckpt/other-host", "theirs");
  put("ckpt/shared", "newer, theirs");
  ASSERT_TRUE(remove_tree(at("shared")));
  write("own", "mine");
  EXPECT_TRUE(eventually([&] { return stored().contains("own"); }));
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(),
            (Files{{"other-host", "theirs"}, {"own", "mine"}, {"shared", "newer, theirs"}}));
}

TEST_F(MirrorTest, SendsAgainAFileThatChangesWhileItIsSent) {
  std::atomic<bool> once = true;
  flaky_->on_put = [&](const std::string&) {
    if (once.exchange(false)) {
      write("a", "second");
    }
  };
  start();
  write("a", "first");
  EXPECT_TRUE(becomes({{"a", "second"}}));
}

TEST_F(MirrorTest, NeverStoresATornReading) {
  const std::string first(std::size_t{4} << 20, '1');
  const std::string second(std::size_t{4} << 20, '2');
  std::atomic<bool> once = true;
  flaky_->on_read = [&](const std::string&, std::uint64_t bytes) {
    if (bytes > 0 && once.exchange(false)) {  // in place, under the reader
      std::ofstream(at("a"), std::ios::in | std::ios::out | std::ios::binary) << second;
    }
  };
  start();
  write("a", first);
  bool is_torn = false;
  EXPECT_TRUE(eventually([&] {
    const Files now = stored();
    is_torn = is_torn || (now.contains("a") && now.at("a") != first && now.at("a") != second);
    return now.contains("a") && now.at("a") == second;
  }));
  EXPECT_FALSE(once);
  EXPECT_FALSE(is_torn);
}

TEST_F(MirrorTest, ThrowsAwayWhatHasGrownOrShrunkUnderTheReader) {
  std::atomic<int> turn = 0;
  flaky_->on_read = [&](const std::string&, std::uint64_t bytes) {
    if (bytes > 0 && turn < 2) {
      fs::resize_file(at("a"), turn++ == 0 ? 3'000'000 : 1'000);
    }
  };
  start();
  write("a", std::string(2'000'000, 'x'));
  ASSERT_TRUE(eventually([&] { return stored().contains("a"); }));
  EXPECT_EQ(turn, 2);
  EXPECT_EQ(stored().at("a"), std::string(1'000, 'x'));
}

TEST_F(MirrorTest, SendsAFileThatIsRewrittenContinuously) {
  start();
  std::atomic<bool> end = false;
  std::thread writer([&] {
    for (int i = 0; !end; ++i) {
      std::ofstream(at("a")) << "version " << i;
      std::this_thread::sleep_for(Duration(5));
    }
  });
  EXPECT_TRUE(eventually([&] { return flaky_->puts() >= 3 && stored().contains("a"); }));
  end = true;
  writer.join();
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), tree());
}

TEST_F(MirrorTest, SendsAFileThatStaysOpenOnceItIsQuiet) {
  start();
  std::ofstream out(at("events"));
  out << "first" << std::flush;
  EXPECT_TRUE(becomes({{"events", "first"}}));
  out << ", second" << std::flush;
  EXPECT_TRUE(becomes({{"events", "first, second"}}));
}

// A program that opens its checkpoint in place and pauses while it writes, for longer than
// patience.
TEST_F(MirrorTest, ReplacesNoWholeObjectByAFileThatIsBeingWritten) {
  for (const auto mode : {std::ios::out, std::ios::in | std::ios::out}) {
    put("ckpt/last.pt", std::string(4'000, 'o'));
    start();
    std::ofstream out(at("last.pt"), mode);
    for (int i = 0; i < 20; ++i) {
      out << std::string(100, 'n') << std::flush;
      std::this_thread::sleep_for(Duration(50));
      ASSERT_EQ(stored().at("last.pt"), std::string(4'000, 'o')) << i;
    }
    out.close();
    EXPECT_TRUE(eventually([&] { return stored() == tree(); }, Duration(1'500)));
    ASSERT_TRUE(remove_tree(place_.directory));
    renew();
  }
}

TEST_F(MirrorTest, SendsAClosedFileWithinItsBound) {
  put("ckpt/last.pt", "old");
  start_and_watch();
  std::ofstream(at("last.pt")) << "new";
  EXPECT_TRUE(eventually([&] { return stored().at("last.pt") == "new"; }, Duration(1'500)));
}

TEST_F(MirrorTest, SendsAFileThatStaysOpenForTooLongAndSaysSo) {
  put("ckpt/last.pt", "old");
  start();
  std::ofstream out(at("last.pt"));
  out << "n" << std::flush;
  EXPECT_TRUE(becomes({{"last.pt", "n"}}) && eventually([&] { return !notes().empty(); }));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("/last.pt stays open for writing")));
}

TEST_F(MirrorTest, KeepsTheObjectOfAFileWhoseWriterWasKilled) {
  put("ckpt/last.pt", "whole");
  start_and_watch();
  std::ofstream(at("other")) << "closed in time";
  ASSERT_TRUE(eventually([&] { return stored().contains("other"); }));
  std::ofstream(at("last.pt")) << "tor";  // closed, as by the kernel when a process dies
  mirror_->killed({.at = clock_.now()});
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), (Files{{"last.pt", "whole"}, {"other", "closed in time"}, {"first", "x"}}));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("/last.pt is not mirrored to S3: its writer was")));
  restore();
  EXPECT_EQ(tree(), stored());
}

TEST_F(MirrorTest, TellsWhatAStopHasTornFromWhatWasSavedBecauseOfIt) {
  put("ckpt/torn", "whole");
  put("ckpt/saved", "old");
  start_and_watch();
  std::ofstream torn(at("torn"));
  torn << "tor" << std::flush;
  mirror_->stopping();
  torn.close();
  std::ofstream(at("saved")) << "new";
  mirror_->killed({.at = clock_.now() + Duration(5), .is_by_stop = true});
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), (Files{{"torn", "whole"}, {"saved", "new"}, {"first", "x"}}));
}

TEST_F(MirrorTest, SendsWhatAnotherProcessWritesOnAfterAKill) {
  put("ckpt/last.pt", "whole");
  start_and_watch();
  std::ofstream out(at("last.pt"));
  out << "ne" << std::flush;
  mirror_->killed({.at = clock_.now()});
  std::this_thread::sleep_for(Duration(50));
  out << "w";
  out.close();
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), (Files{{"last.pt", "new"}, {"first", "x"}}));
}

TEST_F(MirrorTest, SendsTenThousandSmallFilesInTime) {
  start({.threads = 8});
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) {
    write("d" + std::to_string(i % 100) + "/f" + std::to_string(i), "x");
  }
  ASSERT_TRUE(flush(seconds(50)));
  EXPECT_TRUE(mirror_->is_complete());
  const auto took = std::chrono::steady_clock::now() - began;
  std::size_t count = 0;
  s3::ListQuery query{.prefix = "ckpt/"};
  for (bool more = true; more;) {
    const auto page = store_->list("bucket", query);
    count += page->objects.size();
    more = page->truncated;
    query.after = page->next_after;
  }
  EXPECT_EQ(count, 10'000u);
  EXPECT_LE(flaky_->at_once(), 8);
  std::printf("10,000 files: %lld ms\n",
              static_cast<long long>(std::chrono::duration_cast<Duration>(took).count()));
}

// More news than the kernel keeps: 3 for each turn, and at most 16,384 by default.
void make_news_overflow(const Path& directory) {
  for (int i = 0; i < 7'000; ++i) {
    const Path file = directory / ("f" + std::to_string(i % 2));
    std::ofstream(file) << i;
    fs::remove(file);
  }
}

TEST_F(MirrorTest, IsToldWhenNewsAreLost) {
  const CheckpointTree tree(place_);
  ASSERT_TRUE(make_directories(place_.directory));
  const auto watch = CheckpointWatch::open(tree);
  ASSERT_TRUE(watch);
  ASSERT_TRUE((*watch)->add(""));
  make_news_overflow(place_.directory);
  EXPECT_THAT((*watch)->take(), Contains(testing::Field(&TreeNews::kind, TreeNews::Kind::kLost)));
}

TEST_F(MirrorTest, FindsEverythingAfterNewsWereLost) {
  std::promise<void> stuck;
  std::promise<void> release;
  on_note_ = [&] {
    stuck.set_value();
    release.get_future().wait();
  };
  // It looks by itself only after a minute: what it finds, it finds because it knows of the loss.
  start({.times = kQuick.times, .look_interval = Duration(60'000)});
  write("early", "1");
  ASSERT_TRUE(becomes({{"early", "1"}}));
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  stuck.get_future().wait();
  make_news_overflow(place_.directory);
  write("late/a", "2");
  fs::remove(at("early"));
  release.set_value();
  EXPECT_TRUE(becomes({{"late/a", "2"}}));
  write("late/b", "3");  // in a directory whose making was not told
  EXPECT_TRUE(becomes({{"late/a", "2"}, {"late/b", "3"}}));
}

TEST_F(MirrorTest, SendsDeepDirectories) {
  start();
  std::string path = "d";
  while (path.size() < 900) {
    path += "/d";
  }
  write(path + "/a", "deep");
  EXPECT_TRUE(becomes({{path + "/a", "deep"}}));
}

TEST_F(MirrorTest, SendsOddNamesExactly) {
  start();
  const std::vector<std::string> names = {"h+i",
                                          "foo++bar.txt",
                                          "a&b=c;d,e@f$g:h?",
                                          "a b",
                                          "*?[x]",
                                          "\u3000",
                                          "\x7f",
                                          "new\nline",
                                          "e\u0301",
                                          "\u00e9",
                                          "\U0001F600",
                                          "Case",
                                          "case",
                                          "%41",
                                          "..x",
                                          "-rf",
                                          std::string(255, 'x')};
  Files wanted;
  for (const std::string& name : names) {
    ASSERT_TRUE(write_file(at(name).parent_path() / "tmp", name));
    fs::rename(at("tmp"), at(name));
    wanted[name] = name;
  }
  EXPECT_TRUE(becomes(wanted));
}

TEST_F(MirrorTest, NamesWhatCannotBeAKeyAndGoesOn) {
  start();
  write("not-\xff-utf8", "x");
  std::string path(200, 'd');
  for (int i = 0; i < 5; ++i) {
    path += "/" + std::string(200, 'd');
  }
  write(path + "/too-long", "x");
  write("good", "1");
  EXPECT_TRUE(becomes({{"good", "1"}}));
  EXPECT_TRUE(flush());
  EXPECT_THAT(notes(), UnorderedElementsAre(HasSubstr("not UTF-8"), HasSubstr("1024")));
}

TEST_F(MirrorTest, NeverFollowsALinkOutAndNamesItOnce) {
  ASSERT_TRUE(make_directories(scratch() / "outside"));
  ASSERT_TRUE(write_file(scratch() / "outside/secret", "secret"));
  start();
  fs::create_symlink("/etc/passwd", at("passwd"));
  fs::create_symlink("../outside/secret", at("up"));
  fs::create_directory_symlink(scratch() / "outside", at("dir"));
  fs::create_symlink("dir/secret", at("through"));
  fs::create_symlink("nothing", at("dangling"));
  write("good", "1");
  ASSERT_TRUE(becomes({{"good", "1"}}));
  EXPECT_TRUE(flush());
  EXPECT_EQ(stored(), (Files{{"good", "1"}}));
  EXPECT_THAT(notes(), UnorderedElementsAre(HasSubstr("/passwd is not"), HasSubstr("/up is not"),
                                            HasSubstr("/dir is not"), HasSubstr("/dangling is not"),
                                            HasSubstr("/through is not")));
}

TEST_F(MirrorTest, SendsALinkInsideTheTreeAsItsFile) {
  start();
  write("step-2/model", "2");
  fs::create_symlink("step-2/model", at("last"));
  fs::create_symlink("/opt/ml/checkpoints/step-2/model", at("absolute"));
  EXPECT_TRUE(becomes({{"step-2/model", "2"}, {"last", "2"}, {"absolute", "2"}}));
}

TEST_F(MirrorTest, SkipsSocketsAndFifosByName) {
  start();
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(at("socket").string().size(), sizeof(address.sun_path));
  std::copy_n(at("socket").c_str(), at("socket").string().size() + 1, address.sun_path);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  write("good", "1");
  EXPECT_TRUE(becomes({{"good", "1"}}));
  EXPECT_TRUE(flush());
  EXPECT_THAT(notes(), UnorderedElementsAre(HasSubstr("/fifo is not mirrored to S3: it is a FIFO"),
                                            HasSubstr("/socket is not mirrored")));
}

TEST_F(MirrorTest, BringsAllFilesInTheEndAlthoughTheStoreFailsForAWhile) {
  start();
  Files wanted;
  const std::vector<Mood> moods = {Mood::kWell, Mood::kFailing, Mood::kLosingAnswers,
                                   Mood::kFailing, Mood::kWell};
  for (int i = 0; i < 50; ++i) {
    flaky_->be(moods[static_cast<std::size_t>(i / 10)]);
    const std::string name = "step-" + std::to_string(i);
    write(name + ".tmp", name);
    fs::rename(at(name + ".tmp"), at(name));
    wanted[name] = name;
    const int failures = flaky_->failures();
    if (i % 10 == 5 && moods[static_cast<std::size_t>(i / 10)] != Mood::kWell) {
      ASSERT_TRUE(eventually([&] { return flaky_->failures() > failures; }));
    }
  }
  EXPECT_TRUE(becomes(wanted));
  EXPECT_TRUE(flush());
  EXPECT_TRUE(mirror_->is_complete());
}

TEST_F(MirrorTest, ShowsHowFarItIsBehind) {
  start();
  flaky_->be(Mood::kFailing);
  write("a", "12345");
  ASSERT_TRUE(eventually([&] { return !lags().empty(); }));
  EXPECT_EQ(lags().front().files, 1);
  EXPECT_EQ(lags().front().bytes, 5);
  EXPECT_GE(lags().front().oldest, Duration(2'000));
  EXPECT_FALSE(lags().front().is_flushing);
  flaky_->be(Mood::kWell);
  EXPECT_TRUE(eventually([&] { return lags().back().files == 0; }));
}

TEST_F(MirrorTest, EndsTheFlushWithinItsBoundAlthoughTheStoreFailsForEver) {
  for (const Mood mood : {Mood::kFailing, Mood::kSilent}) {
    start();
    flaky_->be(mood);
    write("a", "1");
    EXPECT_TRUE(flush(seconds(5)));
    EXPECT_FALSE(mirror_->is_complete());
    EXPECT_THAT(notes(), Contains(HasSubstr("Missing: a.")));
    renew();
  }
}

TEST_F(MirrorTest, FlushesForLongerThanItsBoundWhileThereIsProgress) {
  start();
  write("keep", "x");
  flaky_->on_put = [](const std::string&) { std::this_thread::sleep_for(Duration(100)); };
  for (int i = 0; i < 40; ++i) {  // a second with 4 threads; the bound is half of one
    write("f" + std::to_string(i), "x");
  }
  EXPECT_TRUE(flush());
  EXPECT_TRUE(mirror_->is_complete());
  EXPECT_THAT(stored(), SizeIs(41));
}

TEST_F(MirrorTest, FlushesWhatWasWrittenJustBefore) {
  start({});  // whatever the times are
  std::ofstream out(at("open"));
  out << "never closed" << std::flush;
  write("a", "1");
  EXPECT_TRUE(flush(seconds(5)));
  EXPECT_EQ(stored(), (Files{{"open", "never closed"}, {"a", "1"}}));
}

TEST_F(MirrorTest, BreaksOffAtOnceWhenItIsTold) {
  start();
  flaky_->be(Mood::kSilent);
  write("a", "1");
  ASSERT_TRUE(eventually([&] { return flaky_->puts() > 0; }));
  mirror_->cancel();
  EXPECT_TRUE(mirror_->wait_for_end(seconds(2)));
}

TEST_F(MirrorTest, TellsTheNextAttemptWhatItHasSent) {
  start();
  write("a", "1");
  EXPECT_TRUE(flush());
  const StoredFiles known = load_stored(place_);
  ASSERT_THAT(known, ElementsAre(Key("a")));
  const StoredFiles restored = restore();
  EXPECT_EQ(restored, known);
}

}  // namespace
}  // namespace trainyard::instance
