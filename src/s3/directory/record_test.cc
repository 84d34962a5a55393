// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/record.h"

#include <gtest/gtest.h>

namespace trainyard::s3 {
namespace {

TEST(Record, KeepsEveryByteOfHeadersAndChecksums) {
  const ObjectInfo info{
      .key = "k",
      .etag = "e",
      .content_type = "text/plain; charset=\"utf-8\"",
      .headers = {{"x-amz-meta-a", "x y\nz \xFF+%"}, {"Expires", ""}},
      .checksums = {{.kind = HashKind::kCrc32, .base64 = "AAAA-3", .composite = true},
                    {.kind = HashKind::kSha256, .base64 = "a/b+c="}}};
  ObjectInfo back;
  ASSERT_TRUE(decode_description(encode_description(info), back));
  EXPECT_EQ(back.content_type, info.content_type);
  EXPECT_EQ(back.headers, info.headers);
  ASSERT_EQ(back.checksums.size(), 2u);
  EXPECT_TRUE(back.checksums[0].composite);
  EXPECT_FALSE(back.checksums[1].composite);
  EXPECT_EQ(back.checksums[1].base64, "a/b+c=");
}

TEST(Record, KeepsPartsInOneLineForThoseThatAreAlike) {
  ObjectInfo info{.key = "k", .etag = "e"};
  info.parts.assign(9'999, {.size = std::uint64_t{8} << 20});
  info.parts.push_back({.size = 0});
  const std::string text = encode_description(info);
  EXPECT_EQ(text, "p 8388608 9999\np 0 1\n");
  ObjectInfo back;
  ASSERT_TRUE(decode_description(text, back));
  ASSERT_EQ(back.parts.size(), 10'000u);
  EXPECT_EQ(back.parts[9'998].size, std::uint64_t{8} << 20);
  EXPECT_EQ(back.parts[9'999].size, 0u);
}

TEST(Record, KeepsTheChecksumsOfParts) {
  const Checksum first{.kind = HashKind::kCrc32, .base64 = "AAAA"};
  const Checksum second{.kind = HashKind::kCrc32, .base64 = "a/b+c="};
  ObjectInfo info{.key = "k", .etag = "e"};
  info.parts = {{.size = 5, .checksums = {first}}, {.size = 5, .checksums = {second}}};
  ObjectInfo back;
  ASSERT_TRUE(decode_description(encode_description(info), back));
  ASSERT_EQ(back.parts.size(), 2u);
  EXPECT_EQ(back.parts[0].checksums.at(0).base64, "AAAA");
  EXPECT_EQ(back.parts[1].checksums.at(0).base64, "a/b+c=");
}

TEST(Record, IsReadWithoutItsPartsWhenNobodyAsksForThem) {
  ObjectInfo info{.key = "k", .etag = "e"};
  info.parts = {{.size = 5}, {.size = 7}};
  ObjectInfo bare;
  ASSERT_TRUE(decode_description(encode_description(info), bare, Parts::kSkip));
  EXPECT_TRUE(bare.parts.empty());
  info.headers = {{"x-amz-meta-p", "p 5 2"}};
  info.checksums = {{.kind = HashKind::kCrc32, .base64 = "AAAA"}};
  ObjectInfo back;
  ASSERT_TRUE(decode_description(encode_description(info) + "p not looked at", back, Parts::kSkip));
  EXPECT_EQ(back.headers, info.headers);
  EXPECT_EQ(back.checksums.size(), 1u);
  EXPECT_TRUE(back.parts.empty());
}

TEST(Record, GivesItsChecksumsAlone) {
  ObjectInfo info{.key = "k", .etag = "e", .content_type = "c CRC32 AAAA"};
  info.headers = {{"x-amz-meta-c", "c\nc CRC32 BBBB"}};
  info.checksums = {{.kind = HashKind::kCrc32c, .base64 = "a/b+c=-2", .composite = true}};
  info.parts = {{.size = 5, .checksums = {{.kind = HashKind::kSha1, .base64 = "CCCC"}}}};
  const auto found = described_checksums(encode_description(info));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().kind, HashKind::kCrc32c);
  EXPECT_TRUE(found->front().composite);
  EXPECT_TRUE(described_checksums("")->empty());
}

TEST(Record, KeepsWhatAnUploadWasCreatedWith) {
  const PutOptions options{.content_type = "a/b",
                           .headers = {{"x-amz-meta-a", "1"}},
                           .compute = {HashKind::kCrc64Nvme},
                           .only_if_absent = true,
                           .full_object_checksum = true};
  const auto back = decode_options(encode_options(options));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->content_type, "a/b");
  EXPECT_EQ(back->headers, options.headers);
  EXPECT_EQ(back->compute, options.compute);
  EXPECT_TRUE(back->only_if_absent);
  EXPECT_TRUE(back->full_object_checksum);
}

TEST(Record, RefusesALineThatItDoesNotKnow) {
  EXPECT_EQ(decode_options("z 1\n").error().code, Code::kCorrupt);
  for (const char* line : {"p 1\n", "p x 1\n", "p 1 0\n", "p 1 10001\n", "p 1 1 CRC32\n"}) {
    ObjectInfo info;
    EXPECT_EQ(decode_description(line, info).error().code, Code::kCorrupt) << line;
  }
  EXPECT_EQ(decode_checksums("c NOHASH abc\n").error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace trainyard::s3
