// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/schedule.h"

#include <gtest/gtest.h>

#include "comm/schedule/algorithms.h"

namespace trainyard::comm {
namespace {

TEST(Piece, CoversTheSliceInOrder) {
  const Slice slice{Region::kOutput, 100, 10};

  EXPECT_EQ(piece_of(slice, 0, 3), (Slice{Region::kOutput, 100, 3}));
  EXPECT_EQ(piece_of(slice, 1, 3), (Slice{Region::kOutput, 103, 3}));
  EXPECT_EQ(piece_of(slice, 2, 3), (Slice{Region::kOutput, 106, 4}));
}

TEST(Piece, IsEmptyWhereThereAreMorePiecesThanElements) {
  EXPECT_EQ(piece_of({Region::kInput, 0, 1}, 0, 2).length, 0U);
  EXPECT_EQ(piece_of({Region::kInput, 0, 1}, 1, 2).length, 1U);
}

TEST(Piece, DoesNotOverflow) {
  constexpr std::uint64_t kLong = std::uint64_t{1} << 60;

  EXPECT_EQ(piece_of({Region::kInput, 0, kLong}, 99, 100).offset, kLong / 100 * 99 + 75);
}

TEST(Part, GivesTheRemainderToTheFirst) {
  EXPECT_EQ(part_of(Region::kInput, 10, 4, 0), (Slice{Region::kInput, 0, 3}));
  EXPECT_EQ(part_of(Region::kInput, 10, 4, 1), (Slice{Region::kInput, 3, 3}));
  EXPECT_EQ(part_of(Region::kInput, 10, 4, 2), (Slice{Region::kInput, 6, 2}));
  EXPECT_EQ(part_of(Region::kInput, 10, 4, 3), (Slice{Region::kInput, 8, 2}));
}

TEST(Schedule, PrintsOneLineAStep) {
  const World world{.rank = 1, .size = 3, .host = {0, 0, 0}};

  const Schedule ring = make_schedule(Algorithm::kRing, {OpKind::kAllReduce, 6}, world);

  EXPECT_EQ(to_string(ring),
            "L0 ring: in[0:2) -> 2\n"
            "L1 ring: in[4:6) + message of 0 -> 2\n"
            "L2 ring: out[2:4) = in[2:4) + message of 0, final -> 2\n"
            "L3 ring: out[0:2) = message of 0 -> 2\n"
            "L4 ring: out[4:6) = message of 0\n");
}

TEST(Schedule, PrintsWindowsAndTokens) {
  const World world{.rank = 0, .size = 3, .host = {0, 0, 0}};

  const Schedule window = make_schedule(Algorithm::kWindow, {OpKind::kAllReduce, 6}, world);

  EXPECT_EQ(to_string(window),
            "L0 window: out[0:2), out[0:2) of 1 2 = in[0:2) + in[0:2) of 1 2, final\n"
            "L1 window: token -> 1 2\n"
            "L2 window: token of 1 2\n");
}

}  // namespace
}  // namespace trainyard::comm
