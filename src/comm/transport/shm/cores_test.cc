// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/cores.h"

#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

Board::Cpus cpus(std::initializer_list<std::size_t> list) {
  Board::Cpus set = {};
  for (const std::size_t cpu : list) {
    set[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  }
  return set;
}

bool each(const std::vector<Board::Cpus>& ranks) {
  return have_a_core_each(ranks);
}

TEST(Cores, AreEnoughWhenEveryRankCanHaveOne) {
  EXPECT_TRUE(each({cpus({0, 1}), cpus({0, 1})}));
  EXPECT_TRUE(each({cpus({0, 1, 70}), cpus({0, 1}), cpus({0, 1})}));
  EXPECT_TRUE(each({cpus({3}), cpus({3, 4}), cpus({4, 1023})}));
}

TEST(Cores, AreSharedWhenThereAreTooFewOrTheyOverlap) {
  EXPECT_FALSE(each({cpus({0, 1}), cpus({0, 1}), cpus({0, 1})}));
  EXPECT_FALSE(each({cpus({5}), cpus({5})}));
  EXPECT_FALSE(each({cpus({0, 1, 2, 3}), cpus({6, 7}), cpus({6, 7}), cpus({6, 7})}));
  EXPECT_FALSE(each({cpus({})}));
}

TEST(Cores, OfThisThreadAreKnown) {
  EXPECT_NE(allowed_cpus(), Board::Cpus{});
}

}  // namespace
}  // namespace trainyard::comm
