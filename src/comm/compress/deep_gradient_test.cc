// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/deep_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

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

// By sorting everything.
std::vector<std::uint32_t> sorted_top_k(const std::vector<float>& values, std::size_t count) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopK, FindsTheLargestMagnitudes) {
  for (const std::size_t count : {1, 2, 10, 999, 1'000}) {
    const std::vector<float> values = random_floats(1'000, 3);
    EXPECT_EQ(top_k(values, count), sorted_top_k(values, count));
  }
}

TEST(TopK, TakesTheFirstOfEquals) {
  std::vector<float> values = random_floats(1'000, 4);
  std::transform(values.begin(), values.end(), values.begin(),
                 [](float v) { return std::round(2 * v); });
  for (const std::size_t count : {1, 5, 100, 700}) {
    EXPECT_EQ(top_k(values, count), sorted_top_k(values, count));
  }
}

TEST(TopK, SeesNanAndEndsWithTheValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, -inf, std::nanf(""), 0};
  EXPECT_EQ(top_k(values, 1), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(top_k(values, 2), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(top_k(values, 9), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(top_k({}, 1).empty());
}

TEST(DeepGradient, WarmsUpAsInThePaper) {
  const DeepGradientOptions options;
  EXPECT_NEAR(density_in(options, 0), 0.25, 0.002);
  EXPECT_NEAR(density_in(options, 1), 0.0625, 0.001);
  EXPECT_NEAR(density_in(options, 2), 0.015625, 0.0003);
  EXPECT_NEAR(density_in(options, 3), 0.004, 0.0001);
  EXPECT_EQ(density_in(options, 4), 0.001);
}

TEST(DeepGradient, SendsEveryGradientSoonerOrLater) {
  const DeepGradientOptions options{.density = 0.03, .warmup_epochs = 0, .momentum = 0};
  DeepGradientState state;
  std::vector<float> wanted(300);
  std::vector<float> got(300);
  for (std::uint32_t step = 0; step < 100; ++step) {
    const std::vector<float> gradient = random_floats(300, step);
    const Sparse sent = compress(options, 0, gradient, state);
    EXPECT_EQ(sent.indices.size(), 9);
    add_to(got, sent, 1);
    std::transform(wanted.begin(), wanted.end(), gradient.begin(), wanted.begin(), std::plus<>());
  }
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_NEAR(got[i] + state.accumulated[i], wanted[i], 1e-4);
  }
}

// Section 3.2: without masking, sent plus kept is what SGD with momentum would have applied.
TEST(DeepGradient, AccumulatesTheVelocity) {
  for (const bool is_nesterov : {false, true}) {
    const DeepGradientOptions options{
        .density = 0.1, .warmup_epochs = 0, .is_nesterov = is_nesterov, .mask_momentum = false};
    DeepGradientState state;
    std::vector<float> got(50);
    std::vector<double> velocity(50);
    std::vector<double> wanted(50);
    for (std::uint32_t step = 0; step < 20; ++step) {
      const std::vector<float> gradient = random_floats(50, step);
      add_to(got, compress(options, 0, gradient, state), 1);
      for (std::size_t i = 0; i < 50; ++i) {
        velocity[i] = 0.9 * velocity[i] + gradient[i];
        wanted[i] += is_nesterov ? 0.9 * velocity[i] + gradient[i] : velocity[i];
      }
    }
    for (std::size_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(got[i] + state.accumulated[i], wanted[i], 1e-3);
    }
  }
}

TEST(DeepGradient, ForgetsTheVelocityOfWhatWasSent) {
  const DeepGradientOptions options{.density = 0.5, .warmup_epochs = 0};
  DeepGradientState state;
  const Sparse sent = compress(options, 0, std::vector<float>{3, 1}, state);
  EXPECT_EQ(sent, (Sparse{.indices = {0}, .values = {3}}));
  EXPECT_EQ(state, (DeepGradientState{.velocity = {0, 1}, .accumulated = {0, 1}}));
}

TEST(DeepGradient, SendsAnOverflowOnceAndForgetsTheRest) {
  const float inf = std::numeric_limits<float>::infinity();
  const DeepGradientOptions options{
      .density = 0.25, .warmup_epochs = 0, .momentum = 0.5F, .mask_momentum = false};
  DeepGradientState state;
  const Sparse sent = compress(options, 0, std::vector<float>{inf, std::nanf(""), -inf, 1}, state);
  EXPECT_EQ(sent.indices, (std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(std::isnan(sent.values[0]));
  EXPECT_EQ(state, (DeepGradientState{.velocity = {0, 0, 0, 1}, .accumulated = {0, 0, 0, 1}}));
  EXPECT_EQ(compress(options, 0, std::vector<float>{0.5, 0, 0, 0}, state),
            (Sparse{.indices = {3}, .values = {1.5}}));
}

TEST(DeepGradient, ClipsAtItsPartOfTheNorm) {
  // 4 ranks: each may have half of the norm of 2.
  const DeepGradientOptions options{
      .density = 1, .warmup_epochs = 0, .clip_norm = 2.0F, .world = 4};
  DeepGradientState state;
  const Sparse sent = compress(options, 0, std::vector<float>{3, 4}, state);
  EXPECT_NEAR(sent.values[0], 0.6, 1e-6);
  EXPECT_NEAR(sent.values[1], 0.8, 1e-6);
}

// f(x) = mean over ranks of |x - target of the rank|^2 / 2, by 4 ranks that send 5 % each.
TEST(DeepGradient, ReachesTheMinimumOfAllRanks) {
  constexpr std::size_t kSize = 200;
  const DeepGradientOptions options{.density = 0.05, .warmup_epochs = 4, .momentum = 0.5F};
  std::vector<DeepGradientState> states(4);
  std::vector<float> x(kSize);
  std::vector<float> goal(kSize);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::vector<float> target = random_floats(kSize, rank);
    std::transform(goal.begin(), goal.end(), target.begin(), goal.begin(),
                   [](float sum, float t) { return sum + t / 4; });
  }
  for (int step = 0; step < 3'000; ++step) {
    std::vector<float> update(kSize);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      std::vector<float> gradient = random_floats(kSize, rank);
      std::transform(x.begin(), x.end(), gradient.begin(), gradient.begin(), std::minus<>());
      add_to(update, compress(options, step / 10, gradient, states[rank]), 0.25F);
    }
    std::transform(x.begin(), x.end(), update.begin(), x.begin(),
                   [](float at, float by) { return at - 0.01F * by; });
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(x[i], goal[i], 0.2);
  }
}

}  // namespace
}  // namespace trainyard::comm
