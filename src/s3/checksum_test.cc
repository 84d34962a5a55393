// SPDX-License-Identifier: Apache-2.0
#include "s3/checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

void feed(Digester& digester, std::string_view text) {
  digester.update(std::as_bytes(std::span(text)));
}

TEST(Checksum, NamesAreThoseOfTheWire) {
  EXPECT_EQ(checksum_header(HashKind::kCrc64Nvme), "x-amz-checksum-crc64nvme");
  EXPECT_EQ(checksum_kind("crc32c"), HashKind::kCrc32c);
  EXPECT_EQ(checksum_kind_of_header("X-Amz-Checksum-SHA1"), HashKind::kSha1);
  EXPECT_EQ(checksum_kind_of_header("x-amz-checksum-mode"), std::nullopt);
}

class CombineCrc : public testing::TestWithParam<HashKind> {};

TEST_P(CombineCrc, GivesTheCrcOfBothTogether) {
  const std::string a = long_text(1'237, 1);
  const std::string b = long_text(70'001, 2);
  const HashKind kind = GetParam();
  EXPECT_EQ(combine_crc(kind, hash_of(kind, a), hash_of(kind, b), b.size()), hash_of(kind, a + b));
  EXPECT_EQ(combine_crc(kind, hash_of(kind, a), hash_of(kind, ""), 0), hash_of(kind, a));
  EXPECT_EQ(combine_crc(kind, hash_of(kind, ""), hash_of(kind, b), b.size()), hash_of(kind, b));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CombineCrc,
                         testing::Values(HashKind::kCrc32, HashKind::kCrc32c,
                                         HashKind::kCrc64Nvme));

TEST(MultipartChecksum, IsTheOneThatStockClientsCompute) {
  // Three parts of "a", "b", "c": base64(crc32(crc32(a) crc32(b) crc32(c)))-3, by Python's zlib.
  std::vector<PartInfo> parts;
  for (const std::string text : {"a", "b", "c"}) {
    parts.push_back({.number = static_cast<int>(parts.size()) + 1,
                     .size = 1,
                     .etag = to_hex(hash_of(HashKind::kMd5, text)),
                     .checksums = {{.kind = HashKind::kCrc32,
                                    .base64 = to_base64(hash_of(HashKind::kCrc32, text))}}});
  }
  EXPECT_EQ(multipart_etag(parts), "4054c6f7787ecb7b323323155b0c0583-3");
  EXPECT_EQ(multipart_checksum(HashKind::kCrc32, false, parts).value_or(Checksum{}).base64,
            "shNd4w==-3");
  EXPECT_EQ(multipart_checksum(HashKind::kCrc32, true, parts).value_or(Checksum{}).base64,
            to_base64(hash_of(HashKind::kCrc32, "abc")));
  EXPECT_FALSE(multipart_checksum(HashKind::kSha1, false, parts).has_value());
}

TEST(Digester, GivesSizeMd5AndEveryChecksumAskedFor) {
  const PutOptions options{.compute = {HashKind::kCrc32c, HashKind::kSha256}};
  Digester digester(options);
  feed(digester, "hello ");
  feed(digester, "world");
  const auto digests = digester.finish();
  ASSERT_TRUE(digests);
  EXPECT_EQ(digests->size, 11u);
  EXPECT_EQ(digests->md5_hex, "5eb63bbbe01eeed093cb22bb8f5acdc3");
  ASSERT_EQ(digests->checksums.size(), 2u);
  EXPECT_EQ(digests->checksums[0].base64, to_base64(hash_of(HashKind::kCrc32c, "hello world")));
}

struct Refusal {
  const char* what;
  PutOptions options;
  const char* subject;
};

class DigesterRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(DigesterRefuses, ABodyThatIsNotWhatWasPromised) {
  Digester digester(GetParam().options);
  feed(digester, "text");
  const auto digests = digester.finish();
  ASSERT_FALSE(digests);
  EXPECT_EQ(digests.error().code, Code::kInvalidArgument);
  EXPECT_EQ(digests.error().subject, GetParam().subject);
}

INSTANTIATE_TEST_SUITE_P(
    Promises, DigesterRefuses,
    testing::Values(
        Refusal{"length", {.length = 5}, "length"},
        Refusal{"md5", {.expected_md5 = std::string(16, 'x')}, "digest"},
        Refusal{"sha256", {.expected_sha256 = sha256_hex("other")}, "payload-hash"},
        Refusal{"crc", {.expected = {{.kind = HashKind::kCrc32, .base64 = "AAAAAA=="}}}, "digest"},
        Refusal{"late",
                {.compute = {HashKind::kCrc32},
                 .expected_at_end =
                     [] {
                       return Result<std::vector<Checksum>>(
                           std::vector<Checksum>{{.kind = HashKind::kCrc32, .base64 = "AAAAAA=="}});
                     }},
                "digest"},
        Refusal{"late and unannounced",
                {.expected_at_end =
                     [] {
                       return Result<std::vector<Checksum>>(
                           std::vector<Checksum>{{.kind = HashKind::kCrc32, .base64 = "AAAAAA=="}});
                     }},
                "digest"}),
    [](const auto& refusal) {
      std::string name = refusal.param.what;
      std::ranges::replace(name, ' ', '_');
      return name;
    });

}  // namespace
}  // namespace trainyard::s3
