// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/int8_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

std::vector<float> there_and_back(std::span<const float> values, std::size_t block,
                                  Residual* residual) {
  std::vector<std::byte> bytes(int8_bytes(values.size(), block));
  encode_int8(values, block, residual, bytes);
  std::vector<float> back(values.size());
  decode_int8(bytes, block, Into::kReplace, back);
  return back;
}

float greatest_difference(std::span<const float> a, std::span<const float> b) {
  float greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    greatest = std::max(greatest, std::abs(a[i] - b[i]));
  }
  return greatest;
}

TEST(Int8Blocks, TakeAByteForAValueAndAScaleForABlock) {
  EXPECT_EQ(int8_bytes(0, 64), 0);
  EXPECT_EQ(int8_bytes(64, 64), 64 + 4);
  EXPECT_EQ(int8_bytes(65, 64), 65 + 8);
}

TEST(Int8Blocks, AreOffByHalfAStepAtMost) {
  for (const std::size_t count : {1, 63, 64, 65, 1'000}) {
    const std::vector<float> values = random_floats(count, 1);
    const std::vector<float> back = there_and_back(values, 64, nullptr);
    for (std::size_t at = 0; at < count; at += 64) {
      const auto part = std::span(values).subspan(at, std::min<std::size_t>(64, count - at));
      const float step =
          std::abs(*std::max_element(part.begin(), part.end(),
                                     [](float a, float b) { return std::abs(a) < std::abs(b); })) /
          127;
      EXPECT_LE(greatest_difference(part, std::span(back).subspan(at, part.size())),
                0.5001F * step);
    }
  }
}

TEST(Int8Blocks, KeepWholeNumbersUpTo127) {
  std::vector<float> values(255);
  std::generate(values.begin(), values.end(), [next = -127.0F]() mutable { return next++; });
  EXPECT_EQ(there_and_back(values, 255, nullptr), values);
}

TEST(Int8Blocks, AddToWhatIsThere) {
  const std::vector<float> values = {127, -127, 1, 0};
  std::vector<std::byte> bytes(int8_bytes(4, 4));
  encode_int8(values, 4, nullptr, bytes);
  std::vector<float> sum = {1, 1, 1, 1};
  decode_int8(bytes, 4, Into::kAdd, sum);
  EXPECT_EQ(sum, (std::vector<float>{128, -126, 2, 1}));
}

// 0.3 of a step is lost in every single message, and arrives over many.
TEST(Int8Blocks, LetSmallValuesThroughWithErrorFeedback) {
  const std::vector<float> values = {127.0F, 0.3F, -0.3F};
  Residual residual;
  std::vector<double> sum(3);
  for (int step = 0; step < 1'000; ++step) {
    const std::vector<float> sent = there_and_back(values, 3, &residual);
    std::transform(sum.begin(), sum.end(), sent.begin(), sum.begin(), std::plus<double>());
  }
  EXPECT_NEAR(sum[1], 300, 1);
  EXPECT_NEAR(sum[2], -300, 1);
  EXPECT_EQ(there_and_back(values, 3, nullptr)[1], 0);
}

TEST(Int8Blocks, SendTheSumOfAllGradientsButTheResidual) {
  Residual residual;
  std::vector<float> wanted(500);
  std::vector<float> got(500);
  for (std::uint32_t step = 0; step < 50; ++step) {
    const std::vector<float> gradient = random_floats(500, step);
    const std::vector<float> sent = there_and_back(gradient, 128, &residual);
    std::transform(wanted.begin(), wanted.end(), gradient.begin(), wanted.begin(), std::plus<>());
    std::transform(got.begin(), got.end(), sent.begin(), got.begin(), std::plus<>());
  }
  std::transform(got.begin(), got.end(), residual.values.begin(), got.begin(), std::plus<>());
  EXPECT_LT(greatest_difference(wanted, got), 1e-4F);
}

TEST(Int8Blocks, ShowAnOverflowToEveryoneOnce) {
  std::vector<float> values(8, 1.0F);
  values[1] = std::numeric_limits<float>::infinity();
  Residual residual;
  const std::vector<float> back = there_and_back(values, 4, &residual);
  EXPECT_TRUE(std::all_of(back.begin(), back.begin() + 4, [](float v) { return std::isnan(v); }));
  EXPECT_EQ(back[4], 1.0F);
  EXPECT_EQ(residual.values[0], 0.0F);
  values[1] = 1.0F;
  EXPECT_EQ(there_and_back(values, 4, &residual), values);
}

TEST(Int8Blocks, KeepWhatIsTooSmallForAScale) {
  const std::vector<float> values(4, std::numeric_limits<float>::denorm_min());
  Residual residual;
  EXPECT_EQ(there_and_back(values, 4, &residual), std::vector<float>(4, 0.0F));
  EXPECT_EQ(residual.values, values);
}

}  // namespace
}  // namespace trainyard::comm
