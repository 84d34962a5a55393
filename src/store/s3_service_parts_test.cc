// SPDX-License-Identifier: Apache-2.0
// What S3 says of the parts of an object: GetObjectAttributes, and reads by part number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/checksum.h"
#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPart = std::size_t{5} << 20;

class S3ServiceParts : public S3ServerTest {
 protected:
  // An object of two parts, whose numbers in the upload are 4 and 9.
  void make(const s3::PutOptions& options = {}) {
    const std::string id = *store->create_upload("bucket", "k", options);
    const auto first = store->put_part("bucket", "k", {id, 4}, s3::text_source(text_), {});
    const auto second = store->put_part("bucket", "k", {id, 9}, s3::text_source("the end"), {});
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(store->complete_upload("bucket", "k", id, {*first, *second}));
  }
  http::Response attributes(const std::string& names, const Fields& fields = {}) {
    Fields all = fields;
    all.emplace_back("x-amz-object-attributes", names);
    return send("GET", "/bucket/k", "attributes", "", all);
  }

  const std::string text_ = s3::long_text(kPart);
};

TEST_F(S3ServiceParts, AreReadByNumber) {
  make();
  const auto first = send("GET", "/bucket/k", "partNumber=1");
  EXPECT_EQ(first.status, 206);
  EXPECT_TRUE(first.body == text_);
  EXPECT_EQ(first.headers.get("x-amz-mp-parts-count"), "2");
  const auto second = send("GET", "/bucket/k", "partNumber=2");
  EXPECT_EQ(second.body, "the end");
  EXPECT_EQ(second.headers.get("Content-Range"), "bytes 5242880-5242886/5242887");
  const auto head = send("HEAD", "/bucket/k", "partNumber=2");
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.headers.get("Content-Length"), "7");
  EXPECT_EQ(head.headers.get("x-amz-mp-parts-count"), "2");
}

TEST_F(S3ServiceParts, OfAnObjectOfOnePieceIsTheObject) {
  send("PUT", "/bucket/k", "", "hello");
  const auto only = send("GET", "/bucket/k", "partNumber=1");
  EXPECT_EQ(only.body, "hello");
  EXPECT_EQ(only.headers.find("x-amz-mp-parts-count"), nullptr);
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "partNumber=2")), "416 InvalidPartNumber");
  send("PUT", "/bucket/empty", "", "");
  EXPECT_EQ(send("GET", "/bucket/empty", "partNumber=1").status, 200);
}

TEST_F(S3ServiceParts, RefusesNumbersThatNameNone) {
  make();
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "partNumber=3")), "416 InvalidPartNumber");
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "partNumber=0")), "400 InvalidArgument");
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "partNumber=x")), "400 InvalidArgument");
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "partNumber=1", "", {{"Range", "bytes=0-1"}})),
            "400 InvalidRequest");
}

TEST_F(S3ServiceParts, StayKnownInACopy) {
  make();
  send("PUT", "/bucket/copy", "", "", {{"x-amz-copy-source", "/bucket/k"}});
  const auto part = send("GET", "/bucket/copy", "partNumber=2");
  EXPECT_EQ(part.body, "the end");
}

TEST_F(S3ServiceParts, AttributesAreThoseThatWereAskedFor) {
  make();
  const auto size = attributes("ObjectSize");
  EXPECT_EQ(size.status, 200);
  EXPECT_THAT(size.body, HasSubstr("<ObjectSize>5242887</ObjectSize>"));
  EXPECT_THAT(size.body, Not(HasSubstr("<ETag>")));
  EXPECT_NE(size.headers.get("Last-Modified"), "");
  const auto more = attributes("ETag, StorageClass,ObjectParts,Checksum");
  EXPECT_THAT(more.body, HasSubstr("<ETag>" + store->head("bucket", "k")->etag + "</ETag>"));
  EXPECT_THAT(more.body, HasSubstr("<StorageClass>STANDARD</StorageClass>"));
  EXPECT_THAT(more.body, HasSubstr("<ObjectParts><PartsCount>2</PartsCount></ObjectParts>"));
  EXPECT_THAT(more.body, Not(HasSubstr("<Checksum>")));
}

TEST_F(S3ServiceParts, AttributesPageThroughChecksumsOfParts) {
  make({.compute = {HashKind::kCrc32}});
  const std::string first = to_base64(hash_of(HashKind::kCrc32, text_));
  const std::string second = to_base64(hash_of(HashKind::kCrc32, "the end"));
  const auto all = attributes("ObjectParts,Checksum");
  EXPECT_THAT(all.body, HasSubstr("<ChecksumType>COMPOSITE</ChecksumType>"));
  EXPECT_THAT(all.body, HasSubstr("<ChecksumCRC32>" + first + "</ChecksumCRC32>"));
  EXPECT_THAT(all.body, HasSubstr("<IsTruncated>false</IsTruncated>"));
  const auto page = attributes("ObjectParts", {{"x-amz-max-parts", "1"}});
  EXPECT_THAT(page.body, HasSubstr("<NextPartNumberMarker>1</NextPartNumberMarker>"));
  EXPECT_THAT(page.body, HasSubstr("<IsTruncated>true</IsTruncated>"));
  EXPECT_THAT(page.body, Not(HasSubstr(second)));
  const auto next = attributes("ObjectParts", {{"x-amz-part-number-marker", "1"}});
  EXPECT_THAT(next.body, HasSubstr("<Part><PartNumber>2</PartNumber><Size>7</Size><ChecksumCRC32>" +
                                   second + "</ChecksumCRC32></Part>"));
  EXPECT_THAT(next.body, Not(HasSubstr(first)));
}

TEST_F(S3ServiceParts, ListingsNameTheChecksumsOfObjects) {
  make({.compute = {HashKind::kCrc32}});
  send("PUT", "/bucket/none", "", "x");
  send("PUT", "/bucket/sha", "", "x", {{"x-amz-sdk-checksum-algorithm", "SHA256"}});
  for (const char* query : {"list-type=2", ""}) {
    const auto listed = send("GET", "/bucket", query);
    EXPECT_THAT(listed.body, HasSubstr("<Key>k</Key>")) << query;
    EXPECT_THAT(listed.body,
                HasSubstr("-2&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm>"
                          "<ChecksumType>COMPOSITE</ChecksumType><Size>5242887</Size>"));
    EXPECT_THAT(listed.body, HasSubstr("<ChecksumAlgorithm>SHA256</ChecksumAlgorithm>"
                                       "<ChecksumType>FULL_OBJECT</ChecksumType><Size>1</Size>"));
    EXPECT_THAT(listed.body, HasSubstr("&quot;</ETag><Size>1</Size>"));
  }
}

TEST_F(S3ServiceParts, ListingsNameTheChecksumsOfUploads) {
  const std::string plain = *store->create_upload("bucket", "plain", {});
  const std::string composite =
      *store->create_upload("bucket", "summed", {.compute = {HashKind::kSha1}});
  const std::string whole = *store->create_upload(
      "bucket", "whole", {.compute = {HashKind::kCrc64Nvme}, .full_object_checksum = true});
  const std::string sha1 =
      "<ChecksumAlgorithm>SHA1</ChecksumAlgorithm>"
      "<ChecksumType>COMPOSITE</ChecksumType>";
  const std::string crc =
      "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
      "<ChecksumType>FULL_OBJECT</ChecksumType>";
  const auto uploads = send("GET", "/bucket", "uploads");
  EXPECT_THAT(uploads.body, HasSubstr("</Initiated>" + sha1 + "</Upload>"));
  EXPECT_THAT(uploads.body, HasSubstr("</Initiated>" + crc + "</Upload>"));
  EXPECT_THAT(uploads.body, HasSubstr("</Initiated></Upload>"));
  EXPECT_THAT(send("GET", "/bucket/summed", "uploadId=" + composite).body, HasSubstr(sha1));
  EXPECT_THAT(send("GET", "/bucket/whole", "uploadId=" + whole).body, HasSubstr(crc));
  EXPECT_THAT(send("GET", "/bucket/plain", "uploadId=" + plain).body, Not(HasSubstr("Checksum")));
}

TEST_F(S3ServiceParts, AttributesOfNothingAreRefused) {
  send("PUT", "/bucket/k", "", "x");
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "attributes")), "400 InvalidRequest");
  EXPECT_EQ(outcome(attributes("Size")), "400 InvalidArgument");
  EXPECT_EQ(outcome(attributes("ObjectParts", {{"x-amz-max-parts", "-1"}})), "400 InvalidArgument");
  EXPECT_EQ(
      outcome(send("GET", "/bucket/none", "attributes", "", {{"x-amz-object-attributes", "ETag"}})),
      "404 NoSuchKey");
}

}  // namespace
}  // namespace trainyard::store
