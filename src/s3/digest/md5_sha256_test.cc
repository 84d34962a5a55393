// SPDX-License-Identifier: Apache-2.0
#include "s3/digest/md5_sha256.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "base/encoding.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// `text` in pieces of up to `most` bytes.
Md5Sha256::Digests in_pieces(std::string_view text, std::size_t most, std::mt19937& random) {
  Md5Sha256 hash(true, nullptr);
  while (!text.empty()) {
    const std::size_t length =
        std::min(std::uniform_int_distribution<std::size_t>(0, most)(random), text.size());
    hash.update(bytes_of(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return hash.finish();
}

void expect_both(const Md5Sha256::Digests& found, std::string_view text) {
  EXPECT_EQ(found.md5, hash_of(HashKind::kMd5, text)) << text.size() << " bytes";
  EXPECT_EQ(found.sha256, hash_of(HashKind::kSha256, text)) << text.size() << " bytes";
}

TEST(Md5Sha256, GivesThePublishedDigests) {
  Md5Sha256 hash(true, nullptr);
  hash.update(bytes_of("abc"));
  const auto digests = hash.finish();
  EXPECT_EQ(to_hex(digests.md5), "900150983cd24fb0d6963f7d28e17f72");  // RFC 1321, A.5
  EXPECT_EQ(to_hex(digests.sha256),                                    // FIPS 180-4, example 1
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Md5Sha256, EqualsOpenSslsAtEveryLengthInAnyPieces) {
  std::mt19937 random(7);
  for (std::size_t length = 0; length <= 300; ++length) {
    const std::string text = long_text(length, static_cast<unsigned>(length));
    expect_both(in_pieces(text, length, random), text);
    expect_both(in_pieces(text, 70, random), text);
  }
}

TEST(Md5Sha256, EqualsOpenSslsOverLargePieces) {
  std::mt19937 random(8);
  const std::string text = long_text(1'000'003, 3);
  expect_both(in_pieces(text, 1'000'003, random), text);
  expect_both(in_pieces(text, 90'000, random), text);
}

TEST(Md5Sha256, LeavesOutTheSha256ThatNobodyWants) {
  Md5Sha256 hash(false, nullptr);
  hash.update(bytes_of("abc"));
  const auto digests = hash.finish();
  EXPECT_EQ(digests.md5, hash_of(HashKind::kMd5, "abc"));
  EXPECT_EQ(digests.sha256, "");
}

// Lanes, and whether with SHA-256.
class HashBlocks : public testing::TestWithParam<std::pair<std::size_t, bool>> {};

TEST_P(HashBlocks, LanesDoNotTouchOneAnother) {
  const auto [count, with_sha256] = GetParam();
  if (with_sha256 && !has_sha256_instructions()) {
    GTEST_SKIP() << "this processor has no instructions for SHA-256";
  }
  constexpr std::size_t kBlocks = 37;
  std::array<std::string, kMostLanes> texts;
  std::array<ChainedHashes, kMostLanes> together;
  std::array<ChainedHashes, kMostLanes> alone;
  std::array<Lane, kMostLanes> lanes;
  for (std::size_t i = 0; i < count; ++i) {
    texts[i] = long_text(kBlocks * kBlock, static_cast<unsigned>(i));
    lanes[i] = {.hashes = &together[i], .bytes = bytes_of(texts[i]).data()};
    const Lane one{.hashes = &alone[i], .bytes = lanes[i].bytes};
    hash_blocks({&one, 1}, kBlocks, with_sha256);
  }
  hash_blocks(std::span(lanes).first(count), kBlocks, with_sha256);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(together[i].md5, alone[i].md5);
    EXPECT_EQ(together[i].sha256, alone[i].sha256);
    EXPECT_NE(alone[i].md5, ChainedHashes().md5);
    EXPECT_EQ(alone[i].sha256 != ChainedHashes().sha256, with_sha256);
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, HashBlocks,
                         testing::Values(std::pair(1, false), std::pair(2, false),
                                         std::pair(3, false), std::pair(1, true),
                                         std::pair(2, true), std::pair(3, true)));

}  // namespace
}  // namespace trainyard::s3
