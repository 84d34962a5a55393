// SPDX-License-Identifier: Apache-2.0
// What users may rely on beyond right results: equal bits, bounded traffic, bounded room.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/internal/rehearsal.h"

namespace trainyard::comm {
namespace {

// The outputs of all ranks for values whose sums depend on the order.
std::vector<std::vector<float>> rough_outputs(const Case& asked) {
  std::vector<SimulatedRank> ranks = ranks_of(asked, true);
  const auto done = simulate(ranks, {.pieces = asked.pieces, .room = ranks[0].schedule.in_flight});
  EXPECT_TRUE(done.has_value()) << done.error().message;
  std::vector<std::vector<float>> outputs;
  outputs.reserve(ranks.size());
  for (std::int32_t r = 0; r < asked.size; ++r) {
    outputs.push_back(output_of(asked, ranks[static_cast<std::size_t>(r)], r));
  }
  return outputs;
}

Traffic traffic_of(const Case& asked) {
  std::vector<SimulatedRank> ranks = ranks_of(asked);
  auto done = simulate(ranks, {.pieces = asked.pieces, .room = ranks[0].schedule.in_flight});
  EXPECT_TRUE(done.has_value()) << done.error().message;
  return *std::move(done);
}

std::uint64_t most_of(const std::vector<std::uint64_t>& values) {
  return *std::max_element(values.begin(), values.end());
}

class AllReduceTest : public testing::TestWithParam<Algorithm> {
 protected:
  Case asked_{.algorithm = GetParam(),
              .size = 11,
              .count = 500,
              .layout = GetParam() == Algorithm::kWindow ? Layout::kOneHost : Layout::kUneven};
};

TEST_P(AllReduceTest, GivesAllRanksTheSameBits) {
  for (const std::uint64_t count : {500U, 5000U}) {
    asked_.count = count;
    const std::vector<std::vector<float>> outputs = rough_outputs(asked_);
    for (const std::vector<float>& output : outputs) {
      ASSERT_EQ(output, outputs[0]);
    }
  }
}

TEST_P(AllReduceTest, GivesTheSameBitsForAnyNumberOfPieces) {
  const std::vector<float> whole = rough_outputs(asked_)[0];

  asked_.pieces = 7;

  EXPECT_EQ(rough_outputs(asked_)[0], whole);
}

TEST_P(AllReduceTest, GivesTheSameBitsInPlace) {
  const std::vector<float> apart = rough_outputs(asked_)[0];

  asked_.in_place = true;

  EXPECT_EQ(rough_outputs(asked_)[0], apart);
}

std::string name_of_algorithm(const testing::TestParamInfo<Algorithm>& info) {
  return std::string(name_of(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, AllReduceTest,
                         testing::Values(Algorithm::kRing, Algorithm::kHalvingDoubling,
                                         Algorithm::kDoubleTree, Algorithm::kDirect,
                                         Algorithm::kDirectSmall, Algorithm::kWindow,
                                         Algorithm::kTwoLevel, Algorithm::kBalanced),
                         name_of_algorithm);

class OptimalTest : public testing::TestWithParam<Algorithm> {};

TEST_P(OptimalTest, SendsNoMoreThanTheTextbook) {
  for (const std::int32_t size : {2, 4, 8, 16}) {
    const auto n = static_cast<std::uint64_t>(size);
    for (const std::uint64_t count : {n * 300, n * 300 + 1}) {
      const std::uint64_t share = (n - 1) * ((count + n - 1) / n);
      Case asked{.algorithm = GetParam(), .size = size, .count = count, .pieces = 3};
      EXPECT_LE(most_of(traffic_of(asked).elements), 2 * share) << to_string(asked);
      asked.kind = OpKind::kReduceScatter;
      EXPECT_LE(most_of(traffic_of(asked).elements), share) << to_string(asked);
      asked.kind = OpKind::kAllGather;
      EXPECT_LE(most_of(traffic_of(asked).elements), share) << to_string(asked);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimalTest,
                         testing::Values(Algorithm::kRing, Algorithm::kDirect,
                                         Algorithm::kHalvingDoubling),
                         name_of_algorithm);

TEST(DirectBroadcast, SendsTheBufferOnceOrTwiceThroughTheRoot) {
  Case asked{.algorithm = Algorithm::kDirect, .kind = OpKind::kBroadcast, .size = 8, .count = 800};
  EXPECT_EQ(most_of(traffic_of(asked).elements), 2 * 700U);

  asked.algorithm = Algorithm::kRing;
  EXPECT_EQ(most_of(traffic_of(asked).elements), 800U);
}

TEST(Ring, NeedsRoomForThreeMessagesOnly) {
  for (const std::int32_t size : {2, 3, 8, 17}) {
    const Case asked{.algorithm = Algorithm::kRing, .size = size, .count = 1000, .pieces = 20};
    std::vector<SimulatedRank> ranks = ranks_of(asked);
    const auto done = simulate(ranks, {.pieces = 20, .room = 3});
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }
}

TEST(Trees, NeedRoomForTwoMessagesInEachTree) {
  for (const Algorithm algorithm : {Algorithm::kDoubleTree, Algorithm::kDirectSmall}) {
    const Case asked{.algorithm = algorithm, .size = 13, .count = 1000, .pieces = 20};
    std::vector<SimulatedRank> ranks = ranks_of(asked);
    const std::uint64_t room = algorithm == Algorithm::kDoubleTree ? 4 : 2;
    const auto done = simulate(ranks, {.pieces = 20, .room = room});
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }
}

TEST(DoubleTree, LetsNobodyCombineInBothTrees) {
  for (std::int32_t size = 2; size <= 17; ++size) {
    const Case asked{.algorithm = Algorithm::kDoubleTree, .size = size, .count = 100};
    for (const SimulatedRank& rank : ranks_of(asked)) {
      const std::vector<Step>& steps = rank.schedule.steps;
      const auto combines = [](const Step& step) { return step.own && !step.from.empty(); };
      EXPECT_LE(std::count_if(steps.begin(), steps.end(), combines), 1) << to_string(rank.schedule);
    }
  }
}

TEST(Ring, CrossesEachHostBoundaryOnce) {
  const World world{.rank = 4, .size = 6, .host = {0, 1, 0, 1, 0, 1}};

  const Schedule schedule = make_schedule(Algorithm::kRing, {OpKind::kAllReduce, 60}, world);

  EXPECT_EQ(schedule.steps[0].to, std::vector<std::int32_t>{1});    // the next host's first
  EXPECT_EQ(schedule.steps[1].from, std::vector<std::int32_t>{2});  // the neighbour in this host
}

TEST(TwoLevel, SendsEachPartOnceBetweenHosts) {
  const World world{.rank = 1, .size = 4, .host = {0, 0, 1, 1}};

  const Schedule schedule =
      make_schedule(Algorithm::kTwoLevel, {OpKind::kReduceScatter, 40}, world);

  EXPECT_EQ(to_string(schedule),
            "L1 two_level: in[0:10) -> 0\n"
            "L0 two_level: in[20:30) -> 0\n"
            "L1 two_level: in[30:40) + message of 0 -> 3\n"
            "L2 two_level: out[0:10) = in[10:20) + message of 0 3, final\n");
}

TEST(Mesh, SendsEachPartOnceToEachOtherHost) {
  const World world{.rank = 1, .size = 4, .host = {0, 0, 1, 1}};

  const Schedule schedule = make_schedule(Algorithm::kMesh, {OpKind::kAllGather, 40}, world);

  EXPECT_EQ(to_string(schedule),
            "L0 mesh: out[10:20) = in[0:10) -> 0\n"
            "L1 mesh: in[0:10) -> 3\n"
            "L1 mesh: out[0:10) = message of 0\n"
            "L3 mesh: out[20:30) = message of 0\n"
            "L2 mesh: out[30:40) = message of 3 -> 0\n");
}

TEST(Mesh, NeedsNoMoreRoomForMoreHosts) {
  const auto room = [](std::int32_t hosts) {
    World world{.size = 2 * hosts};
    for (std::int32_t r = 0; r < world.size; ++r) {
      world.host.push_back(r / 2);
    }
    const Request request{OpKind::kAllGather, 1000};
    return std::pair(make_schedule(Algorithm::kMesh, request, world).in_flight,
                     make_schedule(Algorithm::kTwoLevel, request, world).in_flight);
  };
  EXPECT_EQ(room(3).first, room(12).first);
  EXPECT_LT(room(12).first, room(12).second);
}

// One message to another host at a time, and one from there.
TEST(Mesh, HitsNobodyFromTwoHostsAtOnce) {
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    const World world{.rank = rank, .size = 8, .host = {0, 0, 1, 1, 2, 2, 3, 3}};
    const Schedule schedule = make_schedule(Algorithm::kMesh, {OpKind::kAllGather, 80}, world);
    std::vector<int> sent(3);
    std::vector<int> received(3);
    for (const Step& step : schedule.steps) {
      const auto is_far = [&](const std::vector<std::int32_t>& peers) {
        return !peers.empty() && peers[0] / 2 != rank / 2;
      };
      sent[static_cast<std::size_t>(step.level) % 3] += is_far(step.to) ? 1 : 0;
      received[static_cast<std::size_t>(step.level) % 3] += is_far(step.from) ? 1 : 0;
    }
    EXPECT_EQ(schedule.stride, 3);
    EXPECT_EQ(sent, std::vector<int>(3, 1));
    EXPECT_EQ(received, std::vector<int>(3, 1));
  }
}

TEST(Barrier, LetsNobodyOutBeforeAllAreIn) {
  // The last rank waits for a message of the world outside, and so must all others.
  for (const Algorithm algorithm :
       {Algorithm::kDirect, Algorithm::kHalvingDoubling, Algorithm::kTwoLevel}) {
    for (std::int32_t size = 3; size <= 9; ++size) {
      std::vector<SimulatedRank> ranks = ranks_of({.algorithm = algorithm,
                                                   .kind = OpKind::kBarrier,
                                                   .size = size,
                                                   .layout = Layout::kUneven});
      std::vector<Step>& last = ranks.back().schedule.steps;
      last.insert(last.begin(), Step{.from = {size - 1}, .token = true});
      const auto done = simulate(ranks, {.room = 100});
      ASSERT_FALSE(done.has_value());
      const std::string& picture = done.error().message;
      EXPECT_EQ(std::count(picture.begin(), picture.end(), '\n'), size + 1) << picture;
    }
  }
}

TEST(Algorithms, AreNamed) {
  EXPECT_EQ(name_of(Algorithm::kTwoLevel), "two_level");
  EXPECT_EQ(*parse_algorithm("halving_doubling"), Algorithm::kHalvingDoubling);
  EXPECT_EQ(parse_algorithm("rings").error().message,
            "\"rings\" is no algorithm; they are: ring, halving_doubling, double_tree, direct, "
            "direct_small, window, single_copy, two_level, balanced, mesh");
}

TEST(Algorithms, NeedTheHostsThatTheyAreFor) {
  const World one_host{.size = 4, .host = {3, 3, 3, 3}};
  const World two_hosts{.size = 4, .host = {0, 1, 0, 1}};
  const World four_hosts{.size = 4, .host = {0, 1, 2, 3}};

  EXPECT_TRUE(is_available(Algorithm::kWindow, OpKind::kAllReduce, one_host));
  EXPECT_FALSE(is_available(Algorithm::kWindow, OpKind::kAllReduce, two_hosts));
  EXPECT_TRUE(is_available(Algorithm::kSingleCopy, OpKind::kAllGather, one_host));
  EXPECT_FALSE(is_available(Algorithm::kSingleCopy, OpKind::kAllReduce, one_host));
  EXPECT_FALSE(is_available(Algorithm::kSingleCopy, OpKind::kAllGather, two_hosts));
  EXPECT_TRUE(is_available(Algorithm::kTwoLevel, OpKind::kAllReduce, two_hosts));
  EXPECT_FALSE(is_available(Algorithm::kTwoLevel, OpKind::kAllReduce, four_hosts));
  EXPECT_FALSE(is_available(Algorithm::kRing, OpKind::kBarrier, one_host));
}

}  // namespace
}  // namespace trainyard::comm
