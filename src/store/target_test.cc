// SPDX-License-Identifier: Apache-2.0
#include "store/target.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

struct Path {
  const char* path;
  const char* bucket;
  const char* key;
};

class ParseTarget : public testing::TestWithParam<Path> {};

TEST_P(ParseTarget, SplitsAtTheFirstSlashAndDecodesOnce) {
  http::Request request;
  request.path = GetParam().path;
  const auto target = parse_target(request);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->bucket, GetParam().bucket);
  EXPECT_EQ(target->key, GetParam().key);
}

INSTANTIATE_TEST_SUITE_P(Paths, ParseTarget,
                         testing::Values(Path{"/", "", ""}, Path{"/b", "b", ""},
                                         Path{"/b/", "b", ""}, Path{"/b/k", "b", "k"},
                                         Path{"/b//k", "b", "/k"}, Path{"/b/a//b/", "b", "a//b/"},
                                         Path{"/b/../x", "b", "../x"}, Path{"/b/a%2Fb", "b", "a/b"},
                                         Path{"/b/a+b", "b", "a+b"}, Path{"/b/a%2Bb", "b", "a+b"},
                                         Path{"/b/a%252Bb", "b", "a%2Bb"},
                                         Path{"/b/%C3%A4%2B1.txt", "b", "\xC3\xA4+1.txt"}));

struct Host {
  const char* host;
  const char* path;
  const char* bucket;
  const char* key;
};

class VirtualHost : public testing::TestWithParam<Host> {};

TEST_P(VirtualHost, NamesTheBucketBeforeADomain) {
  http::Request request;
  request.path = GetParam().path;
  request.headers.set("Host", GetParam().host);
  const auto target = parse_target(request, {"localhost", "example.com", "s3.example.com"});
  ASSERT_TRUE(target);
  EXPECT_EQ(target->bucket, GetParam().bucket);
  EXPECT_EQ(target->key, GetParam().key);
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, VirtualHost,
    testing::Values(Host{"b.localhost:8321", "/k", "b", "k"}, Host{"b.localhost", "/", "b", ""},
                    Host{"a.b.localhost", "//x%2By", "a.b", "/x+y"},
                    Host{"B.LocalHost", "/k", "b", "k"}, Host{"localhost:8321", "/b/k", "b", "k"},
                    Host{"b.s3.example.com", "/k", "b", "k"},
                    Host{"s3.example.com", "/b/k", "b", "k"},
                    Host{"127.0.0.1:8321", "/b/k", "b", "k"}, Host{"[::1]:8321", "/b/k", "b", "k"},
                    Host{".localhost", "/b/k", "b", "k"}, Host{"notlocalhost", "/b/k", "b", "k"}));

TEST(ParseTarget, RefusesBrokenEscapesAndAMissingBucket) {
  http::Request request;
  request.path = "/b/%zz";
  EXPECT_EQ(parse_target(request).error().subject, "uri");
  request.path = "//k";
  EXPECT_EQ(parse_target(request).error().subject, "name");
}

TEST(ParseTarget, KeepsTheQuery) {
  http::Request request;
  request.path = "/b";
  request.query = "uploads&prefix=a%2Fb&max-keys=7&x=";
  const auto target = parse_target(request);
  ASSERT_TRUE(target);
  EXPECT_TRUE(target->has("uploads"));
  EXPECT_FALSE(target->has("upload"));
  EXPECT_EQ(target->get("prefix"), "a/b");
  EXPECT_EQ(*target->count("max-keys", 1'000, 1'000), 7u);
  EXPECT_EQ(*target->count("missing", 5, 1'000), 5u);
  EXPECT_EQ(target->count("prefix", 1, 1).error().subject, "argument");
}

TEST(CopySource, KeepsThePlus) {
  const auto source = parse_copy_source("b/foo++bar%20x%3Fy.txt");
  ASSERT_TRUE(source);
  EXPECT_EQ(source->bucket, "b");
  EXPECT_EQ(source->key, "foo++bar x?y.txt");
  EXPECT_EQ(parse_copy_source("/b/a+b")->key, "a+b");
  EXPECT_EQ(parse_copy_source("/b/a+b?versionId=null")->key, "a+b");
}

TEST(CopySource, RefusesOtherVersionsAndHalfNames) {
  EXPECT_EQ(parse_copy_source("/b/k?versionId=3").error().subject, "version");
  EXPECT_FALSE(parse_copy_source("/b"));
  EXPECT_FALSE(parse_copy_source(""));
  EXPECT_FALSE(parse_copy_source("/b/%zz"));
}

}  // namespace
}  // namespace trainyard::store
