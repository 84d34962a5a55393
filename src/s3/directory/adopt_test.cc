// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/adopt.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
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
  EXPECT_EQ(reports, 1);
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

TEST_F(Adopt, AFileThatIsNotAsLongAsItWasIsRefusedAndTheOthersStay) {
  const auto good = open_file(files() / "a.txt", O_RDONLY);
  const auto grown = open_file(files() / "sub" / "b", O_RDONLY);
  ASSERT_TRUE(good && grown);
  const auto adopted = store->adopt_files(
      "bucket", {{.key = "good", .fd = good->get(), .size = 5, .modified = clock.now()},
                 {.key = "grown", .fd = grown->get(), .size = 2, .modified = clock.now()}});
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->files, 1u);
  EXPECT_THAT(adopted->refused, ElementsAre(testing::Pair("grown", HasSubstr("changed"))));
  EXPECT_EQ(get_text(*store, "bucket", "good").value_or("?"), "alpha");
  EXPECT_EQ(content_files(), 1u);
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
