// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/int8_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace trainyard::comm {
namespace {

constexpr float kLargestCode = 127.0F;

std::size_t blocks_of(std::size_t count, std::size_t block) {
  return (count + block - 1) / block;
}

// In the order of their bits, magnitudes are in order, infinity and NaN last.
float greatest_magnitude(std::span<const float> values) {
  std::int32_t greatest = 0;
  for (const float value : values) {
    greatest = std::max(greatest, std::bit_cast<std::int32_t>(value) & 0x7fffffff);
  }
  return std::bit_cast<float>(greatest);
}

// To nearest even for |value| < 2^22: in [2^23, 2^24) the last place is 1.
float round_small(float value) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
  return (value + kShift) - kShift;
}

// Returns the scale; `values` become what was lost.
float encode_block(std::span<float> values, std::int8_t* codes) {
  const float greatest = greatest_magnitude(values);
  if (!std::isfinite(greatest)) {
    std::fill_n(codes, values.size(), std::int8_t{0});
    std::fill(values.begin(), values.end(), 0.0F);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = greatest / kLargestCode;
  if (scale < std::numeric_limits<float>::min()) {  // all lost, for now
    std::fill_n(codes, values.size(), std::int8_t{0});
    return 0.0F;
  }
  const float inverse = 1.0F / scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float code = round_small(values[i] * inverse);
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(code));
    values[i] -= code * scale;
  }
  return scale;
}

}  // namespace

std::size_t int8_bytes(std::size_t count, std::size_t block) {
  YARD_CHECK(block > 0, "blocks of nothing");
  return blocks_of(count, block) * sizeof(float) + count;
}

namespace {

// Blocks of values, each with what `left_of` gives for its position: what was left of them, and
// where what is left now goes.
template <typename LeftOf>
void encode(std::span<const float> values, std::size_t block, std::span<std::byte> bytes,
            const LeftOf& left_of) {
  const std::size_t count = values.size();
  YARD_CHECK(bytes.size() == int8_bytes(count, block), "a buffer of another size");
  auto* codes =
      reinterpret_cast<std::int8_t*>(bytes.data() + blocks_of(count, block) * sizeof(float));
  for (std::size_t at = 0, b = 0; at < count; at += block, ++b) {
    const std::size_t length = std::min(block, count - at);
    const std::span<float> part = left_of(at, length);
    for (std::size_t i = 0; i < length; ++i) {
      part[i] += values[at + i];
    }
    const float scale = encode_block(part, codes + at);
    std::memcpy(bytes.data() + b * sizeof(scale), &scale, sizeof(scale));
  }
}

}  // namespace

void encode_int8(std::span<const float> values, std::size_t block, std::span<float> residual,
                 std::span<std::byte> bytes) {
  YARD_CHECK(residual.size() == values.size(), "a residual for each value");
  encode(values, block, bytes,
         [&](std::size_t at, std::size_t length) { return residual.subspan(at, length); });
}

void encode_int8(std::span<const float> values, std::size_t block, Residual* residual,
                 std::span<std::byte> bytes) {
  if (residual != nullptr) {
    if (residual->values.size() != values.size()) {
      residual->values.assign(values.size(), 0.0F);
    }
    encode_int8(values, block, std::span(residual->values), bytes);
    return;
  }
  std::vector<float> left(std::min(block, values.size()));
  encode(values, block, bytes, [&](std::size_t, std::size_t length) {
    std::fill(left.begin(), left.end(), 0.0F);
    return std::span(left).first(length);
  });
}

void decode_int8(std::span<const std::byte> bytes, std::size_t block, Into how,
                 std::span<float> values) {
  const std::size_t count = values.size();
  YARD_CHECK(bytes.size() == int8_bytes(count, block), "a buffer of another size");
  const auto* codes =
      reinterpret_cast<const std::int8_t*>(bytes.data() + blocks_of(count, block) * sizeof(float));
  for (std::size_t at = 0, b = 0; at < count; at += block, ++b) {
    float scale;
    std::memcpy(&scale, bytes.data() + b * sizeof(scale), sizeof(scale));
    const std::size_t end = std::min(at + block, count);
    for (std::size_t i = at; i < end; ++i) {
      const float value = static_cast<float>(codes[i]) * scale;
      values[i] = how == Into::kAdd ? values[i] + value : value;
    }
  }
}

}  // namespace trainyard::comm
