// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/directory_store.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/thread.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

using DirectoryStoreTest = StoreFixture;

TEST_F(DirectoryStoreTest, KeepsAnObjectWithAllThatWasSaidOfIt) {
  const PutOptions options{.content_type = "text/plain",
                           .headers = {{"x-amz-meta-who", "me"}},
                           .compute = {HashKind::kCrc32}};
  ASSERT_TRUE(put_text(*store, "bucket", "k", "hello", options));
  reopen();
  const auto info = store->head("bucket", "k");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, 5u);
  EXPECT_EQ(info->etag, "5d41402abc4b2a76b9719d911017c592");
  EXPECT_EQ(info->content_type, "text/plain");
  EXPECT_EQ(info->headers.at("x-amz-meta-who"), "me");
  ASSERT_EQ(info->checksums.size(), 1u);
  EXPECT_EQ(info->checksums[0].base64, to_base64(hash_of(HashKind::kCrc32, "hello")));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "hello");
}

TEST_F(DirectoryStoreTest, KeepsEveryOddKeyApartAndExact) {
  for (const std::string& key : odd_keys()) {
    ASSERT_TRUE(put_text(*store, "bucket", key, "content of " + key)) << key;
  }
  for (const std::string& key : odd_keys()) {
    EXPECT_EQ(get_text(*store, "bucket", key).value_or("?"), "content of " + key);
  }
  const auto page = store->list("bucket", {});
  ASSERT_TRUE(page);
  std::vector<std::string> listed;
  std::ranges::transform(page->objects, std::back_inserter(listed), &ObjectInfo::key);
  std::vector<std::string> expected = odd_keys();
  std::ranges::sort(expected);
  EXPECT_EQ(listed, expected);
}

TEST_F(DirectoryStoreTest, CopiesAndRemovesEveryOddKey) {
  for (const std::string& key : odd_keys()) {
    ASSERT_TRUE(put_text(*store, "bucket", key, key));
    ASSERT_TRUE(store->copy("bucket", key, "bucket", "copy", {})) << key;
    EXPECT_EQ(get_text(*store, "bucket", "copy").value_or("?"), key);
    EXPECT_TRUE(store->remove("bucket", key));
    EXPECT_EQ(store->head("bucket", key).error().subject, "key");
  }
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryStoreTest, GivesRangesAndClipsTheirEnd) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "0123456789"));
  EXPECT_EQ(get_text(*store, "bucket", "k", ByteRange{2, 4}).value_or("?"), "234");
  EXPECT_EQ(get_text(*store, "bucket", "k", ByteRange{8, 99}).value_or("?"), "89");
  EXPECT_EQ(store->get("bucket", "k", ByteRange{10, 11}).error().subject, "range");
}

TEST_F(DirectoryStoreTest, GivesAnEmptyObjectButNoRangeOfIt) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", ""));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "");
  EXPECT_EQ(store->get("bucket", "k", ByteRange{0, 0}).error().subject, "range");
}

TEST_F(DirectoryStoreTest, ReaderKeepsTheBytesOfTheMomentItWasOpened) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", std::string(100'000, 'a')));
  auto reader = store->get("bucket", "k", {});
  ASSERT_TRUE(reader);
  std::vector<std::byte> half(50'000);
  ASSERT_EQ((*reader)->read(half).value_or(0), half.size());
  ASSERT_TRUE(put_text(*store, "bucket", "k", "b"));
  EXPECT_EQ(read_to_end(**reader).value_or("?"), std::string(50'000, 'a'));
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryStoreTest, RefusedBodyLeavesTheOldObjectAndNoFile) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "old"));
  EXPECT_FALSE(put_text(*store, "bucket", "k", "new", {.length = 4}));
  EXPECT_FALSE(store->put("bucket", "k",
                          [](std::span<std::byte>) -> Result<std::size_t> {
                            return Error{Code::kUnavailable, "the peer is gone"};
                          },
                          {}));
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "old");
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryStoreTest, PutOnlyIfAbsentNeverReplaces) {
  const PutOptions absent{.only_if_absent = true};
  ASSERT_TRUE(put_text(*store, "bucket", "k", "first", absent));
  const auto second = put_text(*store, "bucket", "k", "second", absent);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().subject, "precondition");
  EXPECT_EQ(get_text(*store, "bucket", "k").value_or("?"), "first");
}

TEST_F(DirectoryStoreTest, BucketsAreCreatedOnceAndRemovedEmpty) {
  EXPECT_EQ(store->create_bucket("bucket").error().code, Code::kAlreadyExists);
  EXPECT_EQ(store->create_bucket("No").error().subject, "name");
  EXPECT_EQ(store->head_bucket("other").error().subject, "bucket");
  EXPECT_EQ(put_text(*store, "other", "k", "x").error().subject, "bucket");
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  EXPECT_EQ(store->delete_bucket("bucket").error().code, Code::kConflict);
  ASSERT_TRUE(store->remove("bucket", "k"));
  ASSERT_TRUE(store->remove("bucket", "k"));
  EXPECT_TRUE(store->delete_bucket("bucket"));
  EXPECT_TRUE(store->list_buckets()->empty());
}

TEST_F(DirectoryStoreTest, RemakingABucketDoesNotBringItsObjectsBack) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x"));
  ASSERT_TRUE(store->remove("bucket", "k"));
  ASSERT_TRUE(store->delete_bucket("bucket"));
  ASSERT_TRUE(store->create_bucket("bucket"));
  EXPECT_TRUE(store->list("bucket", {})->objects.empty());
}

TEST_F(DirectoryStoreTest, RemovesManyAtOnceAndIgnoresUnknownOnes) {
  ASSERT_TRUE(put_text(*store, "bucket", "a", "x"));
  ASSERT_TRUE(put_text(*store, "bucket", "b", "y"));
  ASSERT_TRUE(put_text(*store, "bucket", "c", "z"));
  EXPECT_TRUE(store->remove_all("bucket", {"a", "unknown", "c", "a"}));
  EXPECT_EQ(store->list("bucket", {})->objects.size(), 1u);
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryStoreTest, CopyReplacesHeadersOnlyWhenTold) {
  ASSERT_TRUE(put_text(*store, "bucket", "k", "x",
                       {.content_type = "a/a", .headers = {{"x-amz-meta-a", "1"}}}));
  EXPECT_EQ(store->copy("bucket", "k", "bucket", "kept", {})->content_type, "a/a");
  const auto told = store->copy("bucket", "k", "bucket", "told", PutOptions{.content_type = "b/b"});
  ASSERT_TRUE(told);
  EXPECT_EQ(told->content_type, "b/b");
  EXPECT_TRUE(told->headers.empty());
  ASSERT_TRUE(store->remove("bucket", "k"));
  EXPECT_EQ(get_text(*store, "bucket", "kept").value_or("?"), "x");
}

TEST_F(DirectoryStoreTest, CopyIsOfTheVersionThatWasNamed) {
  const std::string old = put_text(*store, "bucket", "k", "old")->etag;
  const std::string now = put_text(*store, "bucket", "k", "now")->etag;
  const auto copy = [&](const std::string& etag) {
    return store->copy("bucket", "k", "bucket", "copy", PutOptions{.source_etag = etag});
  };
  EXPECT_EQ(copy(old).error().subject, "source");
  EXPECT_FALSE(store->head("bucket", "copy"));
  EXPECT_TRUE(copy(now));
  EXPECT_EQ(get_text(*store, "bucket", "copy").value_or("?"), "now");
}

TEST_F(DirectoryStoreTest, ReadersNeverSeeAMixWhileWritersReplace) {
  const std::string a(300'000, 'a');
  const std::string b(200'000, 'b');
  ASSERT_TRUE(put_text(*store, "bucket", "k", a));
  std::atomic<int> wrong{0};
  {
    const auto writer = start_thread("writer", [&](const std::stop_token&) {
      for (int i = 0; i < 20; ++i) {
        wrong += put_text(*store, "bucket", "k", i % 2 == 0 ? b : a) ? 0 : 1;
      }
    });
    for (int i = 0; i < 100; ++i) {
      const std::string got = get_text(*store, "bucket", "k").value_or("?");
      wrong += got == a || got == b ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(content_files(), 1u);
}

TEST_F(DirectoryStoreTest, IsOpenedByOneProcessAtATime) {
  const auto second = DirectoryStore::open(folder.path() / "store", clock, random);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict);
}

}  // namespace
}  // namespace trainyard::s3
