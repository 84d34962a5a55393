// SPDX-License-Identifier: Apache-2.0
// The S3 face: tags, CORS, conditions of writes, names in the host, and what buckets do not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using testing::Not;

using S3Settings = S3ServerTest;

TEST_F(S3Settings, TagsComeWithTheObjectOrLater) {
  send("PUT", "/bucket/k", "", "x", {{"x-amz-tagging", "a=1&b=2"}});
  EXPECT_EQ(send("HEAD", "/bucket/k", "").headers.get("x-amz-tagging-count"), "2");
  EXPECT_THAT(send("GET", "/bucket/k", "tagging").body,
              HasSubstr("<Tag><Key>a</Key><Value>1</Value></Tag>"));
  EXPECT_EQ(send("PUT", "/bucket/k", "tagging",
                 "<Tagging><TagSet><Tag><Key>c</Key><Value>3</Value></Tag></TagSet></Tagging>")
                .status,
            200);
  EXPECT_THAT(send("GET", "/bucket/k", "tagging").body, Not(HasSubstr("<Key>a</Key>")));
  EXPECT_EQ(send("DELETE", "/bucket/k", "tagging").status, 204);
  EXPECT_EQ(send("HEAD", "/bucket/k", "").headers.find("x-amz-tagging-count"), nullptr);
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "x", {{"x-amz-tagging", "a=1&a=2"}})),
            "400 InvalidTag");
}

TEST_F(S3Settings, CopiesTakeTagsUnlessTold) {
  send("PUT", "/bucket/k", "", "x", {{"x-amz-tagging", "a=1"}});
  send("PUT", "/bucket/kept", "", "", {{"x-amz-copy-source", "bucket/k"}});
  EXPECT_THAT(send("GET", "/bucket/kept", "tagging").body, HasSubstr("<Key>a</Key>"));
  send("PUT", "/bucket/new", "", "",
       {{"x-amz-copy-source", "bucket/k"},
        {"x-amz-tagging-directive", "REPLACE"},
        {"x-amz-tagging", "b=2"}});
  EXPECT_THAT(send("GET", "/bucket/new", "tagging").body, HasSubstr("<Key>b</Key>"));
  EXPECT_THAT(send("GET", "/bucket/new", "tagging").body, Not(HasSubstr("<Key>a</Key>")));
}

TEST_F(S3Settings, CopyComputesAChecksumThatTheSourceHasNot) {
  send("PUT", "/bucket/k", "", "hello");
  const auto copied =
      send("PUT", "/bucket/copy", "", "",
           {{"x-amz-copy-source", "bucket/k"}, {"x-amz-checksum-algorithm", "CRC32"}});
  EXPECT_THAT(copied.body, HasSubstr("<ChecksumCRC32>NhCmhg==</ChecksumCRC32>"));
}

TEST_F(S3Settings, BucketsHaveTags) {
  EXPECT_EQ(outcome(send("GET", "/bucket", "tagging")), "404 NoSuchTagSet");
  send("PUT", "/bucket", "tagging",
       "<Tagging><TagSet><Tag><Key>team</Key><Value>llm</Value></Tag></TagSet></Tagging>");
  EXPECT_THAT(send("GET", "/bucket", "tagging").body, HasSubstr("<Value>llm</Value>"));
  EXPECT_EQ(send("DELETE", "/bucket", "tagging").status, 204);
  EXPECT_EQ(outcome(send("GET", "/bucket", "tagging")), "404 NoSuchTagSet");
}

TEST_F(S3Settings, WritesUnderIfMatch) {
  const std::string etag(send("PUT", "/bucket/k", "", "x").headers.get("ETag"));
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "y", {{"If-Match", "\"no\""}})),
            "412 PreconditionFailed");
  EXPECT_EQ(outcome(send("PUT", "/bucket/none", "", "y", {{"If-Match", etag}})), "404 NoSuchKey");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "y", {{"If-Match", etag}})), "200");
  EXPECT_EQ(outcome(send("DELETE", "/bucket/k", "", "", {{"If-Match", etag}})),
            "412 PreconditionFailed");
  EXPECT_EQ(send("GET", "/bucket/k", "").body, "y");
}

TEST_F(S3Settings, CompletesUnderConditions) {
  send("PUT", "/bucket/k", "", "old");
  const std::string id = *store->create_upload("bucket", "k", {});
  const auto part = store->put_part("bucket", "k", {id, 1}, s3::text_source("new"), {});
  ASSERT_TRUE(part);
  const std::string body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" +
                           part->etag + "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body, {{"If-None-Match", "*"}})),
            "412 PreconditionFailed");
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body, {{"If-Match", "\"x\""}})),
            "412 PreconditionFailed");
  EXPECT_EQ(send("GET", "/bucket/k", "").body, "old");
  EXPECT_EQ(outcome(send("POST", "/bucket/k", "uploadId=" + id, body)), "200");
  EXPECT_EQ(send("GET", "/bucket/k", "").body, "new");
}

TEST_F(S3Settings, SaysWhereACompletedUploadIsInTheSchemeOfTheListener) {
  const auto location = [&] {
    const std::string id = *store->create_upload("bucket", "k", {});
    const auto part = store->put_part("bucket", "k", {id, 1}, s3::text_source("x"), {});
    return send("POST", "/bucket/k", "uploadId=" + id,
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part->etag +
                    "</ETag></Part></CompleteMultipartUpload>")
        .body;
  };
  EXPECT_THAT(location(), HasSubstr("<Location>http://" + host() + "/bucket/k</Location>"));
  service = std::make_unique<S3Service>(*store, Options{.tls_listener = "test"}, clock);
  EXPECT_THAT(location(), HasSubstr("<Location>https://" + host() + "/bucket/k</Location>"));
}

struct Absent {
  const char* path;
  const char* query;
  const char* outcome;
};

class S3Absent : public S3ServerTest, public testing::WithParamInterface<Absent> {};

TEST_P(S3Absent, IsSaidAsS3SaysIt) {
  send("PUT", "/bucket/k", "", "x");
  EXPECT_EQ(outcome(send("GET", GetParam().path, GetParam().query)), GetParam().outcome);
}

INSTANTIATE_TEST_SUITE_P(
    Configurations, S3Absent,
    testing::Values(
        Absent{"/bucket", "policy", "404 NoSuchBucketPolicy"},
        Absent{"/bucket", "policyStatus", "404 NoSuchBucketPolicy"},
        Absent{"/bucket", "cors", "404 NoSuchCORSConfiguration"},
        Absent{"/bucket", "lifecycle", "404 NoSuchLifecycleConfiguration"},
        Absent{"/bucket", "website", "404 NoSuchWebsiteConfiguration"},
        Absent{"/bucket", "publicAccessBlock", "404 NoSuchPublicAccessBlockConfiguration"},
        Absent{"/bucket", "object-lock", "404 ObjectLockConfigurationNotFoundError"},
        Absent{"/bucket/k", "retention", "404 NoSuchObjectLockConfiguration"},
        Absent{"/bucket", "versioning", "200"}, Absent{"/bucket", "acl", "200"},
        Absent{"/bucket/k", "acl", "200"}, Absent{"/bucket/none", "acl", "404 NoSuchKey"},
        Absent{"/none", "acl", "404 NoSuchBucket"}, Absent{"/none", "policy", "404 NoSuchBucket"}));

TEST_F(S3Settings, VersioningWasNeverEnabled) {
  EXPECT_THAT(send("GET", "/bucket", "versioning").body, Not(HasSubstr("<Status>")));
  send("PUT", "/bucket/k", "", "x");
  const auto versions = send("GET", "/bucket", "versions&max-keys=1");
  EXPECT_THAT(versions.body, HasSubstr("<Key>k</Key><VersionId>null</VersionId>"));
  EXPECT_THAT(versions.body, HasSubstr("<IsTruncated>false</IsTruncated>"));
}

constexpr const char* kCors =
    "<CORSConfiguration><CORSRule><AllowedOrigin>https://app.example.com</AllowedOrigin>"
    "<AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>"
    "<AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader></CORSRule>"
    "</CORSConfiguration>";

TEST_F(S3Settings, AnswersTheQuestionBeforeARequestFromAnotherOrigin) {
  http::Request ask{.method = "OPTIONS", .path = "/bucket/k"};
  ask.headers.set("Origin", "https://app.example.com");
  ask.headers.set("Access-Control-Request-Method", "PUT");
  ask.headers.set("Access-Control-Request-Headers", "content-type");
  EXPECT_EQ(outcome(send_as_is(ask)), "403 AccessForbidden");
  EXPECT_EQ(send("PUT", "/bucket", "cors", kCors).status, 200);
  const auto allowed = send_as_is(ask);
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Origin"), "https://app.example.com");
  EXPECT_EQ(allowed.headers.get("Access-Control-Allow-Headers"), "content-type");
  ask.headers.set("Access-Control-Request-Method", "DELETE");
  EXPECT_EQ(outcome(send_as_is(ask)), "403 AccessForbidden");
  ask.headers.remove("Origin");
  EXPECT_EQ(outcome(send_as_is(ask)), "400 BadRequest");
}

TEST_F(S3Settings, LetsAPageReadAnswersAndErrors) {
  send("PUT", "/bucket", "cors", kCors);
  const Fields origin{{"Origin", "https://app.example.com"}};
  const auto put = send("PUT", "/bucket/k", "", "x", origin);
  EXPECT_EQ(put.headers.get("Access-Control-Allow-Origin"), "https://app.example.com");
  EXPECT_EQ(put.headers.get("Access-Control-Expose-Headers"), "ETag");
  EXPECT_EQ(send("GET", "/bucket/none", "", "", origin).headers.get("Access-Control-Allow-Origin"),
            "https://app.example.com");
  EXPECT_EQ(send("GET", "/bucket/k", "", "", {{"Origin", "https://evil.org"}})
                .headers.find("Access-Control-Allow-Origin"),
            nullptr);
  http::Request stranger{.method = "GET", .path = "/bucket/k"};
  stranger.headers.set("Origin", "https://app.example.com");
  const auto refused = send_as_is(stranger);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.headers.get("Access-Control-Allow-Origin"), "https://app.example.com");
}

TEST_F(S3Settings, ListsBucketsByPages) {
  ASSERT_TRUE(store->create_bucket("bucket-2"));
  const auto first = send("GET", "/", "max-buckets=1");
  EXPECT_THAT(first.body, HasSubstr("<Name>bucket</Name>"));
  EXPECT_THAT(first.body, HasSubstr("<ContinuationToken>6275636b6574</ContinuationToken>"));
  const auto rest = send("GET", "/", "max-buckets=1&continuation-token=6275636b6574");
  EXPECT_THAT(rest.body, HasSubstr("<Name>bucket-2</Name>"));
  EXPECT_THAT(rest.body, Not(HasSubstr("<ContinuationToken>")));
}

}  // namespace
}  // namespace trainyard::store
