// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/casts.h"

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace trainyard::comm {
namespace {

// No branches, so that compilers make vectors of the loops below.
constexpr std::uint32_t kHalf = 0x3f000000;          // 0.5f
constexpr std::uint32_t kRebias = (127 - 15) << 23;  // of the exponent, binary32 to binary16

struct Half {
  // Adding 0.5 rounds to 2^-24, a subnormal half's unit.
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - kHalf;
    const std::uint32_t normal = (magnitude - kRebias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const std::uint32_t limit = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    const std::uint32_t finite = magnitude < 0x38800000 ? small : normal;    // 2^-14
    const std::uint32_t rounded = magnitude >= 0x47800000 ? limit : finite;  // 2^16
    return static_cast<std::uint16_t>(rounded | (bits >> 16 & 0x8000));
  }
  static float widen(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffU;
    const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + kHalf) - 0.5F);
    const std::uint32_t normal = (magnitude << 13) + kRebias;
    const std::uint32_t finite = magnitude < 0x400 ? small : normal;
    const std::uint32_t all = magnitude >= 0x7c00 ? normal + kRebias : finite;
    return std::bit_cast<float>(all | (half & 0x8000U) << 16);
  }
};

struct Brain {
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<std::uint16_t>(is_nan ? 0x7fc0U : rounded);
  }
  static float widen(std::uint16_t brain) {
    return std::bit_cast<float>(std::uint32_t{brain} << 16);
  }
};

template <typename Format>
void narrow_all(std::span<const float> values, std::byte* bytes) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t small = Format::narrow(values[i]);
    std::memcpy(bytes + i * sizeof(small), &small, sizeof(small));
  }
}

template <typename Format>
void widen_all(const std::byte* bytes, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t small;
    std::memcpy(&small, bytes + i * sizeof(small), sizeof(small));
    values[i] = Format::widen(small);
  }
}

#if defined(__x86_64__)
constexpr std::size_t kEight = 8;

bool has_eights() {
  static const bool kHas = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return kHas;
}

// By the processor's own instructions, all but the last few; returns how many.
__attribute__((target("avx,f16c"))) std::size_t narrow_eights(std::span<const float> values,
                                                              std::byte* bytes) {
  const std::size_t count = values.size() / kEight * kEight;
  for (std::size_t at = 0; at < count; at += kEight) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values.data() + at),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * at), half);
  }
  return count;
}

__attribute__((target("avx,f16c"))) std::size_t widen_eights(const std::byte* bytes,
                                                             std::span<float> values) {
  const std::size_t count = values.size() / kEight * kEight;
  for (std::size_t at = 0; at < count; at += kEight) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * at));
    _mm256_storeu_ps(values.data() + at, _mm256_cvtph_ps(half));
  }
  return count;
}
#else
bool has_eights() {
  return false;
}
std::size_t narrow_eights(std::span<const float> /*values*/, std::byte* /*bytes*/) {
  return 0;
}
std::size_t widen_eights(const std::byte* /*bytes*/, std::span<float> /*values*/) {
  return 0;
}
#endif

void check(DType dtype, std::size_t values, std::size_t bytes) {
  YARD_CHECK(dtype == DType::kF16 || dtype == DType::kBF16, name_of(dtype));
  YARD_CHECK(bytes == 2 * values, "two bytes for each value");
}

}  // namespace

void narrow(DType dtype, std::span<const float> values, std::span<std::byte> bytes) {
  check(dtype, values.size(), bytes.size());
  if (dtype == DType::kBF16) {
    narrow_all<Brain>(values, bytes.data());
    return;
  }
  const std::size_t done = has_eights() ? narrow_eights(values, bytes.data()) : 0;
  narrow_all<Half>(values.subspan(done), bytes.data() + 2 * done);
}

void widen(DType dtype, std::span<const std::byte> bytes, std::span<float> values) {
  check(dtype, values.size(), bytes.size());
  if (dtype == DType::kBF16) {
    widen_all<Brain>(bytes.data(), values);
    return;
  }
  const std::size_t done = has_eights() ? widen_eights(bytes.data(), values) : 0;
  widen_all<Half>(bytes.data() + 2 * done, values.subspan(done));
}

}  // namespace trainyard::comm
