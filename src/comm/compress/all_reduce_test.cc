// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::make_local_communicators;
using testing::on_all_ranks;

constexpr std::int32_t kRanks = 3;

std::vector<float> gradient_of(std::int32_t rank, std::size_t count, std::uint32_t step = 0) {
  std::mt19937 random(1000 * step + static_cast<std::uint32_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
  }
  return values;
}

std::vector<float> average_of(std::size_t count, std::uint32_t step = 0) {
  std::vector<float> sum(count);
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> one = gradient_of(rank, count, step);
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += one[i] / kRanks;
    }
  }
  return sum;
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return a.size() == b.size() ? most : HUGE_VALF;
}

// Gradients of a rank; those of the first one overflow.
std::vector<float> overflowing(std::int32_t rank, std::size_t count) {
  std::vector<float> values = gradient_of(rank, count);
  values[count / 2] = rank == 0 ? HUGE_VALF : values[count / 2];
  return values;
}

bool are_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

void expect_done(Result<Work> work) {
  ASSERT_TRUE(work) << work.error().message;
  const auto done = work->wait();
  ASSERT_TRUE(done) << done.error().message;
}

void run(const std::function<void(Communicator&)>& body) {
  LocalWorld world = make_local_communicators(kRanks);
  on_all_ranks(world, body);
}

TEST(NarrowAllReduce, AveragesUpToTheRoundingOfItsDtype) {
  run([](Communicator& communicator) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1003}}) {
      std::vector<float> values = gradient_of(communicator.rank(), count);
      expect_done(all_reduce_narrow(communicator, DType::kF16, values));
      EXPECT_LT(distance(values, average_of(count)), 1e-3F);
      values = gradient_of(communicator.rank(), count);
      expect_done(all_reduce_narrow(communicator, DType::kBF16, values));
      EXPECT_LT(distance(values, average_of(count)), 1e-2F);
    }
  });
}

TEST(NarrowAllReduce, DoesNotOverflowWhereTheAverageFits) {
  run([](Communicator& communicator) {
    std::vector<float> values(10, 60000.0F);
    expect_done(all_reduce_narrow(communicator, DType::kF16, values));
    EXPECT_LT(distance(values, std::vector<float>(10, 60000.0F)), 100.0F);
  });
}

struct Int8Memory {
  std::vector<float> residual;
  std::vector<float> owned;

  explicit Int8Memory(std::size_t count)
      : residual(count), owned(owned_by_each(count, kRanks, 16)) {}
  Int8State state() { return {.block = 16, .residual = residual, .owned = owned}; }
};

TEST(Int8AllReduce, AveragesUpToAStepOfItsScale) {
  run([](Communicator& communicator) {
    // Parts that are whole, shorter, and not there at all.
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17},
                                    std::size_t{48}, std::size_t{960}, std::size_t{1003}}) {
      std::vector<float> values = gradient_of(communicator.rank(), count);
      Int8Memory memory(count);
      expect_done(all_reduce_int8(communicator, values, memory.state()));
      EXPECT_LT(distance(values, average_of(count)), 2.0F / 127);
    }
  });
}

// Without error feedback the same rounding would be lost in every step.
TEST(Int8AllReduce, GivesLaterWhatItRoundedAway) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 500;
    constexpr int kSteps = 64;
    Int8Memory memory(kCount);
    std::vector<float> sum(kCount);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<float> values = gradient_of(communicator.rank(), kCount);
      expect_done(all_reduce_int8(communicator, values, memory.state()));
      for (std::size_t i = 0; i < kCount; ++i) {
        sum[i] += values[i] / kSteps;
      }
    }
    EXPECT_LT(distance(sum, average_of(kCount)), 2.0F / 127 / 16);
  });
}

TEST(DeepGradientAllReduce, IsTheAverageWhenItSendsAll) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 300;
    std::vector<float> velocity(kCount);
    std::vector<float> unsent(kCount);
    std::vector<float> values = gradient_of(communicator.rank(), kCount);
    expect_done(all_reduce_deep_gradient(communicator, values, {.density = 1, .momentum = 0},
                                         {.velocity = velocity, .accumulated = unsent}));
    EXPECT_LT(distance(values, average_of(kCount)), 1e-6F);
    EXPECT_EQ(unsent, std::vector<float>(kCount));
  });
}

TEST(DeepGradientAllReduce, SendsTheLargestOfEachRank) {
  run([](Communicator& communicator) {
    std::vector<float> velocity(10);
    std::vector<float> unsent(10);
    std::vector<float> values(10, 0.5F);
    values[static_cast<std::size_t>(communicator.rank())] = -6.0F;
    expect_done(all_reduce_deep_gradient(communicator, values, {.density = 0.1, .momentum = 0},
                                         {.velocity = velocity, .accumulated = unsent}));
    EXPECT_LT(distance(values, {-2, -2, -2, 0, 0, 0, 0, 0, 0, 0}), 1e-6F);
    EXPECT_EQ(unsent[static_cast<std::size_t>(communicator.rank())], 0.0F);
    EXPECT_EQ(unsent[9], 0.5F);
  });
}

TEST(DeepGradientAllReduce, ShowsAnOverflowToAllRanksOnce) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 300;
    std::vector<float> velocity(kCount);
    std::vector<float> unsent(kCount);
    const DeepGradientView state{.velocity = velocity, .accumulated = unsent};
    std::vector<float> values(kCount, communicator.rank() == 0 ? HUGE_VALF : 0.5F);
    expect_done(all_reduce_deep_gradient(communicator, values, {.density = 0.1}, state));
    EXPECT_FALSE(are_finite(values));
    values = gradient_of(communicator.rank(), kCount);
    expect_done(all_reduce_deep_gradient(communicator, values, {.density = 0.1}, state));
    EXPECT_TRUE(are_finite(values));
  });
}

struct Matrix {
  PowerSgdState state;
  PowerSgdView view() {
    return {.rows = state.rows,
            .columns = state.columns,
            .rank = state.rank,
            .error = state.error,
            .q = state.q};
  }
};

TEST(PowerSgdAllReduce, IsTheAverageAtFullRank) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 3 + 5 * 7 + 2 + 6 * 4;  // matrices among others
    Matrix first{start_power_sgd(5, 7, 5, 1)};
    Matrix second{start_power_sgd(6, 4, 4, 2)};
    std::vector<float> values = gradient_of(communicator.rank(), kCount);
    expect_done(all_reduce_power_sgd(communicator, values,
                                     {{.offset = 3, .state = first.view()}, {40, second.view()}}));
    EXPECT_LT(distance(values, average_of(kCount)), 1e-4F);
  });
}

TEST(PowerSgdAllReduce, ShowsAnOverflowToAllRanksOnce) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 3 + 5 * 7;
    Matrix matrix{start_power_sgd(5, 7, 2, 1)};
    std::vector<float> values = overflowing(communicator.rank(), kCount);
    expect_done(
        all_reduce_power_sgd(communicator, values, {{.offset = 3, .state = matrix.view()}}));
    EXPECT_TRUE(
        std::all_of(values.begin() + 3, values.end(), [](float v) { return std::isnan(v); }));
    EXPECT_EQ(matrix.state.error, std::vector<float>(5 * 7));
    values = gradient_of(communicator.rank(), kCount);
    expect_done(
        all_reduce_power_sgd(communicator, values, {{.offset = 3, .state = matrix.view()}}));
    EXPECT_TRUE(are_finite(values));
  });
}

TEST(PowerSgdAllReduce, RefusesMatricesThatDoNotFit) {
  run([](Communicator& communicator) {
    Matrix matrix{start_power_sgd(5, 7, 2, 1)};
    std::vector<float> values(36);
    const auto work =
        all_reduce_power_sgd(communicator, values, {{.offset = 2, .state = matrix.view()}});
    EXPECT_EQ(work.error().code, Code::kInvalidArgument);
  });
}

// All are issued before any is waited for; each of them has operations that depend on each other.
TEST(CompressedAllReduce, ManyMayBeUnderWay) {
  run([](Communicator& communicator) {
    constexpr std::size_t kCount = 700;
    std::vector<std::vector<float>> gradients;
    std::vector<Int8Memory> memories(8, Int8Memory(kCount));
    std::vector<Work> works;
    for (std::uint32_t step = 0; step < memories.size(); ++step) {
      gradients.push_back(gradient_of(communicator.rank(), kCount, step));
    }
    for (std::size_t step = 0; step < memories.size(); ++step) {
      auto work = all_reduce_int8(communicator, gradients[step], memories[step].state());
      ASSERT_TRUE(work);
      works.push_back(*work);
    }
    for (std::uint32_t step = 0; step < works.size(); ++step) {
      ASSERT_TRUE(works[step].wait());
      EXPECT_LT(distance(gradients[step], average_of(kCount, step)), 2.0F / 127);
    }
  });
}

}  // namespace
}  // namespace trainyard::comm
