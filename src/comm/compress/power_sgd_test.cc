// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using Matrix = std::vector<float>;

Matrix random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

// rows x columns of rank `rank`.
Matrix of_rank(std::size_t rank, std::size_t rows, std::size_t columns, std::uint32_t seed) {
  const Matrix left = random_floats(rank * rows, seed);
  const Matrix right = random_floats(rank * columns, seed + 1);
  Matrix product(rows * columns);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t i = 0; i < product.size(); ++i) {
      product[i] += left[k * rows + i / columns] * right[k * columns + i % columns];
    }
  }
  return product;
}

Matrix plus(const Matrix& a, const Matrix& b, float scale = 1) {
  Matrix sum(a.size());
  std::transform(a.begin(), a.end(), b.begin(), sum.begin(),
                 [scale](float x, float y) { return x + scale * y; });
  return sum;
}

double norm(const Matrix& matrix) {
  double squares = 0;
  for (const float value : matrix) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

double relative_difference(const Matrix& got, const Matrix& wanted) {
  return norm(plus(got, wanted, -1)) / norm(wanted);
}

Matrix mean(const std::vector<Matrix>& all) {
  Matrix sum(all[0].size());
  for (const Matrix& one : all) {
    sum = plus(sum, one, 1.0F / static_cast<float>(all.size()));
  }
  return sum;
}

bool is_all_nan(const Matrix& matrix) {
  return std::all_of(matrix.begin(), matrix.end(), [](float value) { return std::isnan(value); });
}

// One step of all ranks; they all get the update that is returned.
Matrix step(std::vector<PowerSgdState>& ranks, const std::vector<Matrix>& gradients) {
  std::vector<Matrix> all;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    all.push_back(project(ranks[r], gradients[r]));
  }
  Matrix p = mean(all);
  orthogonalize(p, ranks[0].rank);
  all.clear();
  for (PowerSgdState& rank : ranks) {
    all.push_back(back_project(rank, p));
  }
  const Matrix q = mean(all);
  Matrix update;
  for (PowerSgdState& rank : ranks) {
    update = rebuild(rank, p, q);
  }
  return update;
}

TEST(PowerSgd, IsExactForMatricesOfItsRank) {
  for (const std::size_t true_rank : {1, 2, 4}) {
    std::vector<PowerSgdState> ranks = {start_power_sgd(37, 53, 4, 1)};
    const Matrix gradient = of_rank(true_rank, 37, 53, 2);
    EXPECT_LT(relative_difference(step(ranks, {gradient}), gradient), 1e-5);
    EXPECT_LT(norm(ranks[0].error), 1e-5 * norm(gradient));
  }
}

TEST(PowerSgd, AveragesRanksWhoseSumHasItsRank) {
  std::vector<PowerSgdState> ranks(3, start_power_sgd(20, 30, 3, 1));
  const std::vector<Matrix> gradients = {of_rank(1, 20, 30, 2), of_rank(1, 20, 30, 4),
                                         of_rank(1, 20, 30, 6)};
  EXPECT_LT(relative_difference(step(ranks, gradients), mean(gradients)), 1e-5);
}

TEST(PowerSgd, SendsTheSumOfAllGradientsButTheErrors) {
  std::vector<PowerSgdState> ranks(2, start_power_sgd(16, 24, 2, 1));
  Matrix wanted(16 * 24);
  Matrix got(16 * 24);
  for (std::uint32_t at = 0; at < 40; ++at) {
    const std::vector<Matrix> gradients = {random_floats(16 * 24, 2 * at),
                                           random_floats(16 * 24, 2 * at + 1)};
    wanted = plus(wanted, mean(gradients));
    got = plus(got, step(ranks, gradients));
  }
  EXPECT_LT(relative_difference(plus(got, mean({ranks[0].error, ranks[1].error})), wanted), 1e-5);
}

// A constant gradient of full rank arrives in the mean: the error stays bounded, so it is divided
// by the number of steps.
TEST(PowerSgd, LetsEveryDirectionThroughWithErrorFeedback) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(12, 12, 1, 1)};
  const Matrix gradient = random_floats(144, 9);
  Matrix sum(144);
  double after_100 = 0;
  for (int at = 1; at <= 1'000; ++at) {
    sum = plus(sum, step(ranks, {gradient}));
    const Matrix average = plus(Matrix(144), sum, 1.0F / static_cast<float>(at));
    after_100 = at == 100 ? relative_difference(average, gradient) : after_100;
    if (at == 1'000) {
      EXPECT_LT(relative_difference(average, gradient), 0.2 * after_100);
      EXPECT_LT(relative_difference(average, gradient), 0.05);
    }
  }
}

// Singular values 8, 4, 2, 1: rank 2 can do no better than sqrt(4 + 1), and gets there by starting
// from the last Q.
TEST(PowerSgd, FindsTheBestSubspaceByWarmStart) {
  Matrix gradient(10 * 14);
  for (std::size_t k = 0; k < 4; ++k) {
    gradient[k * 14 + k] = static_cast<float>(8 >> k);
  }
  std::vector<PowerSgdState> ranks = {start_power_sgd(10, 14, 2, 5)};
  double missed = 0;
  for (int at = 0; at < 30; ++at) {
    std::fill(ranks[0].error.begin(), ranks[0].error.end(), 0.0F);
    missed = norm(plus(step(ranks, {gradient}), gradient, -1));
  }
  EXPECT_NEAR(missed, std::sqrt(5.0), 1e-3);
}

TEST(PowerSgd, MakesFactorsOrthonormal) {
  Matrix p = random_floats(5 * 40, 3);
  std::copy_n(p.begin(), 40, p.begin() + 80);   // the third is the first
  std::copy_n(p.begin(), 40, p.begin() + 120);  // and the fourth almost
  p[120] += 1e-4F;
  std::fill_n(p.begin() + 160, 40, 0.0F);  // the fifth is nothing
  orthogonalize(p, 5);
  for (std::size_t a = 0; a < 5; ++a) {
    for (std::size_t b = 0; b < 5; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < 40; ++i) {
        product += static_cast<double>(p[a * 40 + i]) * p[b * 40 + i];
      }
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-6) << a << " " << b;
    }
  }
}

TEST(PowerSgd, GoesOnAfterGradientsOfZero) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(9, 7, 2, 1)};
  EXPECT_EQ(norm(step(ranks, {Matrix(63)})), 0);
  const Matrix gradient = of_rank(2, 9, 7, 3);
  step(ranks, {gradient});
  const Matrix second = plus(gradient, ranks[0].error);
  EXPECT_LT(relative_difference(step(ranks, {gradient}), second), 1e-4);
}

TEST(PowerSgd, GoesOnWhereTheFirstRowsNeverGetAGradient) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(9, 7, 2, 1)};
  EXPECT_EQ(norm(step(ranks, {Matrix(63)})), 0);
  Matrix gradient = of_rank(2, 9, 7, 3);
  std::fill_n(gradient.begin(), 2 * 7, 0.0F);
  EXPECT_LT(relative_difference(step(ranks, {gradient}), gradient), 1e-4);
}

TEST(PowerSgd, ShowsAnOverflowOnceAndForgetsIt) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Matrix gradient = of_rank(2, 9, 7, 3);
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    std::vector<PowerSgdState> ranks(2, start_power_sgd(9, 7, 2, 1));
    step(ranks, {gradient, gradient});
    Matrix overflowed = gradient;
    overflowed[40] = bad;
    EXPECT_TRUE(is_all_nan(step(ranks, {overflowed, gradient})));
    EXPECT_EQ(norm(ranks[0].error) + norm(ranks[1].error), 0);
    EXPECT_LT(relative_difference(step(ranks, {gradient, gradient}), gradient), 1e-4);
  }
}

// P = M Q is finite, Q = M^T P is not.
TEST(PowerSgd, ForgetsAnOverflowOfItsSecondFactorToo) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(9, 7, 2, 1)};
  for (float& value : ranks[0].q) {
    value *= 1e-10F;
  }
  EXPECT_TRUE(is_all_nan(step(ranks, {Matrix(63, 3e38F)})));
  const Matrix gradient = of_rank(2, 9, 7, 3);
  EXPECT_LT(relative_difference(step(ranks, {gradient}), gradient), 1e-4);
}

// As a gradient that almost overflowed leaves it: the next ones are sound, their P would not be.
TEST(PowerSgd, OverflowsOnlyOnceWithAQThatIsTooLarge) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(9, 7, 2, 1)};
  for (float& value : ranks[0].q) {
    value *= 1e37F;
  }
  const Matrix gradient = plus(Matrix(63), of_rank(2, 9, 7, 3), 1'000);
  EXPECT_TRUE(is_all_nan(step(ranks, {gradient})));
  EXPECT_LT(relative_difference(step(ranks, {gradient}), gradient), 1e-4);
}

TEST(PowerSgd, LowersItsRankToTheSmallerSide) {
  std::vector<PowerSgdState> ranks = {start_power_sgd(3, 50, 8, 1)};
  EXPECT_EQ(ranks[0].rank, 3);
  const Matrix gradient = random_floats(150, 4);
  EXPECT_LT(relative_difference(step(ranks, {gradient}), gradient), 1e-5);
}

}  // namespace
}  // namespace trainyard::comm
