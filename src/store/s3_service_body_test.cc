// SPDX-License-Identifier: Apache-2.0
// Bodies of uploads: what is promised about them in headers, signatures, chunks and trailers.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/body.h"
#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

constexpr const char* kTrailed = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

struct S3ServiceBody : S3ServerTest {
  std::string stored() { return s3::get_text(*store, "bucket", "k").value_or("(none)"); }

  http::Response put_chunked(const std::string& wire, const std::string& length,
                             const Fields& more = {}) {
    Fields fields{{"x-amz-content-sha256", kTrailed},
                  {"x-amz-decoded-content-length", length},
                  {"Content-Encoding", "aws-chunked"},
                  {"x-amz-trailer", "x-amz-checksum-crc32"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return send("PUT", "/bucket/k", "", wire, fields);
  }
};

TEST_F(S3ServiceBody, IsRefusedWhenTheSignatureCoversAnother) {
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "altered",
                         {{"x-amz-content-sha256", sha256_hex("signed")}})),
            "400 XAmzContentSHA256Mismatch");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(S3ServiceBody, MayBeUnsigned) {
  EXPECT_EQ(
      outcome(send("PUT", "/bucket/k", "", "x", {{"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}})),
      "200");
  EXPECT_EQ(stored(), "x");
}

TEST_F(S3ServiceBody, MustHaveItsMd5AndChecksum) {
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "hello", {{"Content-MD5", "bad"}})),
            "400 InvalidDigest");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "hello",
                         {{"Content-MD5", to_base64(std::string(16, 'x'))}})),
            "400 BadDigest");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "hello", {{"x-amz-checksum-crc32", "AAAAAA=="}})),
            "400 BadDigest");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "hello", {{"x-amz-checksum-crc32", "AA"}})),
            "400 InvalidRequest");
  EXPECT_EQ(stored(), "(none)");
  const auto good =
      send("PUT", "/bucket/k", "", "hello",
           {{"Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="}, {"x-amz-checksum-crc32", "NhCmhg=="}});
  EXPECT_EQ(outcome(good), "200");
  EXPECT_EQ(good.headers.get("x-amz-checksum-crc32"), "NhCmhg==");
}

TEST_F(S3ServiceBody, IsDecodedFromChunksWithATrailer) {
  const auto response =
      put_chunked("3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "5");
  EXPECT_EQ(outcome(response), "200") << response.body;
  EXPECT_EQ(response.headers.get("x-amz-checksum-crc32"), "NhCmhg==");
  EXPECT_EQ(stored(), "hello");
  EXPECT_TRUE(store->head("bucket", "k")->headers.empty());
}

TEST_F(S3ServiceBody, IsRefusedWhenTheTrailerDiffers) {
  EXPECT_EQ(outcome(put_chunked("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "5")),
            "400 BadDigest");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(S3ServiceBody, IsRefusedWhenTheTrailerThatWasAnnouncedDoesNotCome) {
  EXPECT_EQ(outcome(put_chunked("5\r\nhello\r\n0\r\n\r\n", "5")), "400 MalformedTrailerError");
  EXPECT_EQ(outcome(put_chunked("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "5",
                                {{"x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1"}})),
            "400 MalformedTrailerError");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(S3ServiceBody, IsRefusedWhenChunksAreBrokenOrTooFew) {
  EXPECT_EQ(outcome(put_chunked("5\r\nhello\r\n", "5")), "400 IncompleteBody");
  EXPECT_EQ(outcome(put_chunked("zz\r\nhello\r\n", "5")), "400 IncompleteBody");
  EXPECT_EQ(outcome(put_chunked("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "6")),
            "400 IncompleteBody");
  EXPECT_EQ(outcome(put_chunked("0\r\n\r\n", "")), "411 MissingContentLength");
  EXPECT_EQ(outcome(put_chunked("0\r\n\r\n", "0", {{"x-amz-trailer", "x-other"}})),
            "400 InvalidRequest");
  EXPECT_EQ(stored(), "(none)");
}

TEST_F(S3ServiceBody, OfXmlIsLimited) {
  const std::string long_body(std::size_t{9} << 20, ' ');
  EXPECT_EQ(outcome(send("POST", "/bucket", "delete", long_body)), "400 MaxMessageLengthExceeded");
}

TEST_F(S3ServiceBody, OfACompletedUploadMayPromiseTheWholeChecksum) {
  const std::string id = *store->create_upload("bucket", "k", {.compute = {HashKind::kCrc32}});
  const auto part = *store->put_part("bucket", "k", {id, 1}, s3::text_source("hello"), {});
  const std::string body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" +
                           part.etag + "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body,
                         {{"x-amz-checksum-crc32", "AAAAAA=="}})),
            "400 BadDigest");
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body,
                         {{"x-amz-checksum-crc32", "NhCmhg=="}})),
            "200");
  // The first answer was lost, perhaps.
  const auto again =
      send("POST", "/bucket/k", "uploadId=" + id, body, {{"x-amz-checksum-crc32", "NhCmhg=="}});
  EXPECT_EQ(outcome(again), "200");
  EXPECT_THAT(again.body, testing::HasSubstr("<ETag>"));
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=none", body,
                         {{"x-amz-checksum-crc32", "NhCmhg=="}})),
            "404 NoSuchUpload");
}

TEST(ContentEncoding, LosesAwsChunkedOnly) {
  EXPECT_EQ(without_aws_chunked("aws-chunked"), "");
  EXPECT_EQ(without_aws_chunked("gzip, aws-chunked"), "gzip");
  EXPECT_EQ(without_aws_chunked("aws-chunked,gzip,br"), "gzip, br");
}

// The key of a request that is on its way is revoked before its last byte.
struct S3ServiceRevocation : S3ServiceBody {
  void SetUp() override {
    S3ServiceBody::SetUp();
    service = std::make_unique<S3Service>(
        *store,
        Options{.still_holds =
                    [this](const http::Verified& by) {
                      return by.access_key_id == kKey && !is_revoked
                                 ? Result<void>()
                                 : Error{Code::kDenied, "revoked meanwhile"};
                    }},
        clock);
    ASSERT_EQ(outcome(send("PUT", "/bucket/k", "", "newer")), "200");
  }

  // The body comes byte by byte; before the last one the key is revoked.
  std::string outcome_of_slow(const std::string& method, const std::string& path,
                              const std::string& query, const std::string& body) {
    http::Request head{
        .method = method, .path = path, .query = query, .headers = {}, .peer = {}, .listener = {}};
    head.headers.set("Host", host());
    http::sign(head, http::kUnsignedPayload, {kKey, kSecret},
               {.region = "us-east-1", .service = "s3"}, clock.now());
    std::size_t at = 0;
    const auto response =
        http_client->send({.method = method,
                           .url = "http://" + host() + path + (query.empty() ? "" : "?" + query),
                           .headers = head.headers,
                           .upload = [&](std::span<std::byte> out) -> Result<std::size_t> {
                             if (at == body.size()) {
                               return std::size_t{0};
                             }
                             out[0] = static_cast<std::byte>(body[at]);
                             is_revoked = ++at == body.size();
                             return std::size_t{1};
                           },
                           .upload_length = body.size()});
    return response ? outcome(*response) : response.error().message;
  }

  std::atomic<bool> is_revoked = false;
};

TEST_F(S3ServiceRevocation, KeepsASlowBodyFromReplacingANewerObject) {
  EXPECT_EQ(outcome_of_slow("PUT", "/bucket/k", "", "xxx"), "403 AccessDenied");
  EXPECT_EQ(stored(), "newer");
}

TEST_F(S3ServiceRevocation, KeepsASlowListFromDeletingNewerObjects) {
  EXPECT_EQ(outcome_of_slow("POST", "/bucket", "delete",
                            "<Delete><Object><Key>k</Key></Object></Delete>"),
            "403 AccessDenied");
  EXPECT_EQ(stored(), "newer");
}

TEST_F(S3ServiceRevocation, KeepsSlowSettingsFromReplacingNewerOnes) {
  const std::string tags =
      "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet>"
      "</Tagging>";
  EXPECT_EQ(outcome_of_slow("PUT", "/bucket/k", "tagging", tags), "403 AccessDenied");
  is_revoked = false;
  EXPECT_EQ(outcome_of_slow("PUT", "/bucket", "tagging", tags), "403 AccessDenied");
  EXPECT_TRUE(store->head("bucket", "k")->tags.empty());
  EXPECT_EQ(store->bucket_setting("bucket", "tagging").value_or("?"), "");
}

TEST_F(S3ServiceRevocation, KeepsAMultipartUploadFromReplacingANewerObject) {
  const std::string id = *store->create_upload("bucket", "k", {});
  const auto part = send("PUT", "/bucket/k", "partNumber=1&uploadId=" + id, "older");
  ASSERT_EQ(outcome(part), "200");
  const std::string body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" +
                           std::string(part.headers.get("ETag")) +
                           "</ETag></Part></CompleteMultipartUpload>";
  is_revoked = true;
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body)), "403 AccessDenied");
  EXPECT_EQ(stored(), "newer");
  is_revoked = false;
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body)), "200");
  EXPECT_EQ(stored(), "older");
}

}  // namespace
}  // namespace trainyard::store
