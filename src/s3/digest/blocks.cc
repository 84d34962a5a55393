// SPDX-License-Identifier: Apache-2.0
// MD5 as in RFC 1321, SHA-256 as in FIPS 180-4 by the instructions of Intel's "SHA Extensions"
// (2013). Everything is unrolled by templates: each step names its message words, constants and
// registers while it is compiled, which is what lets the steps of several messages overlap.
#include "s3/digest/blocks.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace trainyard::s3 {
namespace {

static_assert(std::endian::native == std::endian::little, "MD5 reads its words as they lie");

using Word = std::uint32_t;
using Md5 = std::array<Word, 4>;

// floor(2^32 * |sin(i + 1)|)
constexpr std::array<Word, 64> kSines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

constexpr std::array<std::array<int, 4>, 4> kTurns = {
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

constexpr std::size_t word_of_step(std::size_t step) {
  constexpr std::array<std::size_t, 4> kFactor = {1, 5, 3, 7};
  constexpr std::array<std::size_t, 4> kFirst = {0, 1, 5, 0};
  return (kFactor[step / 16] * step + kFirst[step / 16]) % 16;
}

template <std::size_t kStep>
[[gnu::always_inline]] inline void md5_step(Md5& s, const std::byte* block) {
  constexpr std::size_t kRound = kStep / 16;
  Word& a = s[(64 - kStep) % 4];
  const Word b = s[(65 - kStep) % 4];
  const Word c = s[(66 - kStep) % 4];
  const Word d = s[(67 - kStep) % 4];
  Word message;
  std::memcpy(&message, block + sizeof(Word) * word_of_step(kStep), sizeof message);
  a += message + kSines[kStep];
  if constexpr (kRound == 0) {
    a += d ^ (b & (c ^ d));
  } else if constexpr (kRound == 1) {
    a += c & ~d;  // apart from the other half, with which it has no bit in common: b is late
    a += b & d;
  } else if constexpr (kRound == 2) {
    a += b ^ (c ^ d);
  } else {
    a += c ^ (b | ~d);
  }
  a = std::rotl(a, kTurns[kRound][kStep % 4]) + b;
}

// Four of the 64 steps, of each lane in turn.
template <std::size_t kGroup, std::size_t... kLane>
[[gnu::always_inline]] inline void md5_steps(Md5* md5, const std::byte* const* at,
                                             std::index_sequence<kLane...>) {
  (md5_step<4 * kGroup>(md5[kLane], at[kLane]), ...);
  (md5_step<4 * kGroup + 1>(md5[kLane], at[kLane]), ...);
  (md5_step<4 * kGroup + 2>(md5[kLane], at[kLane]), ...);
  (md5_step<4 * kGroup + 3>(md5[kLane], at[kLane]), ...);
}

[[gnu::always_inline]] inline void add(Md5& sum, const Md5& more) {
  sum = {sum[0] + more[0], sum[1] + more[1], sum[2] + more[2], sum[3] + more[3]};
}

template <std::size_t... kLane>
void md5_blocks(std::span<const Lane> lanes, std::size_t blocks,
                std::index_sequence<kLane...> all) {
  Md5 md5[] = {lanes[kLane].hashes->md5...};
  const std::byte* at[] = {lanes[kLane].bytes...};
  for (; blocks > 0; --blocks) {
    const Md5 before[] = {md5[kLane]...};
    [&]<std::size_t... kGroup>(std::index_sequence<kGroup...>) {
      (md5_steps<kGroup>(md5, at, all), ...);
    }
    (std::make_index_sequence<16>());
    (add(md5[kLane], before[kLane]), ...);
    ((at[kLane] += kBlock), ...);
  }
  ((lanes[kLane].hashes->md5 = md5[kLane]), ...);
}

#if defined(__x86_64__)
// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<Word, 64> kCubeRoots = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The eight chaining values as the instructions want them, and the last 16 words of the schedule.
struct Sha256 {
  __m128i abef;
  __m128i cdgh;
  __m128i words[4];
};

// Four of the 64 rounds: two by each of two instructions.
template <std::size_t kGroup>
[[gnu::always_inline, gnu::target("sha,sse4.1")]] inline void sha256_rounds(
    Sha256& s, const std::byte* block) {
  __m128i& w = s.words[kGroup % 4];
  if constexpr (kGroup < 4) {
    const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    w = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + kGroup),
                         to_big_endian);
  } else {
    const __m128i before = s.words[(kGroup + 3) % 4];
    const __m128i seven_before = _mm_alignr_epi8(before, s.words[(kGroup + 2) % 4], 4);
    w = _mm_sha256msg1_epu32(w, s.words[(kGroup + 1) % 4]);
    w = _mm_sha256msg2_epu32(_mm_add_epi32(w, seven_before), before);
  }
  const __m128i* const constants = reinterpret_cast<const __m128i*>(kCubeRoots.data()) + kGroup;
  const __m128i sum = _mm_add_epi32(w, _mm_load_si128(constants));
  s.cdgh = _mm_sha256rnds2_epu32(s.cdgh, s.abef, sum);
  s.abef = _mm_sha256rnds2_epu32(s.abef, s.cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

template <std::size_t kGroup, std::size_t... kLane>
[[gnu::always_inline, gnu::target("sha,sse4.1")]] inline void steps_of_both(
    Md5* md5, Sha256* sha256, const std::byte* const* at, std::index_sequence<kLane...> all) {
  md5_steps<kGroup>(md5, at, all);
  (sha256_rounds<kGroup>(sha256[kLane], at[kLane]), ...);
}

template <std::size_t... kLane, std::size_t... kGroup>
[[gnu::always_inline, gnu::target("sha,sse4.1")]] inline void block_of_both(
    Md5* md5, Sha256* sha256, const std::byte* const* at, std::index_sequence<kLane...> all,
    std::index_sequence<kGroup...>) {
  const Md5 md5_before[] = {md5[kLane]...};
  const __m128i abef[] = {sha256[kLane].abef...};
  const __m128i cdgh[] = {sha256[kLane].cdgh...};
  (steps_of_both<kGroup>(md5, sha256, at, all), ...);
  (add(md5[kLane], md5_before[kLane]), ...);
  ((sha256[kLane].abef = _mm_add_epi32(sha256[kLane].abef, abef[kLane])), ...);
  ((sha256[kLane].cdgh = _mm_add_epi32(sha256[kLane].cdgh, cdgh[kLane])), ...);
}

__m128i four(Word highest, Word high, Word low, Word lowest) {
  return _mm_set_epi32(static_cast<int>(highest), static_cast<int>(high), static_cast<int>(low),
                       static_cast<int>(lowest));
}

Sha256 load(const std::array<Word, 8>& h) {
  return {.abef = four(h[0], h[1], h[4], h[5]), .cdgh = four(h[2], h[3], h[6], h[7]), .words = {}};
}

void store(const Sha256& from, std::array<Word, 8>& h) {
  alignas(16) std::array<Word, 4> abef;
  alignas(16) std::array<Word, 4> cdgh;
  _mm_store_si128(reinterpret_cast<__m128i*>(abef.data()), from.abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(cdgh.data()), from.cdgh);
  h = {abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]};
}

template <std::size_t... kLane>
[[gnu::target("sha,sse4.1")]] void blocks_of_both(std::span<const Lane> lanes, std::size_t blocks,
                                                  std::index_sequence<kLane...> all) {
  Md5 md5[] = {lanes[kLane].hashes->md5...};
  Sha256 sha256[] = {load(lanes[kLane].hashes->sha256)...};
  const std::byte* at[] = {lanes[kLane].bytes...};
  for (; blocks > 0; --blocks) {
    block_of_both(md5, sha256, at, all, std::make_index_sequence<16>());
    ((at[kLane] += kBlock), ...);
  }
  ((lanes[kLane].hashes->md5 = md5[kLane]), ...);
  (store(sha256[kLane], lanes[kLane].hashes->sha256), ...);
}
#endif

template <std::size_t kLanes>
void hash(std::span<const Lane> lanes, std::size_t blocks, bool with_sha256) {
  constexpr auto kAll = std::make_index_sequence<kLanes>();
#if defined(__x86_64__)
  if (with_sha256) {
    return blocks_of_both(lanes, blocks, kAll);
  }
#endif
  YARD_CHECK(!with_sha256, "SHA-256 is asked for where the processor has it");
  md5_blocks(lanes, blocks, kAll);
}

}  // namespace

bool has_sha256_instructions() {
#if defined(__x86_64__)
  // __builtin_cpu_supports() of g++ 12 does not know them: leaf 7, EBX, bit 29.
  static const bool kHas = [] {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 &&
           __builtin_cpu_supports("sse4.1") != 0;
  }();
  return kHas;
#else
  return false;
#endif
}

void hash_blocks(std::span<const Lane> lanes, std::size_t blocks, bool with_sha256) {
  switch (lanes.size()) {
    case 1:
      return hash<1>(lanes, blocks, with_sha256);
    case 2:
      return hash<2>(lanes, blocks, with_sha256);
    default:
      YARD_CHECK(lanes.size() == kMostLanes, "one to three messages are hashed side by side");
      return hash<3>(lanes, blocks, with_sha256);
  }
}

}  // namespace trainyard::s3
