// SPDX-License-Identifier: Apache-2.0
// The 64 bits by which a message finds the receive that waits for it. Each message has one of its
// own, so nothing is expected of a provider's order; and who does not know the world's secret meets
// no receive.
//
//   63          40 39  38 37        22 21                 0
//   +-------------+------+------------+--------------------+
//   | world       | kind | from rank  | number of its kind |
//   +-------------+------+------------+--------------------+
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace trainyard::comm {

enum class TagKind : std::uint64_t { kMessage = 0, kCredit = 1, kGoodbye = 2 };

inline constexpr std::int32_t kMaxTagRanks = 1 << 16;

inline std::uint64_t world_of_tag(std::string_view secret) {
  return crc32c(std::as_bytes(std::span(secret))) & 0xff'ffffU;
}

// Numbers come round again; far fewer are under way.
inline std::uint64_t tag_of(std::uint64_t world, TagKind kind, std::int32_t from,
                            std::uint64_t number) {
  return world << 40 | static_cast<std::uint64_t>(kind) << 38 |
         static_cast<std::uint64_t>(from) << 22 | (number & 0x3f'ffffU);
}

}  // namespace trainyard::comm
