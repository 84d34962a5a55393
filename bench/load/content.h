// SPDX-License-Identifier: Apache-2.0
// The bytes of the objects that are put, served and checked: each content follows from its number
// alone, so the one who reads needs nothing of the one who has written. They do not compress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::load {

// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators) from `number`,
// its values as little-endian bytes.
std::string make_content(std::uint64_t number, std::size_t bytes);

struct Content {
  std::size_t length = 0;
  std::uint32_t checksum = 0;  // crc32c
  std::string bytes = {};      // only of those that are sent
  std::string sha256 = {};     // hex; only of those that are sent
};

// Contents 0 to distinct - 1.
std::vector<Content> make_contents(std::size_t distinct, std::size_t bytes, bool are_sent);

}  // namespace trainyard::load
