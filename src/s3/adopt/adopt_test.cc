// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/adopt.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "s3/directory/upload_expiry.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct Adopt : StoreFixture {
  void SetUp() override {
    StoreFixture::SetUp();
    ASSERT_TRUE(make_directories(files() / "sub" / "deep"));
    write("a.txt", "alpha");
    write("sub/b", "beta");
    write("sub/deep/\xC3\xA9", "");
  }
  Path files() const { return folder.path() / "files"; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(files() / name, text));
  }
  AdoptProgress run(AdoptMode mode = AdoptMode::kShare) {
    auto done = adopt(*store, {.folder = files(), .bucket = "data", .prefix = "set/", .mode = mode},
                      [this](const AdoptProgress&) { ++reports; });
    EXPECT_TRUE(done) << done.error().message;
    return done ? *done : AdoptProgress();
  }
  std::vector<std::string> keys() {
    std::vector<std::string> found;
    const auto page = store->list("data", {});
    for (const auto& object : page.value().objects) {
      found.push_back(object.key);
    }
    return found;
  }

  int reports = 0;
};

class AdoptModes : public Adopt, public testing::WithParamInterface<AdoptMode> {};

TEST_P(AdoptModes, MakeEveryFileAnObjectThatLasts) {
  const AdoptProgress done = run(GetParam());
  EXPECT_EQ(done.files, 3u);
  EXPECT_EQ(done.bytes, 9u);
  EXPECT_GE(reports, 1);
  EXPECT_TRUE(done.refused.empty());
  reopen();
  EXPECT_THAT(keys(), ElementsAre("set/a.txt", "set/sub/b", "set/sub/deep/\xC3\xA9"));
  EXPECT_EQ(get_text(*store, "data", "set/sub/b").value_or("?"), "beta");
  EXPECT_EQ(store->head("data", "set/a.txt")->etag, to_hex(hash_of(HashKind::kMd5, "alpha")));
}

INSTANTIATE_TEST_SUITE_P(All, AdoptModes,
                         testing::Values(AdoptMode::kShare, AdoptMode::kLink, AdoptMode::kCopy));

TEST_F(Adopt, LinkTakesTheFileItselfAndItsRemovalTakesNothingAway) {
  EXPECT_EQ(run(AdoptMode::kLink).shared, 3u);
  struct stat status {};
  ASSERT_EQ(::stat((files() / "a.txt").c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 2u);
  std::filesystem::remove_all(files());
  EXPECT_EQ(get_text(*store, "data", "set/a.txt").value_or("?"), "alpha");
}

TEST_F(Adopt, RunAgainPassesOverWhatIsThereAndTakesWhatIsNew) {
  run();
  write("new", "n");
  write("a.txt", "longer than before");
  const AdoptProgress again = run();
  EXPECT_EQ(again.passed, 2u);
  EXPECT_EQ(again.files, 2u);
  EXPECT_EQ(get_text(*store, "data", "set/a.txt").value_or("?"), "longer than before");
  EXPECT_EQ(content_files(), 4u);
}

TEST_F(Adopt, RefusesByNameWhatIsNoFileOfTheFolder) {
  ASSERT_EQ(::symlink("/etc/passwd", (files() / "out").c_str()), 0);
  ASSERT_EQ(::symlink("../../files/a.txt", (files() / "sub" / "round").c_str()), 0);
  ASSERT_EQ(::symlink("a.txt", (files() / "inside").c_str()), 0);
  ASSERT_EQ(::symlink("sub", (files() / "linked-folder").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (files() / "dangling").c_str()), 0);
  ASSERT_EQ(::mkfifo((files() / "pipe").c_str(), 0600), 0);
  write("bad\xFFname", "x");
  const AdoptProgress done = run();
  EXPECT_EQ(done.files, 4u);
  EXPECT_EQ(get_text(*store, "data", "set/inside").value_or("?"), "alpha");
  EXPECT_THAT(
      done.refused,
      UnorderedElementsAre(HasSubstr("out: a link that leads out"),
                           HasSubstr("sub/round: a link that leads out"),
                           HasSubstr("linked-folder: a link to a folder"), HasSubstr("dangling: "),
                           HasSubstr("pipe: a special file"), HasSubstr("not valid UTF-8")));
}

TEST_F(Adopt, PassesAroundTheStoresOwnFolder) {
  ASSERT_EQ(::symlink("store/index.db", (folder.path() / "index").c_str()), 0);
  const auto done = adopt(*store, {.folder = folder.path(), .bucket = "data"}, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->files, 3u);
  EXPECT_THAT(done->refused, UnorderedElementsAre("store/: the store's own folder",
                                                  "index: a link into the store's own folder"));
  EXPECT_THAT(keys(), ElementsAre("files/a.txt", "files/sub/b", "files/sub/deep/\xC3\xA9"));
}

TEST_F(Adopt, TakesNoFolderOfTheStore) {
  for (const char* part : {"store", "store/data", "files/link"}) {
    static_cast<void>(::symlink("../store/data", (files() / "link").c_str()));
    const auto done = adopt(*store, {.folder = folder.path() / part, .bucket = "data"}, {});
    ASSERT_FALSE(done) << part;
    EXPECT_EQ(done.error().subject, "folder");
  }
}

TEST_F(Adopt, OpensNoPipe) {
  const Path pipe = files() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Fd events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(events.get(), pipe.c_str(), IN_OPEN), 0);
  EXPECT_THAT(run().refused, ElementsAre("pipe: a special file"));
  std::vector<std::byte> event(1'000);
  EXPECT_LT(::read(events.get(), event.data(), event.size()), 0) << "the pipe was opened";
}

TEST_F(Adopt, NeedsTheFolder) {
  const auto done = adopt(*store, {.folder = files() / "none", .bucket = "data"}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kNotFound);
}

// A folder that a server, or a store, has left below the one that is imported.
struct AdoptHomes : Adopt {
  void write_home(const std::string& name, const std::vector<std::string>& names) const {
    for (const std::string& file : names) {
      ASSERT_TRUE(make_directories((files() / name / file).parent_path()));
      write(name + "/" + file, "secret");
    }
  }
};

TEST_F(AdoptHomes, AreLeftOutWithAllTheyHold) {
  write_home("srv/home", {"trainyard.db", "credentials", "objects/index.db", "logs/x"});
  write_home("lost", {"credentials", "objects/data/ab/abcd"});
  write_home("alone", {"index.db", "credentials", "incoming/ab", "data/ab/abcd"});
  const AdoptProgress done = run();
  EXPECT_EQ(done.files, 3u);
  EXPECT_THAT(done.refused,
              UnorderedElementsAre("srv/home/: a Trainyard home", "lost/: a Trainyard home",
                                   "alone/: a Trainyard store"));
  EXPECT_THAT(keys(), ElementsAre("set/a.txt", "set/sub/b", "set/sub/deep/\xC3\xA9"));
}

TEST_F(AdoptHomes, AreNotReachedByLinks) {
  write_home("home", {"trainyard.db", "credentials", "sub/deep"});
  ASSERT_EQ(::symlink("home/credentials", (files() / "a-link").c_str()), 0);
  ASSERT_EQ(::symlink("../home/sub/deep", (files() / "sub" / "z").c_str()), 0);
  EXPECT_THAT(run().refused,
              UnorderedElementsAre("home/: a Trainyard home",
                                   "a-link: a link into a folder of Trainyard's own",
                                   "sub/z: a link into a folder of Trainyard's own"));
}

TEST_F(AdoptHomes, CannotBeImportedThemselves) {
  write_home("home", {"trainyard.db", "credentials"});
  const auto done = adopt(*store, {.folder = files() / "home", .bucket = "data"}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().subject, "folder");
  EXPECT_FALSE(store->head_bucket("data"));
}

TEST_F(AdoptHomes, AreKnownByLinksToTheirPartsAndThroughThem) {
  write_home("home", {"credentials", "sub/deep"});
  ASSERT_EQ(::symlink("/elsewhere", (files() / "home" / "objects").c_str()), 0);
  ASSERT_EQ(::symlink("home/credentials", (files() / "a-link").c_str()), 0);
  EXPECT_THAT(run().refused,
              UnorderedElementsAre("home/: a Trainyard home",
                                   "a-link: a link into a folder of Trainyard's own"));
  const auto done = adopt(*store, {.folder = files() / "home", .bucket = "other"}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().subject, "folder");
}

TEST_F(AdoptHomes, AreNotSeenInFoldersOfData) {
  write_home("data-set", {"index.db", "data/1"});
  write_home("keys", {"credentials", "notes/objects"});
  const AdoptProgress done = run();
  EXPECT_EQ(done.files, 7u);
  EXPECT_TRUE(done.refused.empty());
}

LocalFile local_file(const std::string& key, const Path& path) {
  LocalFile file;
  file.key = key;
  struct stat status {};
  auto fd = open_file(path, O_RDONLY);
  EXPECT_TRUE(fd);
  EXPECT_EQ(::fstat(fd->get(), &status), 0);
  file.fd = *std::move(fd);
  file.size = static_cast<std::uint64_t>(status.st_size);
  file.modified = status.st_mtim;
  return file;
}

// Gives them one by one.
LocalFiles batch_of(std::vector<LocalFile>& files) {
  return [&files, next = std::size_t{0}]() mutable -> std::optional<LocalFile> {
    return next == files.size() ? std::nullopt : std::optional<LocalFile>(std::move(files[next++]));
  };
}

TEST_F(Adopt, AFileThatIsNotWhatItWasIsRefusedAndTheOthersStay) {
  std::vector<LocalFile> batch;
  for (const char* key : {"good", "grown", "shrunk", "touched"}) {
    batch.push_back(local_file(key, files() / "a.txt"));
  }
  batch[1].size = 2;
  batch[2].size = 9;
  batch[3].modified.tv_nsec ^= 1;
  const auto adopted = store->adopt_files("bucket", batch_of(batch));
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->files, 1u);
  EXPECT_THAT(adopted->refused, ElementsAre(testing::Pair("grown", HasSubstr("changed")),
                                            testing::Pair("shrunk", HasSubstr("changed")),
                                            testing::Pair("touched", HasSubstr("changed"))));
  EXPECT_EQ(get_text(*store, "bucket", "good").value_or("?"), "alpha");
  EXPECT_EQ(content_files(), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "store" / "incoming"));
}

TEST_F(Adopt, StoppedItKeepsWhatItHasAndGoesOnAfterwards) {
  std::stop_source stop;
  std::vector<LocalFile> batch;
  batch.push_back(local_file("set/a.txt", files() / "a.txt"));
  batch.push_back(local_file("set/sub/b", files() / "sub" / "b"));
  ASSERT_TRUE(store->create_bucket("data"));
  const LocalFiles all = batch_of(batch);
  const auto adopted = store->adopt_files("data",
                                          [&, given = 0]() mutable {
                                            if (given++ == 1) {
                                              stop.request_stop();
                                            }
                                            return all();
                                          },
                                          {.stop = stop.get_token()});
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->files, 1u);
  EXPECT_THAT(keys(), ElementsAre("set/a.txt"));
  const AdoptProgress rest = run();
  EXPECT_EQ(rest.passed, 1u);
  EXPECT_EQ(rest.files, 2u);
}

TEST_F(Adopt, ToldToStopBeforehandItTakesNothingAndSaysSo) {
  std::stop_source stop;
  stop.request_stop();
  const auto done =
      adopt(*store, {.folder = files(), .bucket = "data", .stop = stop.get_token()}, {});
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->is_stopped);
  EXPECT_EQ(done->files, 0u);
}

// While it lives one new thread fits into the address space, and no second.
class OneMoreThread {
 public:
  OneMoreThread() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t large;
    pthread_getattr_default_np(&large);
    pthread_attr_setstacksize(&large, kStack);
    pthread_setattr_default_np(&large);
    pthread_attr_destroy(&large);
    getrlimit(RLIMIT_AS, &limit_);
    const std::string pages = read_file("/proc/self/statm").value_or("");
    const rlimit tight{
        .rlim_cur = std::stoull(pages) * static_cast<rlim_t>(::getpagesize()) + kStack + kStack / 2,
        .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
  }
  ~OneMoreThread() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  OneMoreThread(const OneMoreThread&) = delete;
  OneMoreThread& operator=(const OneMoreThread&) = delete;

 private:
  static constexpr std::size_t kStack = std::size_t{1} << 30;
  pthread_attr_t before_{};
  rlimit limit_{};
};

TEST_F(Adopt, WithoutThreadsEndsAndSaysSo) {
  const auto done = [this] {
    const OneMoreThread few;
    return adopt(*store, {.folder = files(), .bucket = "data"}, {});
  }();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnavailable);
  EXPECT_EQ(run().files, 3u);
}

TEST_F(Adopt, TakesALargeFileInPieces) {
  const std::string text = long_text(700'000);
  write("large", text);
  const AdoptProgress done = run(AdoptMode::kCopy);
  EXPECT_EQ(done.read, 700'009u);
  EXPECT_EQ(get_text(*store, "data", "set/large").value_or("?"), text);
  EXPECT_EQ(store->head("data", "set/large")->etag, to_hex(hash_of(HashKind::kMd5, text)));
}

TEST_F(Adopt, WhatAKilledImportHasLeftGoesWithTheNextStart) {
  run();
  const Path root = folder.path() / "store";
  const std::string used = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "data")) {
      if (entry.is_regular_file()) {
        return entry.path().filename().string();
      }
    }
    return std::string();
  }();
  ASSERT_EQ(used.size(), 32u);
  const std::string batch = used.substr(0, 24);
  const Path orphan = root / "data" / batch.substr(0, 2) / (batch + "0000ffff");
  ASSERT_TRUE(write_file(orphan, "never named"));
  ASSERT_TRUE(write_file(root / "incoming" / batch, ""));
  ASSERT_TRUE(write_file(root / "incoming" / std::string(24, 'f'), ""));
  reopen();
  EXPECT_EQ(content_files(), 3u);
  EXPECT_FALSE(std::filesystem::exists(orphan));
  EXPECT_TRUE(std::filesystem::is_empty(root / "incoming"));
  EXPECT_EQ(get_text(*store, "data", "set/a.txt").value_or("?"), "alpha");
}

TEST_F(Adopt, ExpiryAbortsInTheBackground) {
  const std::string id = *store->create_upload("bucket", "k", {});
  const UploadExpiry expiry(*store, clock, Duration(-1'000), Duration(1));
  const auto deadline = clock.steady_now() + std::chrono::seconds(10);
  while (store->list_parts("bucket", "k", id) && clock.steady_now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(store->list_parts("bucket", "k", id));
}

}  // namespace
}  // namespace trainyard::s3
