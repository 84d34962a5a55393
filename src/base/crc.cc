// SPDX-License-Identifier: Apache-2.0
#include "base/crc.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace trainyard {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the tables below assume it");

// Reflected ("least significant bit first") forms of the polynomials.
constexpr std::uint32_t kCrc32cPolynomial = 0x82f63b78;
constexpr std::uint64_t kCrc64NvmePolynomial = 0x9a6c9329ac4bc9b5;

// table[k][b] is the effect of byte b followed by k zero bytes, so that eight bytes take eight
// independent look-ups ("slicing by 8", Kounavis and Berry 2005).
template <typename Word>
using Tables = std::array<std::array<Word, 256>, 8>;

template <typename Word>
Tables<Word> make_tables(Word polynomial) {
  Tables<Word> tables{};
  for (std::size_t b = 0; b < 256; ++b) {
    Word crc = static_cast<Word>(b);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? crc >> 1 ^ polynomial : crc >> 1;
    }
    tables[0][b] = crc;
  }
  for (std::size_t b = 0; b < 256; ++b) {
    for (std::size_t k = 1; k < 8; ++k) {
      tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
    }
  }
  return tables;
}

template <typename Word>
Word update_by_tables(const Tables<Word>& tables, Word crc, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t block;
    std::memcpy(&block, bytes.data(), 8);
    block ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      crc ^= tables[7 - k][block >> (8 * k) & 0xff];
    }
  }
  for (const std::byte b : bytes) {
    crc = crc >> 8 ^ tables[0][(crc ^ std::to_integer<Word>(b)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
// The instruction takes three cycles and can begin each cycle, so three parts of a long message
// are summed side by side. A sum is linear in the register: what follows a part acts on it as so
// many zero bytes would, which is one look-up for each of the register's bytes (as in Gopal et al.,
// "Fast CRC computation for iSCSI polynomial using CRC32 instruction", Intel 2011).
constexpr std::size_t kLane = 1024;  // bytes of a part
using LaneShift = std::array<std::array<std::uint32_t, 256>, 4>;

__attribute__((target("sse4.2"))) LaneShift make_lane_shift() {
  LaneShift shift{};
  for (std::size_t k = 0; k < shift.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      std::uint64_t crc = std::uint64_t{b} << (8 * k);
      for (std::size_t at = 0; at < kLane; at += 8) {
        crc = _mm_crc32_u64(crc, 0);
      }
      shift[k][b] = static_cast<std::uint32_t>(crc);
    }
  }
  return shift;
}

std::uint64_t shifted(const LaneShift& shift, std::uint64_t crc) {
  return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
         shift[3][crc >> 24 & 0xff];
}

std::uint64_t block_at(const std::byte* place) {
  std::uint64_t block;
  std::memcpy(&block, place, sizeof(block));
  return block;
}

__attribute__((target("sse4.2"))) std::uint32_t update_by_instruction(
    std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint64_t wide = crc;
  if (bytes.size() >= 3 * kLane) {
    static const LaneShift kShift = make_lane_shift();
    for (; bytes.size() >= 3 * kLane; bytes = bytes.subspan(3 * kLane)) {
      std::uint64_t second = 0;
      std::uint64_t third = 0;
      for (const std::byte* at = bytes.data(); at != bytes.data() + kLane; at += 8) {
        wide = _mm_crc32_u64(wide, block_at(at));
        second = _mm_crc32_u64(second, block_at(at + kLane));
        third = _mm_crc32_u64(third, block_at(at + 2 * kLane));
      }
      wide = shifted(kShift, shifted(kShift, wide) ^ second) ^ third;
    }
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    wide = _mm_crc32_u64(wide, block_at(bytes.data()));
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (const std::byte b : bytes) {
    narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(b));
  }
  return narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t seed) {
  static const Tables<std::uint32_t> kTables = make_tables(kCrc32cPolynomial);
  return ~update_by_tables(kTables, ~seed, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) {
    return ~update_by_instruction(~seed, bytes);
  }
#endif
  return crc32c_by_tables(bytes, seed);
}

std::uint64_t crc64_nvme(std::span<const std::byte> bytes, std::uint64_t seed) {
  static const Tables<std::uint64_t> kTables = make_tables(kCrc64NvmePolynomial);
  return ~update_by_tables(kTables, ~seed, bytes);
}

}  // namespace trainyard
