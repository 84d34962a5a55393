// SPDX-License-Identifier: Apache-2.0
#include "bench/load/content.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/hash.h"

namespace trainyard::load {

std::string make_content(std::uint64_t number, std::size_t bytes) {
  std::string out(bytes, '\0');
  std::uint64_t state = number * 0xD1342543DE82EF95U;
  for (std::size_t at = 0; at < bytes; at += sizeof(state)) {
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t value = state;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    value ^= value >> 31;
    std::memcpy(out.data() + at, &value, std::min(sizeof(value), bytes - at));
  }
  return out;
}

std::vector<Content> make_contents(std::size_t distinct, std::size_t bytes, bool are_sent) {
  std::vector<Content> contents;
  for (std::size_t i = 0; i < distinct; ++i) {
    std::string made = make_content(i, bytes);
    Content content{.length = bytes, .checksum = crc32c(std::as_bytes(std::span(made)))};
    if (are_sent) {
      content.sha256 = sha256_hex(made);
      content.bytes = std::move(made);
    }
    contents.push_back(std::move(content));
  }
  return contents;
}

}  // namespace trainyard::load
