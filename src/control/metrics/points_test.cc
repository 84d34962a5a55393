// SPDX-License-Identifier: Apache-2.0
#include "control/metrics/points.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

WallTime at(std::int64_t milliseconds) {
  return WallTime(Duration(milliseconds));
}

TEST(PackedPoints, AreTheSameAfterwards) {
  const std::vector<Point> points = {{at(0), -0.0},
                                     {at(1'795'983'734'120), 0.1},
                                     {at(-5), -kInfinity},
                                     {at(7), std::nan("")},
                                     {at(8), std::numeric_limits<double>::denorm_min()}};
  const std::string packed = pack(points);
  EXPECT_EQ(packed.size(), 80U);
  const auto got = unpack(packed);
  ASSERT_TRUE(got);
  EXPECT_EQ(pack(*got), packed);
  EXPECT_TRUE(std::isnan((*got)[3].value));
  EXPECT_EQ((*got)[1].at, at(1'795'983'734'120));
}

TEST(PackedPoints, AreLittleEndian) {
  const std::vector<Point> points = {{at(0x0102), 1.0}};
  EXPECT_EQ(pack(points), std::string("\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f", 16));
}

TEST(PackedPoints, ThatAreCutOffAreDamage) {
  EXPECT_EQ(unpack("0123456789").error().code, Code::kCorrupt);
}

std::vector<std::size_t> sizes(const std::vector<std::span<const Point>>& pieces) {
  std::vector<std::size_t> sizes;
  sizes.reserve(pieces.size());
  for (const auto& piece : pieces) {
    sizes.push_back(piece.size());
  }
  return sizes;
}

TEST(Cut, MakesPiecesOfLimitedSize) {
  EXPECT_THAT(sizes(cut({})), ElementsAre());
  EXPECT_THAT(sizes(cut(std::vector<Point>(kMostPacked + 1))), ElementsAre(kMostPacked, 1));
}

TEST(Cut, MakesPiecesOfLimitedTimeInEitherDirection) {
  const std::vector<Point> points = {
      {at(60'000), 1}, {at(0), 2}, {at(30'000), 3}, {at(60'001), 4}, {at(0), 5}};
  EXPECT_THAT(sizes(cut(points)), ElementsAre(3, 1, 1));
}

TEST(Aggregate, LeavesOutWhatIsNotFinite) {
  Aggregate all;
  for (const double value : {std::nan(""), 3.0, kInfinity, -1.0, -kInfinity}) {
    all.add(value);
  }
  EXPECT_EQ(all, (Aggregate{.count = 2, .sum = 2, .least = -1, .most = 3}));
}

TEST(Aggregate, OfAggregatesIsThatOfTheirValues) {
  Aggregate left;
  left.add(-4);
  Aggregate right;
  right.add(-2);
  right.add(-9);
  left.merge(right);
  left.merge({});
  EXPECT_EQ(left, (Aggregate{.count = 3, .sum = -15, .least = -9, .most = -2}));
}

TEST(StartOf, IsAMultipleOfThePeriod) {
  EXPECT_EQ(start_of(at(119'999), Duration(60'000)), at(60'000));
  EXPECT_EQ(start_of(at(120'000), Duration(60'000)), at(120'000));
  EXPECT_EQ(start_of(at(-1), Duration(60'000)), at(-60'000));
}

TEST(Buckets, HoldPointsByTheirPeriod) {
  Buckets buckets;
  const std::vector<Point> points = {
      {at(999), 1}, {at(1'000), 2}, {at(1'999), 4}, {at(5'000), std::nan("")}};
  add(points, Duration(1'000), buckets);
  EXPECT_THAT(buckets, ElementsAre(Pair(at(0), Aggregate{1, 1, 1, 1}),
                                   Pair(at(1'000), Aggregate{2, 6, 2, 4})));
}

}  // namespace
}  // namespace trainyard::control
