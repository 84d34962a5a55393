// SPDX-License-Identifier: Apache-2.0
// MD5 and SHA-256 of whole blocks, both in one pass and of up to three messages side by side. Each
// step of MD5 waits for the one before, so one message leaves most of a processor's units idle: the
// SHA-256 of the same bytes, and a second message, fit into the gaps and take no time of their own.
// A third takes a third more. For md5_sha256.h and lanes.h; pads nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard::s3 {

inline constexpr std::size_t kBlock = 64;  // bytes, of both
inline constexpr std::size_t kMostLanes = 3;

// The chaining values, as they begin: RFC 1321, 3.3, and FIPS 180-4, 5.3.3.
struct ChainedHashes {
  std::array<std::uint32_t, 4> md5 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::array<std::uint32_t, 8> sha256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

// A message on its way. Borrows both.
struct Lane {
  ChainedHashes* hashes = nullptr;
  const std::byte* bytes = nullptr;
};

// Whether the processor has instructions for SHA-256; only with them can it be asked for here.
bool has_sha256_instructions();

// The next `blocks` blocks of each of one to kMostLanes lanes.
void hash_blocks(std::span<const Lane> lanes, std::size_t blocks, bool with_sha256);

}  // namespace trainyard::s3
