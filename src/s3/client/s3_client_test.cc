// SPDX-License-Identifier: Apache-2.0
// What S3Client asks and understands, against answers as S3 gives them. Its faults are next door,
// its life with a whole store in store/s3_service_client_test.cc.
#include "s3/client/s3_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "testing/s3_support.h"
#include "testing/scripted_server.h"

namespace trainyard::s3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct S3ClientTest : testing::Test {
  void serve(ScriptedServer::Script script) {
    server = std::make_unique<ScriptedServer>(std::move(script));
    auto made = S3Client::make({.endpoint = server->url(),
                                .region = "us-east-1",
                                .credentials =
                                    [](bool) {
                                      return http::Credentials{"AK", "SK"};
                                    },
                                .first_delay = Duration(1)},
                               *http, clock, random);
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }
  void serve_body(const std::string& body) {
    serve([body](http::Exchange& exchange, const auto&, int) {
      exchange.respond({.status = 200, .headers = {}, .body = body});
    });
  }

  SystemClock clock;
  SystemRandom random;
  std::unique_ptr<http::Client> http = http::Client::make();
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<S3Client> client;
};

TEST_F(S3ClientTest, SignsAndEncodesTheKeyExactly) {
  serve_body("");
  ASSERT_TRUE(client->remove("bucket", "a b/../x+y//\xC3\xA9?&"));
  const auto asked = server->asked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].request.method, "DELETE");
  EXPECT_EQ(asked[0].request.path, "/bucket/a%20b/../x%2By//%C3%A9%3F%26");
  EXPECT_THAT(std::string(asked[0].request.headers.get("Authorization")),
              HasSubstr("/us-east-1/s3/aws4_request"));
  EXPECT_EQ(asked[0].request.headers.get("x-amz-content-sha256"), sha256_hex(""));
}

TEST_F(S3ClientTest, ReadsAListAsS3WritesIt) {
  serve_body(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>b</Name><Prefix>p/</Prefix><EncodingType>url</EncodingType>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>tok/1=</NextContinuationToken>"
      "<Contents><Key>p/a+b%2Bc</Key><LastModified>2026-11-29T20:12:05.000Z</LastModified>"
      "<ETag>&quot;e1&quot;</ETag><Size>12</Size></Contents>"
      "<CommonPrefixes><Prefix>p/%C3%A9/</Prefix></CommonPrefixes></ListBucketResult>");
  const auto page = client->list("bucket", {.prefix = "p/", .delimiter = "/"});
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].key, "p/a b+c");
  EXPECT_EQ(page->objects[0].size, 12u);
  EXPECT_EQ(page->objects[0].etag, "e1");
  EXPECT_THAT(page->common_prefixes, ElementsAre("p/\xC3\xA9/"));
  ASSERT_TRUE(client->list("bucket", {.after = page->next_after}));
  EXPECT_THAT(server->asked().back().request.query, HasSubstr("continuation-token=tok%2F1%3D"));
}

TEST_F(S3ClientTest, SendsAShortBodyInOnePutWithItsChecksum) {
  serve([](http::Exchange& exchange, const auto&, int) {
    http::Response response;
    response.headers.set("ETag", "\"e\"");
    exchange.respond(response);
  });
  const auto info = put_text(*client, "bucket", "k", "hello",
                             {.content_type = "text/plain", .headers = {{"x-amz-meta-a", "1"}}});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->etag, "e");
  const auto asked = server->asked();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].body, "hello");
  EXPECT_EQ(asked[0].request.headers.get("x-amz-content-sha256"), sha256_hex("hello"));
  EXPECT_EQ(asked[0].request.headers.get("x-amz-checksum-crc32c"),
            to_base64(hash_of(HashKind::kCrc32c, "hello")));
  EXPECT_EQ(asked[0].request.headers.get("x-amz-meta-a"), "1");
}

TEST_F(S3ClientTest, RefusesABodyThatIsNotAsPromisedBeforeItSendsAnything) {
  serve_body("");
  EXPECT_EQ(put_text(*client, "bucket", "k", "hello", {.length = 6}).error().subject, "length");
  EXPECT_TRUE(server->asked().empty());
}

struct Answer {
  int status;
  const char* name;
  Code code;
  const char* subject;
};

class S3ClientErrors : public S3ClientTest, public testing::WithParamInterface<Answer> {};

TEST_P(S3ClientErrors, HaveOurCodesAndNameTheObject) {
  const Answer answer = GetParam();
  serve([answer](http::Exchange& exchange, const auto&, int) {
    exchange.respond({.status = answer.status,
                      .headers = {},
                      .body = "<Error><Code>" + std::string(answer.name) +
                              "</Code><Message>why</Message></Error>"});
  });
  const auto got = client->get("bucket", "the-key", {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, answer.code);
  EXPECT_EQ(got.error().subject, answer.subject);
  EXPECT_THAT(got.error().message, HasSubstr("s3://bucket/the-key"));
  EXPECT_THAT(got.error().message, HasSubstr("why"));
}

INSTANTIATE_TEST_SUITE_P(Answers, S3ClientErrors,
                         testing::Values(Answer{404, "NoSuchKey", Code::kNotFound, "key"},
                                         Answer{404, "NoSuchBucket", Code::kNotFound, "bucket"},
                                         Answer{403, "AccessDenied", Code::kDenied, ""},
                                         Answer{403, "SignatureDoesNotMatch", Code::kDenied, ""},
                                         Answer{501, "NotImplemented", Code::kUnimplemented, ""},
                                         Answer{507, "InsufficientStorage", Code::kExhausted, ""}),
                         [](const auto& answer) { return std::string(answer.param.name); });

TEST_F(S3ClientTest, HeadOfAMissingObjectNamesTheKeyWithoutABody) {
  serve([](http::Exchange& exchange, const auto&, int) {
    exchange.respond({.status = 404, .headers = {}, .body = {}});
  });
  EXPECT_EQ(client->head("bucket", "k").error().subject, "key");
  EXPECT_EQ(client->head_bucket("bucket").error().subject, "bucket");
}

TEST_F(S3ClientTest, SendsNothingForABucketThatWouldBendTheUrl) {
  serve_body("");
  for (const char* bucket : {"a/b", "a?b", "..", "a b", "a@b", "a#b"}) {
    EXPECT_EQ(client->head_bucket(bucket).error().subject, "name") << bucket;
  }
  EXPECT_TRUE(server->asked().empty());
}

TEST_F(S3ClientTest, RefusesAnEndpointThatIsNone) {
  for (const char* endpoint :
       {"", "localhost:1", "ftp://h", "http://", "http://u@h", "http://h/?a"}) {
    EXPECT_FALSE(S3Client::make({.endpoint = endpoint, .credentials = {}}, *http, clock, random))
        << endpoint;
  }
}

}  // namespace
}  // namespace trainyard::s3
