// SPDX-License-Identifier: Apache-2.0
#include "comm/run/plan.h"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

constexpr Limits kWide{.max_message = 1 << 20, .room = 1 << 24, .message_cost = 128};
constexpr Slice kIn{Region::kInput, 0, 100};
constexpr Slice kOut{Region::kOutput, 0, 100};

Schedule schedule_of(std::vector<Step> steps, std::uint64_t in_flight) {
  for (Step& step : steps) {
    step.length = 100;
  }
  return {.algorithm = "test", .steps = std::move(steps), .longest = 100, .in_flight = in_flight};
}

// Sends its input at level 0, and at `level` stores what comes.
Schedule exchange(std::int32_t level) {
  return schedule_of({{.own = kIn, .to = {1}}, {.from = {1}, .store = kOut, .level = level}}, 2);
}

std::uint64_t pieces(const Limits& limits, const Shape& shape, std::uint64_t in_flight = 2) {
  Schedule schedule = exchange(1);
  schedule.in_flight = in_flight;
  return make_plan(schedule, shape, limits).pieces;
}

TEST(Plan, CutsByWhatIsSmallest) {
  EXPECT_EQ(pieces(kWide, {.element = 4}), 1U);
  EXPECT_EQ(pieces(kWide, {.element = 4, .piece_bytes = 100}), 4U);
  EXPECT_EQ(pieces({.max_message = 50, .room = 1 << 20, .message_cost = 128}, {.element = 4}), 9U);
  // Room for two messages of 72 bytes, each with its cost.
  EXPECT_EQ(pieces({.max_message = 1 << 20, .room = 400, .message_cost = 128}, {.element = 4}, 4),
            6U);
}

TEST(Plan, CutsToElementsWhenThereIsAlmostNoRoom) {
  EXPECT_EQ(pieces({.max_message = 8, .room = 1, .message_cost = 128}, {.element = 4}), 100U);
}

TEST(Plan, BoundsWhatIsUnderWay) {
  // Two messages of 64 bytes beside their cost, and the same room for each of three peers in turn.
  Schedule schedule = exchange(1);
  schedule.in_flight = 2;
  schedule.stride = 3;
  const Plan small =
      make_plan(schedule, {.element = 4, .most_under_way = std::uint64_t{2} * (64 + 128)}, kWide);
  EXPECT_EQ(small.pieces, 7U);
  EXPECT_EQ(small.window, 2U);
  EXPECT_EQ(make_plan(schedule, {.element = 4, .most_under_way = 12000}, kWide).window, 10U);
  EXPECT_EQ(make_plan(schedule, {.element = 4}, kWide).window, 0U);
}

TEST(Plan, PutsStepsInTheOrderOfTheirLevels) {
  Schedule schedule = schedule_of({{.own = kIn, .store = kOut, .level = 2},
                                   {.own = kIn, .store = kOut},
                                   {.own = kIn, .store = kOut, .level = 2}},
                                  0);
  const Plan plan = make_plan(schedule, {.element = 4}, kWide);
  EXPECT_EQ(plan.levels, 3);
  EXPECT_EQ(plan.order, (std::vector<std::uint32_t>{1, 0, 2}));
  EXPECT_EQ(plan.first, (std::vector<std::uint32_t>{0, 1, 1, 3}));
}

TEST(Plan, LetsBytesStayThatNobodyOverwrites) {
  EXPECT_TRUE(make_plan(exchange(1), {.element = 4}, kWide).may_stay[0]);
  EXPECT_FALSE(make_plan(exchange(1), {.element = 4}, kWide).may_stay[1]);
}

// Of 64 ranks with long slices: cutting and ordering them must not take longer than sending them.
TEST(Plan, OfManyStepsIsMadeAtOnce) {
  std::vector<Step> steps;
  for (std::int32_t i = 0; i < 50'000; ++i) {
    steps.push_back({.own = kIn, .to = {1}, .level = i});
    steps.push_back({.from = {1}, .store = kOut, .level = i + 1});
  }
  const Schedule schedule = schedule_of(std::move(steps), 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = make_plan(schedule, {.element = 4}, kWide);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(plan.order[1], 1U);
  EXPECT_EQ(plan.order[2], 2U);
}

TEST(Plan, CopiesWhatIsOverwrittenAsItIsReceived) {
  const Shape in_place{.element = 4, .shift = 0};
  EXPECT_FALSE(make_plan(exchange(1), in_place, kWide).may_stay[0]);
  EXPECT_TRUE(make_plan(exchange(2), in_place, kWide).may_stay[0]);
  // The output begins where the input ends.
  EXPECT_TRUE(make_plan(exchange(1), {.element = 4, .shift = 100}, kWide).may_stay[0]);
}

TEST(Plan, CopiesWhatOtherPiecesOverwrite) {
  Schedule schedule = exchange(2);
  schedule.steps[1].store = Slice{Region::kOutput, 50, 100};
  const Shape one_piece{.element = 4, .shift = 0};
  const Shape many{.element = 4, .piece_bytes = 40, .shift = 0};
  EXPECT_TRUE(make_plan(schedule, one_piece, kWide).may_stay[0]);
  EXPECT_FALSE(make_plan(schedule, many, kWide).may_stay[0]);
}

TEST(PlanCache, KeepsPlansByAllTheyDependOn) {
  PlanCache cache;
  const PlanKey key{.signature = {.kind = OpKind::kAllReduce, .count = 100}, .choice = {}};
  EXPECT_EQ(cache.find(key), nullptr);
  const Plan* kept = cache.keep(key, make_plan(exchange(1), {.element = 4}, kWide));
  EXPECT_EQ(cache.find(key), kept);
  PlanKey other = key;
  other.in_place = true;
  EXPECT_EQ(cache.find(other), nullptr);
  other = key;
  other.choice.piece_bytes = 1;
  EXPECT_EQ(cache.find(other), nullptr);
}

}  // namespace
}  // namespace trainyard::comm
