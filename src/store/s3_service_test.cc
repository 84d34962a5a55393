// SPDX-License-Identifier: Apache-2.0
// The S3 face request by request: statuses, headers, XML, refusals.
#include "store/s3_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using testing::Not;

using S3ServiceTest = S3ServerTest;

TEST_F(S3ServiceTest, AnswersErrorsInXmlWithARequestId) {
  const auto response = send("GET", "/bucket/missing%20%3C", "");
  EXPECT_EQ(outcome(response), "404 NoSuchKey");
  EXPECT_EQ(response.headers.get("Content-Type"), "application/xml");
  const std::string id(response.headers.get("x-amz-request-id"));
  EXPECT_EQ(id.size(), 16u);
  EXPECT_THAT(response.body, HasSubstr("<RequestId>" + id + "</RequestId>"));
  EXPECT_THAT(response.body, HasSubstr("<Resource>/bucket/missing%20%3C</Resource>"));
}

struct Refused {
  const char* method;
  const char* path;
  const char* query;
  const char* outcome;
  const char* body = "";
};

class S3ServiceRefuses : public S3ServerTest, public testing::WithParamInterface<Refused> {};

TEST_P(S3ServiceRefuses, WithTheCodeThatS3Gives) {
  const Refused& refused = GetParam();
  EXPECT_EQ(outcome(send(refused.method, refused.path, refused.query, refused.body)),
            refused.outcome);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, S3ServiceRefuses,
    testing::Values(
        Refused{"GET", "/missing", "", "404 NoSuchBucket"},
        Refused{"PUT", "/missing/k", "", "404 NoSuchBucket"},
        Refused{"PUT", "/No", "", "400 InvalidBucketName"},
        Refused{"PUT", "/bucket", "versioning", "501 NotImplemented"},
        Refused{"PATCH", "/bucket/k", "", "405 MethodNotAllowed"},
        Refused{"POST", "/bucket", "", "405 MethodNotAllowed"},
        Refused{"GET", "/bucket", "max-keys=x", "400 InvalidArgument"},
        Refused{"GET", "/bucket", "encoding-type=xml", "400 InvalidArgument"},
        Refused{"GET", "/bucket", "list-type=2&continuation-token=zz", "400 InvalidArgument"},
        Refused{"GET", "/bucket/%zz", "", "400 InvalidURI"},
        Refused{"PUT", "/bucket/%FF", "", "400 InvalidArgument"},
        Refused{"PUT", "/bucket/k", "uploadId=u&partNumber=1", "404 NoSuchUpload", "x"},
        Refused{"PUT", "/bucket/k", "uploadId=u&partNumber=0", "400 InvalidArgument", "x"},
        Refused{"POST", "/bucket/k", "uploadId=u", "400 MalformedXML", "<nonsense"},
        Refused{"POST", "/bucket", "delete", "400 MalformedXML", "<Delete/>"},
        Refused{"DELETE", "/bucket/k", "versionId=7", "404 NoSuchVersion"}));

TEST_F(S3ServiceTest, RefusesAKeyOfMoreThan1024Bytes) {
  EXPECT_EQ(outcome(send("PUT", "/bucket/" + std::string(1'025, 'k'), "")), "400 KeyTooLongError");
}

TEST_F(S3ServiceTest, RefusesAnotherOwner) {
  const Fields other{{"x-amz-expected-bucket-owner", "999999999999"}};
  const Fields own{{"x-amz-expected-bucket-owner", "123456789012"}};
  EXPECT_EQ(outcome(send("GET", "/bucket", "", "", other)), "403 AccessDenied");
  EXPECT_EQ(outcome(send("GET", "/bucket", "", "", own)), "200");
}

TEST_F(S3ServiceTest, RefusesHeadersWhosePromiseItCannotKeep) {
  for (const char* name :
       {"x-amz-server-side-encryption-customer-algorithm", "x-amz-object-lock-mode"}) {
    EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "x", {{name, "v"}})), "501 NotImplemented");
  }
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "x", {{"x-amz-acl", "public-read"}})),
            "501 NotImplemented");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "x", {{"x-amz-acl", "private"}})), "200");
}

TEST_F(S3ServiceTest, EchoesTheEncryptionThatWasAskedFor) {
  const auto put = send("PUT", "/bucket/k", "", "x", {{"x-amz-server-side-encryption", "aws:kms"}});
  EXPECT_EQ(put.headers.get("x-amz-server-side-encryption"), "aws:kms");
  const auto got = send("GET", "/bucket/k", "");
  EXPECT_EQ(got.headers.get("x-amz-server-side-encryption"), "aws:kms");
}

TEST_F(S3ServiceTest, AnswersRangesAsS3Does) {
  send("PUT", "/bucket/k", "", "0123456789");
  const auto part = send("GET", "/bucket/k", "", "", {{"Range", "bytes=-3"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "789");
  EXPECT_EQ(part.headers.get("Content-Range"), "bytes 7-9/10");
  const auto behind = send("GET", "/bucket/k", "", "", {{"Range", "bytes=10-"}});
  EXPECT_EQ(outcome(behind), "416 InvalidRange");
  EXPECT_EQ(behind.headers.get("Content-Range"), "bytes */10");
  const auto two = send("GET", "/bucket/k", "", "", {{"Range", "bytes=0-1,3-4"}});
  EXPECT_EQ(two.status, 200);
  EXPECT_EQ(two.body, "0123456789");
}

TEST_F(S3ServiceTest, AnswersConditions) {
  const auto put = send("PUT", "/bucket/k", "", "x");
  const std::string etag(put.headers.get("ETag"));
  EXPECT_EQ(etag, "\"9dd4e461268c8034f5c8564e155c67a6\"");
  EXPECT_EQ(send("GET", "/bucket/k", "", "", {{"If-None-Match", etag}}).status, 304);
  EXPECT_EQ(send("GET", "/bucket/k", "", "", {{"If-Match", etag}}).status, 200);
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "", "", {{"If-Match", "\"x\""}})),
            "412 PreconditionFailed");
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "", "y", {{"If-None-Match", "*"}})),
            "412 PreconditionFailed");
}

TEST_F(S3ServiceTest, OverridesHeadersOfTheAnswer) {
  send("PUT", "/bucket/k", "", "x", {{"Content-Type", "a/b"}});
  const auto got = send("GET", "/bucket/k", "response-content-type=c%2Fd&response-expires=never");
  EXPECT_EQ(got.headers.get("Content-Type"), "c/d");
  EXPECT_EQ(got.headers.get("Expires"), "never");
}

TEST_F(S3ServiceTest, GivesChecksumsOnlyOfWhatItSends) {
  send("PUT", "/bucket/k", "", "hello", {{"x-amz-checksum-crc32", "NhCmhg=="}});
  const Fields mode{{"x-amz-checksum-mode", "ENABLED"}};
  const auto whole = send("GET", "/bucket/k", "", "", mode);
  EXPECT_EQ(whole.headers.get("x-amz-checksum-crc32"), "NhCmhg==");
  EXPECT_EQ(whole.headers.get("x-amz-checksum-type"), "FULL_OBJECT");
  EXPECT_EQ(send("GET", "/bucket/k", "").headers.find("x-amz-checksum-crc32"), nullptr);
  const auto part = send("GET", "/bucket/k", "", "",
                         {{"x-amz-checksum-mode", "ENABLED"}, {"Range", "bytes=0-1"}});
  EXPECT_EQ(part.headers.find("x-amz-checksum-crc32"), nullptr);
  const auto unchanged = send("GET", "/bucket/k", "", "",
                              {{"x-amz-checksum-mode", "ENABLED"}, {"If-None-Match", "*"}});
  EXPECT_EQ(unchanged.status, 304);
  EXPECT_EQ(unchanged.headers.find("x-amz-checksum-crc32"), nullptr);
}

TEST_F(S3ServiceTest, HeadTellsTheLengthAndSendsNothing) {
  send("PUT", "/bucket/k", "", "hello");
  const auto head = send("HEAD", "/bucket/k", "");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.get("Content-Length"), "5");
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(send("HEAD", "/bucket/missing", "").status, 404);
  EXPECT_EQ(send("HEAD", "/bucket", "").headers.get("x-amz-bucket-region"), "us-east-1");
}

TEST_F(S3ServiceTest, ListsInBothVersions) {
  for (const char* key : {"/bucket/a%20b", "/bucket/d/1", "/bucket/e"}) {
    send("PUT", key, "", "x");
  }
  const auto one = send("GET", "/bucket", "delimiter=%2F&max-keys=2");
  EXPECT_THAT(one.body, HasSubstr("<Key>a b</Key>"));
  EXPECT_THAT(one.body, HasSubstr("<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>"));
  EXPECT_THAT(one.body, HasSubstr("<NextMarker>d/</NextMarker>"));
  const auto next = send("GET", "/bucket", "delimiter=%2F&marker=d%2F");
  EXPECT_THAT(next.body, Not(HasSubstr("d/1")));
  EXPECT_THAT(next.body, HasSubstr("<Key>e</Key>"));
  const auto two = send("GET", "/bucket", "list-type=2&encoding-type=url&start-after=a");
  EXPECT_THAT(two.body, HasSubstr("<Key>a%20b</Key>"));
  EXPECT_THAT(two.body, HasSubstr("<KeyCount>3</KeyCount>"));
  EXPECT_THAT(two.body, HasSubstr("<EncodingType>url</EncodingType>"));
}

TEST_F(S3ServiceTest, DeletesManyAndSaysWhich) {
  send("PUT", "/bucket/a", "", "x");
  send("PUT", "/bucket/b%3C", "", "x");
  const auto loud = send("POST", "/bucket", "delete",
                         "<Delete><Object><Key>a</Key></Object><Object><Key>gone</Key></Object>"
                         "<Object><Key>v</Key><VersionId>3</VersionId></Object></Delete>");
  EXPECT_THAT(loud.body, HasSubstr("<Deleted><Key>a</Key></Deleted>"));
  EXPECT_THAT(loud.body, HasSubstr("<Deleted><Key>gone</Key></Deleted>"));
  EXPECT_THAT(loud.body, HasSubstr("<Error><Key>v</Key><Code>NoSuchVersion</Code>"));
  const auto quiet = send("POST", "/bucket", "delete",
                          "<Delete><Quiet>true</Quiet><Object><Key>b&lt;</Key></Object></Delete>");
  EXPECT_THAT(quiet.body, Not(HasSubstr("<Key>")));
  EXPECT_TRUE(store->list("bucket", {})->objects.empty());
}

TEST_F(S3ServiceTest, DeletesOnlyWhatHasTheETagThatIsNamed) {
  send("PUT", "/bucket/same", "", "x");
  send("PUT", "/bucket/newer", "", "y");
  const std::string etag = "<ETag>\"9dd4e461268c8034f5c8564e155c67a6\"</ETag>";  // of "x"
  const auto answer =
      send("POST", "/bucket", "delete",
           "<Delete><Object><Key>same</Key>" + etag + "</Object><Object><Key>newer</Key>" + etag +
               "</Object><Object><Key>newer</Key><Size>1</Size></Object></Delete>");
  EXPECT_THAT(answer.body, HasSubstr("<Deleted><Key>same</Key></Deleted>"));
  EXPECT_THAT(answer.body, HasSubstr("<Error><Key>newer</Key><Code>PreconditionFailed</Code>"));
  EXPECT_THAT(answer.body, HasSubstr("<Error><Key>newer</Key><Code>NotImplemented</Code>"));
  EXPECT_EQ(outcome(send("DELETE", "/bucket/newer", "", "", {{"x-amz-if-match-size", "9"}})),
            "501 NotImplemented");
  EXPECT_FALSE(store->head("bucket", "same"));
  EXPECT_TRUE(store->head("bucket", "newer"));
}

TEST_F(S3ServiceTest, CopiesByItsHeader) {
  send("PUT", "/bucket/a%2Bb", "", "x", {{"x-amz-meta-a", "1"}, {"Content-Type", "a/b"}});
  const Fields source{{"x-amz-copy-source", "bucket/a+b"}};
  EXPECT_THAT(send("PUT", "/bucket/copy", "", "", source).body,
              HasSubstr("<ETag>&quot;9dd4e461268c8034f5c8564e155c67a6&quot;</ETag>"));
  EXPECT_EQ(send("HEAD", "/bucket/copy", "").headers.get("x-amz-meta-a"), "1");
  send("PUT", "/bucket/copy", "", "",
       {{"x-amz-copy-source", "/bucket/a%2Bb"},
        {"x-amz-metadata-directive", "REPLACE"},
        {"x-amz-meta-b", "2"}});
  const auto head = send("HEAD", "/bucket/copy", "");
  EXPECT_EQ(head.headers.find("x-amz-meta-a"), nullptr);
  EXPECT_EQ(head.headers.get("x-amz-meta-b"), "2");
  EXPECT_EQ(outcome(send("PUT", "/bucket/a%2Bb", "", "", source)), "400 InvalidRequest");
  EXPECT_EQ(
      outcome(send("PUT", "/bucket/c", "", "",
                   {{"x-amz-copy-source", "bucket/a+b"}, {"x-amz-copy-source-if-match", "\"x\""}})),
      "412 PreconditionFailed");
  EXPECT_EQ(outcome(send("PUT", "/bucket/c", "", "", {{"x-amz-copy-source", "bucket/a b"}})),
            "404 NoSuchKey");
}

TEST_F(S3ServiceTest, CopiesRangesIntoParts) {
  send("PUT", "/bucket/source", "", "0123456789");
  const std::string id = *store->create_upload("bucket", "k", {});
  const Fields source{{"x-amz-copy-source", "bucket/source"},
                      {"x-amz-copy-source-range", "bytes=2-4"}};
  const auto copied = send("PUT", "/bucket/k", "partNumber=1&uploadId=" + id, "", source);
  EXPECT_THAT(copied.body, HasSubstr("<CopyPartResult"));
  const auto parts = store->list_parts("bucket", "k", id);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->at(0).size, 3u);
  EXPECT_TRUE(store->complete_upload("bucket", "k", id, *parts));
  EXPECT_EQ(send("GET", "/bucket/k", "").body, "234");
  const std::string other = *store->create_upload("bucket", "k", {});
  EXPECT_EQ(outcome(send("PUT", "/bucket/k", "partNumber=1&uploadId=" + other, "",
                         {{"x-amz-copy-source", "bucket/source"},
                          {"x-amz-copy-source-range", "bytes=2-40"}})),
            "400 InvalidArgument");
}

TEST_F(S3ServiceTest, TellsBucketsAndTheirLocation) {
  EXPECT_THAT(send("GET", "/", "").body, HasSubstr("<Name>bucket</Name>"));
  EXPECT_THAT(send("GET", "/bucket", "location").body,
              HasSubstr("<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                        "</LocationConstraint>"));
  EXPECT_EQ(outcome(send("PUT", "/another", "",
                         "<CreateBucketConfiguration><LocationConstraint>eu-west-1"
                         "</LocationConstraint></CreateBucketConfiguration>")),
            "200");
  EXPECT_EQ(outcome(send("PUT", "/third", "", "<Nonsense/>")), "400 MalformedXML");
  EXPECT_EQ(send("DELETE", "/another", "").status, 204);
}

struct AuthCase {
  http::AuthFailure failure;
  const char* outcome;
};

class S3AuthError : public S3ServerTest, public testing::WithParamInterface<AuthCase> {};

TEST_P(S3AuthError, HasTheCodeThatS3Gives) {
  const auto response =
      auth_error_response({.failure = GetParam().failure, .message = "why"}, "/b/k", "ID");
  EXPECT_EQ(outcome(response), GetParam().outcome);
  EXPECT_THAT(response.body, HasSubstr("<Message>why</Message>"));
}

INSTANTIATE_TEST_SUITE_P(
    Failures, S3AuthError,
    testing::Values(AuthCase{http::AuthFailure::kMissing, "403 AccessDenied"},
                    AuthCase{http::AuthFailure::kUnknownKey, "403 InvalidAccessKeyId"},
                    AuthCase{http::AuthFailure::kMismatch, "403 SignatureDoesNotMatch"},
                    AuthCase{http::AuthFailure::kSkewed, "403 RequestTimeTooSkewed"},
                    AuthCase{http::AuthFailure::kExpiredToken, "400 ExpiredToken"},
                    AuthCase{http::AuthFailure::kExpired, "403 AccessDenied"}));

}  // namespace
}  // namespace trainyard::store
