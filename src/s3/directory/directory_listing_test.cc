// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/directory/directory_store.h"
#include "s3/directory/index.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Names {
  std::vector<std::string> keys;
  std::vector<std::string> prefixes;
  int pages = 0;
};

Names list_all(ObjectStore& store, ListQuery query) {
  Names names;
  while (true) {
    const auto page = store.list("bucket", query);
    if (!page) {
      ADD_FAILURE() << page.error().message;
      return names;
    }
    ++names.pages;
    std::ranges::transform(page->objects, std::back_inserter(names.keys), &ObjectInfo::key);
    names.prefixes.insert(names.prefixes.end(), page->common_prefixes.begin(),
                          page->common_prefixes.end());
    if (!page->truncated) {
      return names;
    }
    query.after = page->next_after;
  }
}

struct DirectoryListing : StoreFixture {
  void fill(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      ASSERT_TRUE(put_text(*store, "bucket", key, key));
    }
  }
};

TEST_F(DirectoryListing, FoldsWhatFollowsTheDelimiter) {
  fill({"a", "b/1", "b/2", "b/c/3", "d"});
  const Names top = list_all(*store, {.delimiter = "/"});
  EXPECT_THAT(top.keys, ElementsAre("a", "d"));
  EXPECT_THAT(top.prefixes, ElementsAre("b/"));
  const Names below = list_all(*store, {.prefix = "b/", .delimiter = "/"});
  EXPECT_THAT(below.keys, ElementsAre("b/1", "b/2"));
  EXPECT_THAT(below.prefixes, ElementsAre("b/c/"));
}

TEST_F(DirectoryListing, PagesGiveEachEntryOnce) {
  fill({"a", "b/1", "b/2", "c/1", "d", "e/1", "e/2", "f"});
  const Names names = list_all(*store, {.delimiter = "/", .limit = 1});
  EXPECT_THAT(names.keys, ElementsAre("a", "d", "f"));
  EXPECT_THAT(names.prefixes, ElementsAre("b/", "c/", "e/"));
  EXPECT_EQ(names.pages, 6);
  EXPECT_EQ(list_all(*store, {.limit = 3}).keys.size(), 8u);
}

TEST_F(DirectoryListing, BeginsBehindTheGivenKey) {
  fill({"a", "b", "b/1", "c"});
  EXPECT_THAT(list_all(*store, {.after = "b"}).keys, ElementsAre("b/1", "c"));
  EXPECT_THAT(list_all(*store, {.prefix = "b", .after = "a"}).keys, ElementsAre("b", "b/1"));
  EXPECT_THAT(list_all(*store, {.prefix = "b", .after = "z"}).keys, IsEmpty());
}

TEST_F(DirectoryListing, TakesPrefixAndDelimiterLiterally) {
  fill({"a%b", "a*b", "a_b", "axb", "first.last/x", "x--y--z"});
  EXPECT_THAT(list_all(*store, {.prefix = "a%"}).keys, ElementsAre("a%b"));
  EXPECT_THAT(list_all(*store, {.prefix = "a_"}).keys, ElementsAre("a_b"));
  EXPECT_THAT(list_all(*store, {.prefix = "first.last/"}).keys, ElementsAre("first.last/x"));
  EXPECT_THAT(list_all(*store, {.prefix = "x--", .delimiter = "--"}).prefixes,
              ElementsAre("x--y--"));
}

TEST_F(DirectoryListing, OrdersByBytesNotByLanguage) {
  fill({"a/b", "a.b", "a0", "B", "\xC3\xA9", "\xF4\x8F\xBF\xBF"});
  EXPECT_THAT(list_all(*store, {}).keys,
              ElementsAre("B", "a.b", "a/b", "a0", "\xC3\xA9", "\xF4\x8F\xBF\xBF"));
}

TEST_F(DirectoryListing, OfNoEntriesIsNotTruncated) {
  fill({"a"});
  const auto page = store->list("bucket", {.limit = 0});
  ASSERT_TRUE(page);
  EXPECT_FALSE(page->truncated);
  EXPECT_THAT(page->objects, IsEmpty());
}

// A prefix that hides many keys costs one step, which is what makes the listing of a deep tree
// quick: 20,000 rows are written past the store's fsync, then folded into two entries.
TEST(IndexListing, JumpsOverWhatAPrefixHides) {
  const TempDir folder = *TempDir::make();
  auto index = Index::open(folder.path() / "index.db");
  ASSERT_TRUE(index);
  ASSERT_TRUE((*index)->add_bucket({.name = "bucket"}));
  auto raw = Connection::open(folder.path() / "index.db", sql::Access::kWrite);
  ASSERT_TRUE(raw);
  ASSERT_TRUE(raw->execute(
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<19999)"
      "INSERT INTO objects SELECT 1, CAST(printf('%d/%06d', i%2, i) AS BLOB), 1, x'', 0, x'', x'',"
      " x'' FROM n"));
  const auto folded = (*index)->list("bucket", {.delimiter = "/"});
  ASSERT_TRUE(folded);
  EXPECT_THAT(folded->common_prefixes, ElementsAre("0/", "1/"));
  const auto page = (*index)->list("bucket", {.after = "0/999999"});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->objects.size(), 1'000u);
  EXPECT_EQ(page->objects.front().key, "1/000001");
  EXPECT_TRUE(page->truncated);
}

}  // namespace
}  // namespace trainyard::s3
