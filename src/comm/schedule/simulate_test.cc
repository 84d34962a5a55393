// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/schedule/internal/rehearsal.h"

namespace trainyard::comm {
namespace {

using testing::HasSubstr;

constexpr Slice kIn{Region::kInput, 0, 4};
constexpr Slice kOut{Region::kOutput, 0, 4};

// A rank with four elements of input and four of output.
SimulatedRank rank_with(std::vector<Step> steps) {
  SimulatedRank rank;
  for (Step& step : steps) {
    step.length = step.token ? 0 : 4;
  }
  rank.schedule = {.algorithm = "test", .steps = std::move(steps), .longest = 4};
  rank.memory.resize(8);
  for (std::size_t i = 0; i < 4; ++i) {
    rank.memory[i] = {.value = static_cast<float>(i), .is_known = true};
  }
  rank.output_at = 4;
  return rank;
}

Error error_of(std::vector<SimulatedRank> ranks, const Conditions& conditions = {}) {
  const auto done = simulate(ranks, conditions);
  EXPECT_FALSE(done.has_value());
  return done ? Error{} : done.error();
}

TEST(Simulate, MovesValuesAndCountsThem) {
  std::vector<SimulatedRank> ranks = {rank_with({{.own = kIn, .to = {1}}}),
                                      rank_with({{.from = {0}, .store = kOut, .level = 1}})};

  const auto traffic = simulate(ranks, {.pieces = 3});

  ASSERT_TRUE(traffic.has_value()) << traffic.error().message;
  EXPECT_EQ(ranks[1].memory[7].value, 3);
  EXPECT_EQ(traffic->elements, (std::vector<std::uint64_t>{4, 0}));
  EXPECT_EQ(traffic->messages, (std::vector<std::uint64_t>{3, 0}));
}

TEST(Simulate, PrintsWhoWaitsForWhom) {
  const Error error = error_of(
      {rank_with({{.from = {1}, .store = kOut}}), rank_with({{.from = {0}, .store = kOut}})});

  EXPECT_EQ(error.code, Code::kDeadline);
  EXPECT_THAT(error.message, HasSubstr("rank 0 does step 0, piece 0 of 1 (L0 test: out[0:4) = "
                                       "message of 1) and waits for a message of rank 1\n"));
  EXPECT_THAT(error.message, HasSubstr("and waits for a message of rank 0\n"));
}

TEST(Simulate, SeesRanksThatAllWaitForRoom) {
  const Case asked{.algorithm = Algorithm::kDirect, .size = 4, .count = 400, .pieces = 2};

  const Error error = error_of(ranks_of(asked), {.pieces = 2, .room = 2});

  EXPECT_EQ(error.code, Code::kDeadline);
  EXPECT_THAT(error.message, HasSubstr("waits for room for a message, as had by rank"));
}

TEST(Simulate, SeesMessagesOfAnotherLength) {
  std::vector<SimulatedRank> ranks = {rank_with({{.own = kIn, .to = {1}}}),
                                      rank_with({{.from = {0}, .store = kOut, .level = 1}})};
  ranks[1].schedule.steps[0].length = 3;

  EXPECT_EQ(error_of(ranks).code, Code::kConflict);
}

TEST(Simulate, SeesMessagesThatAreNotReceivedAtTheNextLevel) {
  EXPECT_EQ(error_of({rank_with({{.own = kIn, .to = {1}}}),
                      rank_with({{.from = {0}, .store = kOut, .level = 2}})})
                .code,
            Code::kConflict);
}

TEST(Simulate, SeesMessagesThatNobodyReceives) {
  const Error error = error_of({rank_with({{.own = kIn, .to = {1}}}), rank_with({})});

  EXPECT_EQ(error.code, Code::kConflict);
  EXPECT_THAT(error.message, HasSubstr("rank 1 never received a message of rank 0"));
}

TEST(Simulate, SeesValuesThatWereNeverWritten) {
  const Error error = error_of({rank_with({{.own = kOut, .to = {1}}}), rank_with({})});

  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("never written"));
}

TEST(Simulate, SeesElementsBeyondTheBuffers) {
  EXPECT_EQ(error_of({rank_with({{.own = kIn, .store = Slice{Region::kOutput, 1, 4}}})}).code,
            Code::kCorrupt);
}

TEST(Simulate, SeesWhatIsCombinedAfterItWasFinal) {
  EXPECT_EQ(error_of({rank_with({{.own = kIn, .store = kOut, .finish = true},
                                 {.own = kOut, .store = kOut, .level = 1, .finish = true}})})
                .code,
            Code::kCorrupt);
}

TEST(Simulate, SeesWindowsThatAreWrittenByTwo) {
  const Step write{.own = kIn, .write = {2}, .remote = kOut};
  std::vector<SimulatedRank> ranks = {rank_with({write}), rank_with({write}), rank_with({})};
  for (SimulatedRank& rank : ranks) {
    rank.schedule.windows = true;
  }

  const Error error = error_of(ranks);

  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("writes what another rank may be using at rank 2"));
}

TEST(Simulate, SeesWindowsWithoutAMeetingAtTheEnd) {
  std::vector<SimulatedRank> ranks =
      ranks_of({.algorithm = Algorithm::kWindow, .size = 3, .count = 9});
  for (SimulatedRank& rank : ranks) {
    std::erase_if(rank.schedule.steps, [](const Step& step) { return step.token; });
  }

  const Error error = error_of(ranks);

  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("is done while others may use its memory"));
}

TEST(Simulate, SeesWindowsInPlaceThatAreReadAfterTheyAreWritten) {
  // Rank 1 combines rank 0's part too late: rank 0 may have written it.
  std::vector<SimulatedRank> ranks =
      ranks_of({.algorithm = Algorithm::kWindow, .size = 2, .count = 4, .in_place = true});
  ranks[1].schedule.steps[0].remote = ranks[0].schedule.steps[0].remote;

  EXPECT_EQ(error_of(ranks).code, Code::kCorrupt);
}

TEST(MostInFlight, CountsTwoNeighbouringTimes) {
  const Step send{.own = kIn, .to = {1}, .length = 4};
  Step later = send;
  later.level = 1;
  Schedule schedule{.steps = {send, later, later}, .longest = 4, .stride = 1};

  EXPECT_EQ(most_in_flight(schedule), 6U);
  schedule.stride = 3;
  EXPECT_EQ(most_in_flight(schedule), 3U);
}

}  // namespace
}  // namespace trainyard::comm
