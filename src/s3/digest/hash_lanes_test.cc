// SPDX-License-Identifier: Apache-2.0
#include "s3/digest/hash_lanes.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "base/thread.h"
#include "s3/digest/md5_sha256.h"
#include "testing/s3_support.h"

namespace trainyard::s3 {
namespace {

// Bodies of different lengths, each hashed by a thread of its own, in pieces as a store reads them.
struct HashLanesTest : testing::TestWithParam<std::size_t> {
  static constexpr std::size_t kThreads = 7;
  static constexpr std::size_t kPiece = std::size_t{96} << 10;

  static std::string text_of(std::size_t thread) {
    return long_text((std::size_t{1} << 20) + thread * 200'003, static_cast<unsigned>(thread));
  }
  static Md5Sha256::Digests hash(std::string_view text, bool with_sha256, HashLanes& lanes) {
    Md5Sha256 hash(with_sha256, &lanes);
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), kPiece))) {
      hash.update(std::as_bytes(std::span(text.substr(0, kPiece))));
    }
    return hash.finish();
  }
};

TEST_P(HashLanesTest, GiveEachThreadItsOwnDigests) {
  HashLanes lanes(GetParam());
  std::array<Md5Sha256::Digests, kThreads> found;
  std::latch begin(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.push_back(start_thread("hash", [&, i](const std::stop_token&) {
        const std::string text = text_of(i);
        begin.arrive_and_wait();
        found[i] = hash(text, i % 2 == 0, lanes);
      }));
    }
  }
  for (std::size_t i = 0; i < kThreads; ++i) {
    const std::string text = text_of(i);
    EXPECT_EQ(found[i].md5, hash_of(HashKind::kMd5, text)) << "of thread " << i;
    EXPECT_EQ(found[i].sha256, i % 2 == 0 ? hash_of(HashKind::kSha256, text) : "")
        << "of thread " << i;
  }
}

TEST_P(HashLanesTest, LetAThreadThatIsAloneHash) {
  HashLanes lanes(GetParam());
  const std::string text = text_of(1);
  EXPECT_EQ(hash(text, true, lanes).md5, hash_of(HashKind::kMd5, text));
  EXPECT_EQ(hash(text, true, lanes).md5, hash_of(HashKind::kMd5, text));
}

INSTANTIATE_TEST_SUITE_P(Processors, HashLanesTest, testing::Values(0, 1, 2, 64));

}  // namespace
}  // namespace trainyard::s3
