// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "base/crc.h"
#include "base/encoding.h"
#include "base/random.h"

namespace trainyard {
namespace {

std::string hex_of(HashKind kind, std::string_view text) {
  return to_hex(hash_of(kind, text));
}

struct HashCase {
  HashKind kind;
  std::string_view text;
  std::string_view hex;
};

class Hash : public testing::TestWithParam<HashCase> {};

TEST_P(Hash, AgreesWithThePublishedValue) {
  EXPECT_EQ(hex_of(GetParam().kind, GetParam().text), GetParam().hex);
}

// RFC 1321, FIPS 180-4, and the check values of the CRC catalogue over "123456789".
INSTANTIATE_TEST_SUITE_P(
    Vectors, Hash,
    testing::Values(HashCase{HashKind::kMd5, "", "d41d8cd98f00b204e9800998ecf8427e"},
                    HashCase{HashKind::kMd5, "abc", "900150983cd24fb0d6963f7d28e17f72"},
                    HashCase{HashKind::kSha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
                    HashCase{HashKind::kSha256, "",
                             "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                    HashCase{HashKind::kSha256, "abc",
                             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                    HashCase{HashKind::kCrc32, "123456789", "cbf43926"},
                    HashCase{HashKind::kCrc32c, "123456789", "e3069283"},
                    HashCase{HashKind::kCrc64Nvme, "123456789", "ae8b14860a799888"},
                    HashCase{HashKind::kCrc32, "", "00000000"},
                    HashCase{HashKind::kCrc32c, "", "00000000"},
                    HashCase{HashKind::kCrc64Nvme, "", "0000000000000000"}));

// RFC 3720 §B.4.
TEST(Crc32c, AgreesWithTheIscsiVectors) {
  EXPECT_EQ(hex_of(HashKind::kCrc32c, std::string(32, '\0')), "8a9136aa");
  EXPECT_EQ(hex_of(HashKind::kCrc32c, std::string(32, '\xff')), "62a8ab43");
}

class HashInPieces : public testing::TestWithParam<HashKind> {};

TEST_P(HashInPieces, EqualsTheHashOfTheWhole) {
  SeededRandom random(7);
  std::string text(4099, '\0');
  random.fill(std::as_writable_bytes(std::span(text)));
  Hasher hasher(GetParam());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(random.next() % 40, text.size() - at);
    hasher.update(std::string_view(text).substr(at, size));
    at += size;
  }
  EXPECT_EQ(hasher.finish(), hash_of(GetParam(), text));
}

INSTANTIATE_TEST_SUITE_P(Kinds, HashInPieces,
                         testing::Values(HashKind::kMd5, HashKind::kSha1, HashKind::kSha256,
                                         HashKind::kCrc32, HashKind::kCrc32c,
                                         HashKind::kCrc64Nvme));

TEST(Crc32c, IsTheSameByInstructionAndByTables) {
  SeededRandom random(3);
  std::string text(20'000, '\0');
  random.fill(std::as_writable_bytes(std::span(text)));
  const auto bytes = std::as_bytes(std::span(text));
  // Every length up to 200, then those around which long messages are cut in parts.
  for (std::size_t size = 0; size < text.size(); size += size < 200 || size % 1024 < 9 ? 1 : 7) {
    EXPECT_EQ(crc32c(bytes.first(size), 5), crc32c_by_tables(bytes.first(size), 5)) << size;
  }
}

// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
TEST(HmacSha256, AgreesWithTheStandardsVectors) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HasherDeathTest, RefusesASecondEnd) {
  Hasher hasher(HashKind::kSha256);
  static_cast<void>(hasher.finish());
  EXPECT_DEATH(static_cast<void>(hasher.finish()), "finish\\(\\) is called once");
}

TEST(EqualInConstantTime, ComparesContentAndLength) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("token", "token"));
  EXPECT_FALSE(equal_in_constant_time("token", "tokem"));
  EXPECT_FALSE(equal_in_constant_time("token", "toke"));
}

// A comparison that stops at the first difference is thousands of times faster here.
TEST(EqualInConstantTime, TakesAsLongWhereverTheDifferenceIs) {
  const std::string secret(262'144, 'a');
  std::string guess = secret;
  const auto shortest_time = [&] {
    const bool are_equal = guess == secret;
    auto shortest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(equal_in_constant_time(secret, guess), are_equal);
      shortest = std::min(shortest, std::chrono::steady_clock::now() - start);
    }
    return shortest;
  };
  const auto of_equal = shortest_time();
  guess.front() = 'b';
  EXPECT_GT(shortest_time() * 4, of_equal);
}

}  // namespace
}  // namespace trainyard
