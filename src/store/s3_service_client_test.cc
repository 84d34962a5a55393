// SPDX-License-Identifier: Apache-2.0
// The whole way: S3Client, HTTP, signatures, the S3 face, DirectoryStore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/checksum.h"
#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::ElementsAre;

constexpr std::size_t kMiB = std::size_t{1} << 20;

using S3ServiceClient = S3ServerTest;

TEST_F(S3ServiceClient, KeepsEveryOddKeyApartAndExact) {
  for (const std::string& key : s3::odd_keys()) {
    ASSERT_TRUE(s3::put_text(*client, "bucket", key, "content of " + key)) << key;
  }
  std::vector<std::string> listed;
  s3::ListQuery query{.limit = 7};
  bool more = true;
  while (more) {
    const auto page = client->list("bucket", query);
    ASSERT_TRUE(page) << page.error().message;
    std::ranges::transform(page->objects, std::back_inserter(listed), &s3::ObjectInfo::key);
    query.after = page->next_after;
    more = page->truncated;
  }
  std::vector<std::string> expected = s3::odd_keys();
  std::ranges::sort(expected);
  EXPECT_EQ(listed, expected);
  for (const std::string& key : expected) {
    EXPECT_EQ(s3::get_text(*client, "bucket", key).value_or("?"), "content of " + key);
    ASSERT_TRUE(client->copy("bucket", key, "bucket", "copy", {})) << key;
    EXPECT_EQ(s3::get_text(*client, "bucket", "copy").value_or("?"), "content of " + key);
    EXPECT_EQ(
        client->copy("bucket", key, "bucket", "copy", s3::PutOptions{.source_etag = "another"})
            .error()
            .subject,
        "precondition");
    EXPECT_TRUE(client->remove("bucket", key));
  }
  EXPECT_EQ(store->list("bucket", {})->objects.size(), 1u);
}

TEST_F(S3ServiceClient, CarriesMetadataAndChecksums) {
  ASSERT_TRUE(s3::put_text(*client, "bucket", "k", "hello",
                           {.content_type = "text/plain",
                            .headers = {{"x-amz-meta-who", "me"},
                                        {"Content-Encoding", "gzip"},
                                        {"x-amz-server-side-encryption", "aws:kms"}}}));
  const auto info = client->head("bucket", "k");
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->size, 5u);
  EXPECT_EQ(info->content_type, "text/plain");
  EXPECT_EQ(info->headers.at("x-amz-meta-who"), "me");
  EXPECT_EQ(info->headers.at("Content-Encoding"), "gzip");
  EXPECT_EQ(info->headers.at("x-amz-server-side-encryption"), "aws:kms");
  ASSERT_EQ(info->checksums.size(), 1u);
  EXPECT_EQ(info->checksums[0].base64, to_base64(hash_of(HashKind::kCrc32c, "hello")));
  EXPECT_EQ(info->etag, store->head("bucket", "k")->etag);
}

TEST_F(S3ServiceClient, MovesALongObjectInPartsAndChunks) {
  const std::string text = s3::long_text(34 * kMiB + 5);
  const auto info = client->put("bucket", "big", s3::text_source(text), {});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(info->etag.ends_with("-3")) << info->etag;
  EXPECT_FALSE(info->checksums.at(0).composite);
  EXPECT_TRUE(s3::get_text(*client, "bucket", "big").value_or("?") == text);
  EXPECT_EQ(
      s3::get_text(*client, "bucket", "big", s3::ByteRange{9 * kMiB, 9 * kMiB + 4}).value_or("?"),
      text.substr(9 * kMiB, 5));
  EXPECT_TRUE(client->list_uploads("bucket", "")->empty());
}

TEST_F(S3ServiceClient, GivesRangesAndEmptyObjects) {
  ASSERT_TRUE(s3::put_text(*client, "bucket", "k", "0123456789"));
  ASSERT_TRUE(s3::put_text(*client, "bucket", "empty", ""));
  EXPECT_EQ(s3::get_text(*client, "bucket", "k", s3::ByteRange{2, 4}).value_or("?"), "234");
  EXPECT_EQ(s3::get_text(*client, "bucket", "k", s3::ByteRange{8, 99}).value_or("?"), "89");
  EXPECT_EQ(client->get("bucket", "k", s3::ByteRange{10, 11}).error().subject, "range");
  EXPECT_EQ(s3::get_text(*client, "bucket", "empty").value_or("?"), "");
}

TEST_F(S3ServiceClient, ListsFoldedAndPaged) {
  for (const char* key : {"a", "b/1", "b/2", "c/1", "d"}) {
    ASSERT_TRUE(s3::put_text(*client, "bucket", key, key));
  }
  const auto first = client->list("bucket", {.delimiter = "/", .limit = 2});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->truncated);
  EXPECT_THAT(first->common_prefixes, ElementsAre("b/"));
  const auto second =
      client->list("bucket", {.delimiter = "/", .after = first->next_after, .limit = 2});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->truncated);
  EXPECT_THAT(second->common_prefixes, ElementsAre("c/"));
  EXPECT_EQ(second->objects.at(0).key, "d");
}

TEST_F(S3ServiceClient, ManagesBuckets) {
  ASSERT_TRUE(client->create_bucket("another"));
  EXPECT_TRUE(client->create_bucket("another"));  // as S3 in us-east-1
  EXPECT_EQ(client->create_bucket("No_Bucket").error().subject, "name");
  EXPECT_EQ(client->list_buckets()->size(), 2u);
  EXPECT_TRUE(client->head_bucket("another"));
  EXPECT_EQ(client->head_bucket("missing").error().subject, "bucket");
  ASSERT_TRUE(s3::put_text(*client, "another", "k", "x"));
  EXPECT_EQ(client->delete_bucket("another").error().code, Code::kConflict);
  ASSERT_TRUE(client->remove("another", "k"));
  EXPECT_TRUE(client->delete_bucket("another"));
}

TEST_F(S3ServiceClient, PutOnlyIfAbsentNeverReplaces) {
  ASSERT_TRUE(s3::put_text(*client, "bucket", "k", "first", {.only_if_absent = true}));
  const auto second = s3::put_text(*client, "bucket", "k", "second", {.only_if_absent = true});
  EXPECT_EQ(second.error().subject, "precondition");
  EXPECT_EQ(s3::get_text(*client, "bucket", "k").value_or("?"), "first");
}

TEST_F(S3ServiceClient, MultipartStepByStep) {
  const auto id = client->create_upload("bucket", "k", {.compute = {HashKind::kSha256}});
  ASSERT_TRUE(id) << id.error().message;
  const std::string a = s3::long_text(5 * kMiB);
  const auto one = client->put_part("bucket", "k", {*id, 1}, s3::text_source(a),
                                    {.compute = {HashKind::kSha256}});
  const auto two = client->put_part("bucket", "k", {*id, 2}, s3::text_source("end"),
                                    {.compute = {HashKind::kSha256}});
  ASSERT_TRUE(one && two);
  EXPECT_EQ(client->list_parts("bucket", "k", *id)->size(), 2u);
  EXPECT_EQ(client->list_uploads("bucket", "")->at(0).key, "k");
  EXPECT_EQ(client->complete_upload("bucket", "k", *id, {*two, *one}).error().subject,
            "part-order");
  const auto made = client->complete_upload("bucket", "k", *id, {*one, *two});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->checksums.at(0).composite);
  const auto again = client->complete_upload("bucket", "k", *id, {*one, *two});
  EXPECT_TRUE(again);
  EXPECT_EQ(client->abort_upload("bucket", "k", *id).error().subject, "upload");
}

}  // namespace
}  // namespace trainyard::store
