// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/casts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "comm/combine/internal/kernels.h"
#include "comm/combine/reference.h"

namespace trainyard::comm {
namespace {

// Every pattern of bits as a float, a prime apart, and the neighbours of every 16-bit number's
// midpoints.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65'521) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t half = 0; half < 0x7c00; half += 7) {
    const float middle = (reference::Half::widen(static_cast<std::uint16_t>(half)) +
                          reference::Half::widen(static_cast<std::uint16_t>(half + 1))) /
                         2;
    values.insert(values.end(), {middle, std::nextafter(middle, 0.0F), -middle,
                                 std::nextafter(middle, HUGE_VALF)});
  }
  return values;
}

// Short parts do not fill a vector.
constexpr std::size_t kParts[] = {7, 1 << 20};

const Casts& casts_of(Level level, DType dtype) {
  return dtype == DType::kF16 ? kernels_of(level).half : kernels_of(level).brain;
}

template <typename Format>
void expect_narrows(Level level, DType dtype, std::size_t part) {
  const std::vector<float> values = all_kinds_of_floats();
  std::vector<std::byte> bytes(2 * values.size());
  for (std::size_t at = 0; at < values.size(); at += part) {
    const std::size_t count = std::min(part, values.size() - at);
    casts_of(level, dtype).narrow(values.data() + at, 1.0F, bytes.data() + 2 * at, count);
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto got = reference::element_of<std::uint16_t>(bytes, i);
    const bool is_nan = std::isnan(values[i]) && std::isnan(Format::widen(got));
    wrong += is_nan || got == Format::narrow(values[i]) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0) << "of " << values.size();
}

template <typename Format>
void expect_widens(Level level, DType dtype, std::size_t part) {
  std::vector<std::byte> bytes(2 << 16);
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(bytes.data() + 2 * std::size_t{i}, &bits, 2);
  }
  std::vector<float> values(1 << 16);
  for (std::size_t at = 0; at < values.size(); at += part) {
    const std::size_t count = std::min(part, values.size() - at);
    casts_of(level, dtype).widen(bytes.data() + 2 * at, values.data() + at, count);
  }
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const float expected = Format::widen(static_cast<std::uint16_t>(i));
    const bool is_nan = std::isnan(expected) && std::isnan(values[i]);
    const bool is_same =
        std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(expected);
    wrong += is_nan || is_same ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Casts, RoundToNearestEvenOnEveryProcessor) {
  for (const Level level : levels()) {
    for (const std::size_t part : kParts) {
      expect_narrows<reference::Half>(level, DType::kF16, part);
      expect_narrows<reference::Brain>(level, DType::kBF16, part);
    }
  }
}

TEST(Casts, GiveEvery16BitNumberBackOnEveryProcessor) {
  for (const Level level : levels()) {
    for (const std::size_t part : kParts) {
      expect_widens<reference::Half>(level, DType::kF16, part);
      expect_widens<reference::Brain>(level, DType::kBF16, part);
    }
  }
}

TEST(Casts, MultiplyByTheScaleBeforeTheyRound) {
  const std::vector<float> values = {262144.0F, -3.0F, 1.0F / 1024};
  std::vector<std::byte> bytes(2 * values.size());

  narrow(DType::kF16, values, bytes, 0.125F);

  std::vector<float> back(values.size());
  widen(DType::kF16, bytes, back);
  EXPECT_EQ(back, (std::vector<float>{32768.0F, -0.375F, 1.0F / 8192}));
}

}  // namespace
}  // namespace trainyard::comm
