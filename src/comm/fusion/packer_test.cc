// SPDX-License-Identifier: Apache-2.0
#include "comm/fusion/packer.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"

namespace trainyard::comm {
namespace {

std::vector<std::uint64_t> random_sizes(std::mt19937_64& random) {
  std::vector<std::uint64_t> sizes(random() % 20);
  std::generate(sizes.begin(), sizes.end(), [&] { return random() % 50; });
  return sizes;
}

TEST(Packer, FillsAllBuffersButTheLastExactly) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 300; ++turn) {
    const std::vector<std::uint64_t> sizes = random_sizes(random);
    const std::uint64_t capacity = 1 + random() % 40;

    const FusionPlan plan = plan_fusion(sizes, capacity);

    const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    ASSERT_EQ(plan.buffers.size(), (total + capacity - 1) / capacity);
    for (std::size_t b = 0; b + 1 < plan.buffers.size(); ++b) {
      ASSERT_EQ(plan.buffers[b], capacity);
    }
    ASSERT_EQ(std::accumulate(plan.buffers.begin(), plan.buffers.end(), std::uint64_t{0}), total);
  }
}

// Every element of every gradient, in order, follows the one before it in its buffer, or begins the
// next one.
TEST(Packer, LaysGradientsOneAfterAnother) {
  std::mt19937_64 random(2);
  for (int turn = 0; turn < 300; ++turn) {
    const std::vector<std::uint64_t> sizes = random_sizes(random);
    const std::uint64_t capacity = 1 + random() % 40;
    std::vector<std::uint64_t> placed(sizes.size());
    std::uint64_t at = 0;  // in all buffers, end to end

    for (const Stretch& stretch : plan_fusion(sizes, capacity).stretches) {
      ASSERT_EQ(stretch.in_gradient, placed[stretch.gradient]);
      ASSERT_EQ(stretch.buffer * capacity + stretch.in_buffer, at);
      ASSERT_LE(stretch.in_buffer + stretch.length, capacity);
      placed[stretch.gradient] += stretch.length;
      at += stretch.length;
    }

    ASSERT_EQ(placed, sizes);
  }
}

TEST(Packer, CutsAGradientThatIsLargerThanABuffer) {
  const std::uint64_t sizes[] = {3, 9};

  const FusionPlan plan = plan_fusion(sizes, 4);

  EXPECT_EQ(
      plan.stretches,
      (std::vector<Stretch>{{0, 0, 0, 0, 3}, {1, 0, 0, 3, 1}, {1, 1, 1, 0, 4}, {1, 5, 2, 0, 4}}));
}

TEST(Packer, BeginsANewBufferAfterAStep) {
  Packer packer(4);
  packer.add(3);
  packer.close();
  packer.close();

  EXPECT_EQ(packer.add(2), (std::vector<Stretch>{{1, 0, 1, 0, 2}}));
}

// Elements that each host combines, of `count`: those of the ranks' own steps.
std::vector<std::uint64_t> shares_of(std::uint64_t count, const std::vector<std::int32_t>& host) {
  std::vector<std::uint64_t> shares(static_cast<std::size_t>(host.back()) + 1);
  for (std::size_t rank = 0; rank < host.size(); ++rank) {
    const World world{.rank = static_cast<std::int32_t>(rank),
                      .size = static_cast<std::int32_t>(host.size()),
                      .host = host};
    for (const Step& step :
         make_schedule(Algorithm::kBalanced, {OpKind::kAllReduce, count}, world).steps) {
      shares[static_cast<std::size_t>(host[rank])] += step.finish ? step.length : 0;
    }
  }
  return shares;
}

TEST(Balanced, GivesEveryHostTheSameShareToAnElement) {
  const std::vector<std::vector<std::int32_t>> worlds = {
      {0, 1}, {0, 0, 0, 0, 1}, {0, 1, 1, 1, 2, 2}, {0, 0, 1, 2, 2, 2, 2, 3}};
  for (const std::vector<std::int32_t>& host : worlds) {
    for (const std::uint64_t count : {0, 1, 2, 3, 7, 100, 101, 102, 103}) {
      const std::vector<std::uint64_t> shares = shares_of(count, host);
      const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
      EXPECT_LE(*most - *least, 1U) << count;
      EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), count);
    }
  }
}

}  // namespace
}  // namespace trainyard::comm
