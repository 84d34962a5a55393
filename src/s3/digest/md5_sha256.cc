// SPDX-License-Identifier: Apache-2.0
#include "s3/digest/md5_sha256.h"

#include <algorithm>

namespace trainyard::s3 {
namespace {

constexpr std::size_t kLengthBytes = 8;

// The 64 bits of a length at the end of the last block: MD5 has its lowest byte first, SHA-256 its
// highest.
void put_length(std::byte* place, std::uint64_t bits, bool lowest_first) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    const std::size_t shift = 8 * (lowest_first ? i : kLengthBytes - 1 - i);
    place[i] = static_cast<std::byte>(bits >> shift & 0xff);
  }
}

template <std::size_t kWords>
std::string text_of(const std::array<std::uint32_t, kWords>& words, bool lowest_first) {
  std::string text;
  for (const std::uint32_t word : words) {
    for (int i = 0; i < 4; ++i) {
      text.push_back(static_cast<char>(word >> 8 * (lowest_first ? i : 3 - i) & 0xff));
    }
  }
  return text;
}

}  // namespace

Md5Sha256::Md5Sha256(bool with_sha256, HashLanes* lanes)
    : lanes_(lanes), with_sha256_(with_sha256 && has_sha256_instructions()) {
  if (with_sha256 && !with_sha256_) {
    sha256_.emplace(HashKind::kSha256);
  }
}

void Md5Sha256::hash(const std::byte* bytes, std::size_t blocks) {
  const Lane lane{.hashes = &hashes_, .bytes = bytes};
  if (lanes_ != nullptr && blocks >= HashLanes::kWorthSharing / kBlock) {
    lanes_->hash(lane, blocks, with_sha256_);
  } else {
    hash_blocks({&lane, 1}, blocks, with_sha256_);
  }
}

void Md5Sha256::update(std::span<const std::byte> bytes) {
  if (sha256_) {
    sha256_->update(bytes);
  }
  const std::size_t held = size_ % kBlock;
  size_ += bytes.size();
  if (held > 0) {
    const auto fills = bytes.first(std::min(kBlock - held, bytes.size()));
    std::ranges::copy(fills, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(fills.size());
    if (held + fills.size() < kBlock) {
      return;
    }
    hash(rest_.data(), 1);
  }
  const std::size_t blocks = bytes.size() / kBlock;
  if (blocks > 0) {
    hash(bytes.data(), blocks);
  }
  std::ranges::copy(bytes.subspan(blocks * kBlock), rest_.begin());
}

// Padding as in RFC 1321, 3.1 and 3.2, and FIPS 180-4, 5.1.1: a one bit, zeros, the length. They
// differ in the order of the length's bytes, so each hash has a last block of its own.
Md5Sha256::Digests Md5Sha256::finish() {
  const std::size_t held = size_ % kBlock;
  const std::size_t blocks = held + 1 + kLengthBytes <= kBlock ? 1 : 2;
  std::fill(rest_.begin() + static_cast<std::ptrdiff_t>(held), rest_.end(), std::byte{0});
  rest_[held] = std::byte{0x80};
  std::byte* const length = rest_.data() + blocks * kBlock - kLengthBytes;
  ChainedHashes before = hashes_;
  put_length(length, size_ * 8, true);
  hash(rest_.data(), blocks);
  Digests digests{.md5 = text_of(hashes_.md5, true), .sha256 = {}};
  if (sha256_) {
    digests.sha256 = sha256_->finish();
  } else if (with_sha256_) {
    std::swap(hashes_, before);
    put_length(length, size_ * 8, false);
    hash(rest_.data(), blocks);
    digests.sha256 = text_of(hashes_.sha256, false);
  }
  return digests;
}

}  // namespace trainyard::s3
