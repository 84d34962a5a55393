// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "testing/fake_clock.h"

namespace trainyard {
namespace {

constexpr std::int64_t kSecond = 1795983125;  // date -u -d 2026-11-29T20:12:05Z +%s
const WallTime kTime(std::chrono::milliseconds(kSecond * 1000 + 123));

TEST(TextOfATime, TakesTheThreeForms) {
  EXPECT_EQ(to_iso8601(kTime), "2026-11-29T20:12:05.123Z");
  EXPECT_EQ(to_basic_iso8601(kTime), "20261129T201205Z");
  EXPECT_EQ(to_http_date(kTime), "Sun, 29 Nov 2026 20:12:05 GMT");
}

TEST(TextOfATime, IsRightBefore1970AndOnLeapDays) {
  EXPECT_EQ(to_iso8601(WallTime(std::chrono::milliseconds(-1))), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(to_http_date(WallTime(std::chrono::seconds(951782400))),
            "Tue, 29 Feb 2000 00:00:00 GMT");
}

TEST(ParseIso8601, ReadsFractionsAndZones) {
  EXPECT_EQ(*parse_iso8601("2026-11-29T20:12:05.123Z"), kTime);
  EXPECT_EQ(*parse_iso8601("2026-11-29T20:12:05.123987654Z"), kTime);
  EXPECT_EQ(*parse_iso8601("2026-11-29T21:12:05.123+01:00"), kTime);
  EXPECT_EQ(*parse_iso8601("2026-11-29T14:42:05.123-0530"), kTime);
  EXPECT_EQ(*parse_iso8601("2026-11-29T20:12:05.1Z"), kTime - std::chrono::milliseconds(23));
  EXPECT_EQ(*parse_iso8601("2026-11-29T20:12:05Z"), kTime - std::chrono::milliseconds(123));
}

class BadIso8601 : public ::testing::TestWithParam<const char*> {};

TEST_P(BadIso8601, IsRefused) {
  EXPECT_EQ(parse_iso8601(GetParam()).error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadIso8601,
    ::testing::Values("", "2026", "2026-11-29", "2026-11-29T20:12:05", "2026-13-01T00:00:00Z",
                      "2026-02-29T00:00:00Z", "2026-01-00T00:00:00Z", "2026-01-01T24:00:00Z",
                      "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z",
                      "2026-01-01T00:00:00Z ", " 2026-01-01T00:00:00Z", "2026-01-01 00:00:00Z",
                      "2026-01-01T00:00:00+1:00", "-026-01-01T00:00:00Z", "2026-+1-01T00:00:00Z"));

TEST(ParseBasicIso8601, ReadsTheSignersForm) {
  EXPECT_EQ(*parse_basic_iso8601("20261129T201205Z"), kTime - std::chrono::milliseconds(123));
  EXPECT_FALSE(parse_basic_iso8601("20261129T201205").has_value());
  EXPECT_FALSE(parse_basic_iso8601("20261329T201205Z").has_value());
  EXPECT_FALSE(parse_basic_iso8601("20261129T201205Z0").has_value());
}

TEST(ParseHttpDate, ReadsTheFormThatSendersMayUse) {
  EXPECT_EQ(*parse_http_date("Sun, 29 Nov 2026 20:12:05 GMT"),
            kTime - std::chrono::milliseconds(123));
  EXPECT_FALSE(parse_http_date("Sun, 29 Nov 2026 20:12:05 CET").has_value());
  EXPECT_FALSE(parse_http_date("Sun, 29 Foo 2026 20:12:05 GMT").has_value());
  EXPECT_FALSE(parse_http_date("").has_value());
}

TEST(Times, ComeBackFromEachOfTheirTexts) {
  for (std::int64_t day = -30000; day < 60000; day += 97) {
    const WallTime time(std::chrono::seconds(day * 86400 + day % 86400 + 1));
    EXPECT_EQ(*parse_iso8601(to_iso8601(time)), time);
    EXPECT_EQ(*parse_basic_iso8601(to_basic_iso8601(time)), time);
    EXPECT_EQ(*parse_http_date(to_http_date(time)), time);
  }
}

TEST(EpochSeconds, KeepMilliseconds) {
  EXPECT_DOUBLE_EQ(to_epoch_seconds(kTime), 1795983125.123);
  EXPECT_EQ(from_epoch_seconds(1795983125.123), kTime);
  EXPECT_EQ(from_epoch_seconds(to_epoch_seconds(WallTime{})), WallTime{});
}

TEST(EpochSeconds, AreBoundedWhereNoTimeExists) {
  EXPECT_EQ(from_epoch_seconds(std::nan("")), WallTime{});
  EXPECT_EQ(to_iso8601(from_epoch_seconds(std::numeric_limits<double>::infinity())),
            "9999-12-31T23:59:59.000Z");
}

TEST(SystemClock, MovesOn) {
  const SystemClock clock;
  const SteadyTime before = clock.steady_now();
  EXPECT_GT(clock.now(), kTime - std::chrono::years(5));
  EXPECT_LE(before, clock.steady_now());
}

TEST(FakeClock, MovesOnlyWhenTold) {
  testing::FakeClock clock;
  EXPECT_EQ(to_iso8601(clock.now()), "2026-11-29T20:12:05.000Z");
  const SteadyTime before = clock.steady_now();
  clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(to_iso8601(clock.now()), "2026-11-29T20:12:07.000Z");
  EXPECT_EQ(clock.steady_now() - before, std::chrono::seconds(2));
  clock.set_now(WallTime{});
  EXPECT_EQ(clock.steady_now() - before, std::chrono::seconds(2));
}

}  // namespace
}  // namespace trainyard
