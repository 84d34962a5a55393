// SPDX-License-Identifier: Apache-2.0
#include "wire/heard_numbers.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::wire {
namespace {

constexpr std::uint64_t kWindow = HeardNumbers::kWindow;

TEST(HeardNumbers, HearsEachOnceInAnyOrderWithinTheWindow) {
  std::vector<std::uint64_t> numbers(kWindow);
  std::iota(numbers.begin(), numbers.end(), 1);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(5));
  HeardNumbers heard;
  for (const std::uint64_t number : numbers) {
    EXPECT_TRUE(heard.hear(number)) << number;
  }
  for (const std::uint64_t number : numbers) {
    EXPECT_FALSE(heard.hear(number)) << number;
  }
}

TEST(HeardNumbers, DoesNotHearWhatIsBelowTheWindow) {
  HeardNumbers heard;
  EXPECT_TRUE(heard.hear(kWindow + 5));
  EXPECT_FALSE(heard.hear(5));
  EXPECT_TRUE(heard.hear(6));
  EXPECT_FALSE(heard.hear(0));
}

TEST(HeardNumbers, ForgetsNothingInTheWindowWhenItMovesOn) {
  HeardNumbers heard;
  EXPECT_TRUE(heard.hear(10));
  EXPECT_TRUE(heard.hear(kWindow + 9));
  EXPECT_FALSE(heard.hear(10));
  EXPECT_TRUE(heard.hear(11));
  EXPECT_TRUE(heard.hear(kWindow + 10));  // takes the place of 10
  EXPECT_FALSE(heard.hear(10));
  EXPECT_FALSE(heard.hear(11));
}

TEST(HeardNumbers, TakesALeapOfAnySize) {
  HeardNumbers heard;
  EXPECT_TRUE(heard.hear(3));
  EXPECT_TRUE(heard.hear(~std::uint64_t{0} - 1));
  EXPECT_FALSE(heard.hear(~std::uint64_t{0} - 1));
  EXPECT_TRUE(heard.hear(~std::uint64_t{0} - 2));
  EXPECT_FALSE(heard.hear(3));
}

}  // namespace
}  // namespace trainyard::wire
