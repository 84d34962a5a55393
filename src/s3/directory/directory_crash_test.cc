// SPDX-License-Identifier: Apache-2.0
// Each test leaves on disk what a crash at one point would leave, and opens the store again.
#include <functional>

#include <gtest/gtest.h>

#include "s3/directory/directory_store.h"
#include "s3/directory/index.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

struct DirectoryCrash : StoreFixture {
  Path root() const { return folder.path() / "store"; }

  // A file that only data/ab holds.
  void write_content(const std::string& text) {
    ASSERT_TRUE(make_directories(root() / "data" / "ab"));
    ASSERT_TRUE(write_file(root() / "data" / "ab" / "ab12", text));
  }

  // The store closed, its index for us alone.
  Connection crashed_index() {
    store.reset();
    return *Connection::open(root() / "index.db", sql::Access::kWrite);
  }
  std::size_t incoming_files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(root() / "incoming"), {}));
  }
};

TEST_F(DirectoryCrash, WhileTheBodyArrives) {
  store.reset();
  ASSERT_TRUE(write_file(root() / "incoming" / "ab12", "half"));
  reopen();
  EXPECT_EQ(incoming_files(), 0u);
}

TEST_F(DirectoryCrash, BetweenNamingTheContentAndTheIndex) {
  store.reset();
  ASSERT_TRUE(write_file(root() / "incoming" / "ab12", "whole"));
  write_content("whole");
  reopen();
  EXPECT_EQ(incoming_files(), 0u);
  EXPECT_EQ(content_files(), 0u);
}

TEST_F(DirectoryCrash, BetweenTheIndexAndTheEndOfPut) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "kept"));
  store.reset();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / "data")) {
    if (entry.is_regular_file()) {
      std::filesystem::create_hard_link(entry.path(),
                                        root() / "incoming" / entry.path().filename());
    }
  }
  reopen();
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "kept");
  EXPECT_EQ(incoming_files(), 0u);
}

TEST_F(DirectoryCrash, BeforeTheReplacedContentIsRemoved) {
  {
    auto index = crashed_index();
    ASSERT_TRUE(index.execute("INSERT INTO garbage VALUES(CAST('ab12' AS BLOB))"));
  }
  write_content("old");
  reopen();
  EXPECT_EQ(content_files(), 0u);
  ASSERT_TRUE(store->create_bucket("another"));
  EXPECT_TRUE(Index::open(root() / "index.db").value()->garbage()->empty());
}

// The store as a loss of power between two syncs would leave it: the last put is in the index, the
// record of what it replaced stands, and what it replaced is still there.
struct DirectoryPowerLoss : StoreFixture {
  Path root() const { return folder.path() / "store"; }
  Path only_content() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / "data")) {
      if (entry.is_regular_file() && !is_blank(entry)) {
        return entry.path();
      }
    }
    return {};
  }
  void lose_power(const std::function<void()>& between) {
    const Path copy = folder.path() / "copy";
    std::filesystem::copy(root(), copy, std::filesystem::copy_options::recursive);
    store.reset();
    std::filesystem::remove_all(root());
    std::filesystem::rename(copy, root());
    between();
    reopen();
  }
};

TEST_F(DirectoryPowerLoss, TornNewObjectWasNeverThere) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "whole"));
  const Path content = only_content();
  lose_power([&] { std::filesystem::resize_file(content, 2); });
  EXPECT_EQ(store->head("bucket", "k").error().subject, "key");
  EXPECT_EQ(content_files(), 0u);
}

TEST_F(DirectoryPowerLoss, TornReplacementGivesTheOldObjectBack) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old", {.tags = {{"a", "1"}}}));
  const Path old = only_content();
  std::filesystem::copy_file(old, folder.path() / "kept");
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new bytes"));
  const Path fresh = only_content();
  lose_power([&] {
    std::filesystem::create_directories(old.parent_path());
    std::filesystem::rename(folder.path() / "kept", old);
    ASSERT_TRUE(write_file(fresh, "new byte\n"));
  });
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "old");
  EXPECT_EQ(store->head("bucket", "k")->tags.at("a"), "1");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryPowerLoss, WholeReplacementStands) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  ASSERT_TRUE(put_text(*store, "bucket", "k", "new"));
  lose_power([] {});
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "new");
  EXPECT_EQ(content_files(), 1u);
  EXPECT_TRUE(put_text(*store, "bucket", "other", "x"));
}

TEST_F(DirectoryPowerLoss, NamesThatWaitForAContentGoAndTheirMarkerToo) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "kept"));
  ASSERT_TRUE(put_text(*store, "bucket", "empty", ""));
  ASSERT_TRUE(put_text(*store, "bucket", "third", "of a batch that is half used"));
  lose_power([&] { EXPECT_FALSE(std::filesystem::is_empty(root() / "incoming")); });
  EXPECT_TRUE(std::filesystem::is_empty(root() / "incoming"));
  EXPECT_EQ(content_files(), 3u);
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "kept");
  EXPECT_EQ(get_text(*store, "bucket", "empty").value_or("?"), "");
}

TEST_F(DirectoryCrash, APutWhoseSyncFailsIsTakenBack) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  store.reset();
  const auto index = *Index::open(root() / "index.db");
  const auto before = index->object("bucket", "k");
  ASSERT_TRUE(before);
  const ObjectRow row{.info = {.key = "k", .size = 3, .etag = "e"}, .content = "ab12"};
  const auto put = index->put_object_while("bucket", row, {}, [] {
    return Result<void>(Error{Code::kUnavailable, "the disk is gone"});
  });
  EXPECT_EQ(put.error().message, "the disk is gone");
  EXPECT_EQ(index->object("bucket", "k")->content, before->content);
  EXPECT_TRUE(index->unconfirmed()->empty());
  EXPECT_EQ(*index->garbage(), Contents{"ab12"});
}

TEST_F(DirectoryCrash, LostContentIsNamedAndTheRestGoesOn) {
  ASSERT_TRUE(put_text(*store, "bucket", "lost", "x"));
  store.reset();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / "data")) {
    if (entry.is_regular_file()) {
      ASSERT_TRUE(write_file(entry.path(), ""));
      std::filesystem::remove(entry.path());
    }
  }
  reopen();
  ASSERT_TRUE(put_text(*store, "bucket", "other", "y"));
  const auto got = get_text(*store, "bucket", "lost");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kCorrupt);
  EXPECT_NE(got.error().message.find("'lost'"), std::string::npos);
  EXPECT_EQ(get_text(*store, "bucket", "other").value_or("?"), "y");
}

TEST_F(DirectoryCrash, TruncatedContentIsAnErrorNotAShortObject) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "whole"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root() / "data")) {
    if (entry.is_regular_file()) {
      std::filesystem::resize_file(entry.path(), 2);
    }
  }
  EXPECT_EQ(get_text(*store, "bucket", "k").error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::s3
