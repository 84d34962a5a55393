// SPDX-License-Identifier: Apache-2.0
// The running MD5 of one message and, where it is wanted, its SHA-256, from one look at each byte:
// what every body of an S3 store needs. Large pieces are hashed beside those of other messages when
// there is a HashLanes that they share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"
#include "s3/digest/blocks.h"
#include "s3/digest/hash_lanes.h"

namespace trainyard::s3 {

class Md5Sha256 {
 public:
  // `lanes` may be null and is borrowed for life.
  Md5Sha256(bool with_sha256, HashLanes* lanes);

  void update(std::span<const std::byte> bytes);

  struct Digests {
    std::string md5;     // 16 raw bytes
    std::string sha256;  // 32 raw bytes; empty unless it was wanted
  };
  // Call once, after the last byte.
  Digests finish();

 private:
  void hash(const std::byte* bytes, std::size_t blocks);

  HashLanes* const lanes_;
  const bool with_sha256_;             // by the blocks' own way
  std::optional<Hasher> sha256_ = {};  // where the processor has no instructions for it
  ChainedHashes hashes_ = {};
  std::uint64_t size_ = 0;
  // The last (size_ % kBlock) bytes, which are not hashed yet; finish() pads them.
  std::array<std::byte, 2 * kBlock> rest_ = {};
};

}  // namespace trainyard::s3
