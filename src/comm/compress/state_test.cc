// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/state.h"

#include <gtest/gtest.h>

#include "comm/compress/power_sgd.h"

namespace trainyard::comm {
namespace {

TEST(CompressorState, ComesBackAsItWasSaved) {
  const Residual residual{.values = {1, -2.5F}};
  const DeepGradientState deep{.velocity = {1, 2, 3}, .accumulated = {4, 5, 6}};
  const PowerSgdState power = start_power_sgd(3, 4, 2, 1);
  EXPECT_EQ(load_residual(save(residual)).value(), residual);
  EXPECT_EQ(load_residual(save(Residual{})).value(), Residual{});
  EXPECT_EQ(load_deep_gradient(save(deep)).value(), deep);
  EXPECT_EQ(load_power_sgd(save(power)).value(), power);
}

TEST(CompressorState, GoesOnAsIfNothingHadHappened) {
  PowerSgdState one = start_power_sgd(2, 2, 1, 1);
  project(one, std::vector<float>{1, 2, 3, 4});
  PowerSgdState other = load_power_sgd(save(one)).value();
  const std::vector<float> gradient = {4, 3, 2, 1};
  EXPECT_EQ(project(one, gradient), project(other, gradient));
}

TEST(CompressorState, RefusesWhatIsCutOrAnother) {
  const std::string bytes = save(start_power_sgd(3, 4, 2, 1));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto loaded = load_power_sgd(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(loaded) << length;
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(load_power_sgd(bytes + "x"));
  EXPECT_FALSE(load_residual(bytes));
}

TEST(CompressorState, BelievesNoLengthThatDoesNotFit) {
  std::string bytes = save(Residual{.values = {1}});
  bytes[5 + 7] = '\x40';  // the highest byte of the length: times 4, it would be 4 again
  EXPECT_EQ(
      load_residual(bytes).error().message,
      "saved state of a compressor: 4611686018427387905 words are said to follow, 4 bytes do");
}

TEST(CompressorState, RefusesArraysOfAnotherShape) {
  PowerSgdState state = start_power_sgd(3, 4, 2, 1);
  state.q.pop_back();
  EXPECT_EQ(load_power_sgd(save(state)).error().code, Code::kCorrupt);
  EXPECT_FALSE(load_deep_gradient(save(DeepGradientState{.velocity = {1}, .accumulated = {}})));
}

}  // namespace
}  // namespace trainyard::comm
