// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/latency.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

namespace trainyard::comm {
namespace {

using Role = LatencyProbe::Role;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Long enough that it does not matter whether both threads have a core at the same time.
constexpr std::chrono::microseconds kLong = seconds(2);

bool never() {
  return false;
}

TEST(LatencyProbe, IsKnownToAllOnceTwoRanksHaveMeasured) {
  ProbeLines lines;
  std::vector<std::byte> buffer(64 << 10);
  LatencyProbe reader(lines, {}, Role::kNone);
  EXPECT_EQ(reader.one_way(), nanoseconds(0));
  {
    std::jthread one([&] {
      LatencyProbe(lines, buffer, Role::kAnswers, kLong).measure_now(seconds(20), never);
    });
    LatencyProbe(lines, buffer, Role::kMeasures, kLong).measure_now(seconds(20), never);
  }
  EXPECT_GT(reader.one_way(), nanoseconds(0));
  EXPECT_LT(reader.one_way(), seconds(1));
  EXPECT_NE(lines.is_streaming_better.value.load(), 0U) << "the stores were not tried";
}

TEST(LatencyProbe, TriesTheStoresAgainWhenTheFirstTrialFailed) {
  ProbeLines lines;
  lines.one_way_ns.value = 50;  // measured, but not tried
  std::vector<std::byte> buffer(64 << 10);
  {
    std::jthread one([&] {
      LatencyProbe(lines, buffer, Role::kAnswers, kLong).measure_now(seconds(20), never);
    });
    LatencyProbe(lines, buffer, Role::kMeasures, kLong).measure_now(seconds(20), never);
  }
  EXPECT_NE(lines.is_streaming_better.value.load(), 0U);
}

TEST(LatencyProbe, GivesUpWithoutAPartnerAndWhenItIsOver) {
  ProbeLines lines;
  std::vector<std::byte> buffer(64 << 10);
  const Clock::time_point start = Clock::now();
  LatencyProbe(lines, buffer, Role::kMeasures).measure_now(std::chrono::milliseconds(2), never);
  LatencyProbe(lines, buffer, Role::kAnswers).measure_now(std::chrono::milliseconds(2), never);
  LatencyProbe(lines, buffer, Role::kAnswers).measure_now(seconds(100), [] { return true; });
  EXPECT_LT(Clock::now() - start, seconds(20));
  EXPECT_EQ(lines.one_way_ns.value.load(), 0U);
}

TEST(LatencyProbe, MeasuresWhenRankOneWaitsAndRankZeroIsBusy) {
  ProbeLines lines;
  std::vector<std::byte> buffer(64 << 10);
  LatencyProbe zero(lines, buffer, Role::kMeasures, kLong);
  const Clock::time_point end = Clock::now() + seconds(20);
  std::jthread one([&](const std::stop_token& stop) {
    LatencyProbe probe(lines, buffer, Role::kAnswers, kLong);
    while (!stop.stop_requested()) {
      probe.while_waiting(Clock::now());
    }
  });
  while (zero.one_way() == nanoseconds(0) && Clock::now() < end) {
    zero.while_waiting(Clock::now());
    for (int i = 0; i < 100; ++i) {
      zero.while_busy();
      sched_yield();
    }
  }
  EXPECT_GT(zero.one_way(), nanoseconds(0));
}

}  // namespace
}  // namespace trainyard::comm
