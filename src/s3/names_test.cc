// SPDX-License-Identifier: Apache-2.0
#include "s3/names.h"

#include <gtest/gtest.h>

#include "s3/object_store.h"

namespace trainyard::s3 {
namespace {

class BadBucketName : public testing::TestWithParam<std::string> {};

TEST_P(BadBucketName, IsRefused) {
  const auto checked = check_bucket_name(GetParam());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().subject, "name");
}

INSTANTIATE_TEST_SUITE_P(Names, BadBucketName,
                         testing::Values("", "ab", std::string(64, 'a'), "Upper", "a_b", "-abc",
                                         "abc-", ".abc", "abc.", "a..b", "192.168.1.1", "a/b",
                                         "caf\xC3\xA9"));

TEST(BucketName, AllowsWhatS3Allows) {
  for (const char* name : {"abc", "a-b.c", "1bucket1", "192.168.1.x"}) {
    EXPECT_TRUE(check_bucket_name(name)) << name;
  }
  EXPECT_TRUE(check_bucket_name(std::string(63, 'a')));
}

TEST(Key, HasUpTo1024BytesOfUtf8) {
  EXPECT_TRUE(check_key(std::string(1'024, 'k')));
  EXPECT_EQ(check_key(std::string(1'025, 'k')).error().subject, "key-length");
  EXPECT_EQ(check_key("").error().subject, "key");
  EXPECT_EQ(check_key("\xFF").error().subject, "key");
}

TEST(Uri, SplitsAtTheFirstSlashOnly) {
  const auto uri = parse_uri("s3://b/a//c/");
  ASSERT_TRUE(uri);
  EXPECT_EQ(uri->bucket, "b");
  EXPECT_EQ(uri->key, "a//c/");
  EXPECT_EQ(to_string(*uri), "s3://b/a//c/");
  EXPECT_EQ(parse_uri("s3://b")->key, "");
  EXPECT_FALSE(parse_uri("S3://b/k"));
  EXPECT_FALSE(parse_uri("https://b/k"));
  EXPECT_FALSE(parse_uri("s3:///k"));
}

TEST(CommonPrefix, EndsWithTheFirstDelimiterBehindThePrefix) {
  EXPECT_EQ(common_prefix_of("a/b/c", "a/", "/"), "a/b/");
  EXPECT_EQ(common_prefix_of("a/b/c", "", "/"), "a/");
  EXPECT_EQ(common_prefix_of("a/b--c", "", "--"), "a/b--");
  EXPECT_EQ(common_prefix_of("a/b", "a/", "/"), "");
  EXPECT_EQ(common_prefix_of("a/b", "", ""), "");
  EXPECT_EQ(common_prefix_of("x/y", "a/", "/"), "");
}

}  // namespace
}  // namespace trainyard::s3
