// SPDX-License-Identifier: Apache-2.0
// The cyclic redundancy checks that zlib lacks, for hash.cc and its test. `seed` is the result over
// the bytes before, so that a message may be fed in pieces. crc32c() itself is declared in hash.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"

namespace trainyard {

// What crc32c() falls back to on a processor without the instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t seed = 0);

std::uint64_t crc64_nvme(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace trainyard
