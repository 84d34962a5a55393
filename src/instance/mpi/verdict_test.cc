// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/verdict.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instance/mpi/gathering.h"

namespace trainyard::instance {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

RankEnd rank_end(int rank, ExitStatus status) {
  return {.rank = rank, .host = rank < 2 ? "algo-1" : "algo-2", .status = status};
}

TEST(Verdict, IsCleanWhenMpirunIs) {
  const ProcessEnd end = verdict_of({.ends = {rank_end(0, {}), rank_end(1, {})}, .mpirun = {}});
  EXPECT_EQ(end.code, 0);
  EXPECT_FALSE(end.rank);
}

TEST(Verdict, NamesTheRankThatFailedFirst) {
  const ProcessEnd end =
      verdict_of({.ends = {rank_end(3, {.code = 3}), rank_end(0, {.signal = SIGTERM}),
                           rank_end(1, {.signal = SIGTERM})},
                  .mpirun = {.code = 3}});
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.rank, 3);
  EXPECT_EQ(end.host, "algo-2");
  EXPECT_FALSE(end.victim);
}

TEST(Verdict, NamesASignalByItsNumber) {
  const ProcessEnd end =
      verdict_of({.ends = {rank_end(1, {.signal = SIGSEGV})}, .mpirun = {.code = 139}});
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.rank, 1);
}

// MPI_Abort(5): the one that called it may be heard of after those that it took along.
TEST(Verdict, FollowsMpirunsCodeToTheRankThatAborted) {
  const ProcessEnd end =
      verdict_of({.ends = {rank_end(0, {.signal = SIGTERM}), rank_end(2, {.code = 5})},
                  .mpirun = {.code = 5}});
  EXPECT_EQ(end.rank, 2);
  EXPECT_EQ(end.code, 5);
}

TEST(Verdict, BlamesMpirunWhenNoRankFailed) {
  const ProcessEnd end = verdict_of({.ends = {}, .mpirun = {.code = 213}});
  EXPECT_EQ(end.code, 213);
  EXPECT_FALSE(end.rank);
}

TEST(Verdict, MarksWhoeverFailsInAStopAsAVictim) {
  const ProcessEnd end = verdict_of(
      {.ends = {rank_end(0, {.signal = SIGTERM})}, .mpirun = {.code = 143}, .stopping = true});
  EXPECT_TRUE(end.victim);
  EXPECT_EQ(end.signal, SIGTERM);
}

TEST(Gathering, KeepsTheLinesOfRanksApart) {
  Gathering gathering(/*several=*/true);
  const SteadyTime now{};
  EXPECT_THAT(gathering.heard(0, "a", now), IsEmpty());
  EXPECT_THAT(gathering.heard(1, "b\n", now), ElementsAre("[rank 1] b"));
  EXPECT_THAT(gathering.heard(0, "a\nrest", now), ElementsAre("[rank 0] aa"));
  EXPECT_THAT(gathering.heard(Gathering::kMpirun, "map\n", now), ElementsAre("map"));
}

TEST(Gathering, IsQuietWhenEveryRankHasEnded) {
  Gathering gathering(/*several=*/false);
  EXPECT_TRUE(gathering.is_quiet());
  gathering.joined();
  EXPECT_FALSE(gathering.is_quiet());
  EXPECT_THAT(gathering.heard(0, "the end", SteadyTime{}), IsEmpty());
  EXPECT_THAT(gathering.ended(rank_end(0, {.code = 3})), ElementsAre("the end"));
  EXPECT_TRUE(gathering.is_quiet());
  EXPECT_THAT(gathering.ends().at(0).lines, ElementsAre("the end"));
}

// It travels through a splitter of lines, which divides what is longer than kMaxEvent.
TEST(Gathering, KeepsTheVerdictOnOneLineHoweverLongThoseOfTheRankAre) {
  Gathering gathering(/*several=*/true);
  gathering.joined();
  std::string text;
  for (std::size_t line = 0; line < LastLines::kMost; ++line) {
    for (std::size_t i = 0; i < 100'000; ++i) {
      text += "\u20ac";
    }
    text += "\n";
  }
  gathering.heard(2, text, SteadyTime{});
  gathering.ended(rank_end(2, {.code = 3}));
  const std::string line = to_line(verdict_of({.ends = gathering.ends(), .mpirun = {.code = 3}}));
  EXPECT_LT(line.size(), LineSplitter::kMaxEvent / 2);
  const Result<ProcessEnd> end = process_end_from_line(line);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->rank, 2);
  EXPECT_EQ(end->host, "algo-2");
  EXPECT_THAT(end->lines, Each(StartsWith("[rank 2] \u20ac")));
}

}  // namespace
}  // namespace trainyard::instance
