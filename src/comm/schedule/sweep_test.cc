// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/sweep.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;

const World kOneHost{.size = 4, .host = {0, 0, 0, 0}};
const World kTwoHosts{.size = 4, .host = {0, 0, 1, 1}};

std::set<Algorithm> algorithms_in(const std::vector<SweepCase>& cases, OpKind kind) {
  std::set<Algorithm> all;
  for (const SweepCase& one : cases) {
    for (const Choice& choice : one.candidates) {
      if (one.kind == kind) {
        all.insert(choice.algorithm);
      }
    }
  }
  return all;
}

TEST(SweepCases, TryWhatIsThereInThisWorld) {
  const auto near = algorithms_in(sweep_cases(kOneHost, true, true), OpKind::kAllGather);
  EXPECT_TRUE(near.contains(Algorithm::kWindow));
  EXPECT_FALSE(near.contains(Algorithm::kMesh));

  const auto far = algorithms_in(sweep_cases(kTwoHosts, false, true), OpKind::kAllGather);
  EXPECT_TRUE(far.contains(Algorithm::kMesh));
  EXPECT_FALSE(far.contains(Algorithm::kWindow));
  EXPECT_TRUE(algorithms_in(sweep_cases(kTwoHosts, false, true), OpKind::kAllReduce)
                  .contains(Algorithm::kBalanced));
}

TEST(SweepCases, AskForWindowsOnlyWhereBuffersAreWindows) {
  for (const SweepCase& one : sweep_cases(kOneHost, true, true)) {
    const bool has = std::any_of(one.candidates.begin(), one.candidates.end(),
                                 [](const Choice& c) { return c.algorithm == Algorithm::kWindow; });
    EXPECT_EQ(has, one.windows);
  }
  for (const SweepCase& one : sweep_cases(kOneHost, false, true)) {
    EXPECT_FALSE(one.windows);
  }
}

TEST(SweepCases, CopyOnceOnlyWhereBuffersAreNoWindows) {
  for (const SweepCase& one : sweep_cases(kOneHost, true, true)) {
    for (const Choice& choice : one.candidates) {
      EXPECT_FALSE(one.windows && choice.algorithm == Algorithm::kSingleCopy);
    }
  }
  EXPECT_TRUE(algorithms_in(sweep_cases(kOneHost, false, true), OpKind::kAllGather)
                  .contains(Algorithm::kSingleCopy));
  EXPECT_FALSE(algorithms_in(sweep_cases(kTwoHosts, false, true), OpKind::kAllGather)
                   .contains(Algorithm::kSingleCopy));
  EXPECT_FALSE(algorithms_in(sweep_cases(kOneHost, false, false), OpKind::kAllGather)
                   .contains(Algorithm::kSingleCopy))
      << "it would be another one under that name";
}

TEST(SweepCases, GrowSoThatWhatWasMeasuredIsCompleteUpToASize) {
  for (const World& world : {kOneHost, kTwoHosts}) {
    const std::vector<SweepCase> cases = sweep_cases(world, false, true);
    EXPECT_TRUE(std::is_sorted(cases.begin(), cases.end(),
                               [](const auto& a, const auto& b) { return a.bytes < b.bytes; }));
    EXPECT_EQ(cases.back().bytes, kLargestSweep);
  }
}

TEST(SweepCases, LeaveNothingToMeasureWhereNothingIsToChoose) {
  for (const SweepCase& one : sweep_cases(kTwoHosts, false, true)) {
    EXPECT_GT(one.candidates.size(), 1U);
  }
}

SweepCase four_of(std::uint64_t bytes) {
  return {.bytes = bytes, .repeats = 2, .candidates = std::vector<Choice>(4)};
}

TEST(SweepClock, StopsBeforeACaseThatWouldTakeTooLong) {
  const SweepClock clock{.limit = milliseconds(2000), .elapsed = milliseconds(1000)};
  // 4 candidates x 3 rounds x 2 in a row, each four times as long as before.
  EXPECT_TRUE(has_time_for(clock, four_of(4096), 3, 1024, milliseconds(10)));
  EXPECT_FALSE(has_time_for(clock, four_of(4096), 3, 1024, milliseconds(11)));
}

TEST(SweepClock, LetsAnOperationBeginThatWasNotMeasuredYet) {
  EXPECT_TRUE(has_time_for({.limit = milliseconds(2), .elapsed = milliseconds(1)}, four_of(1024), 3,
                           0, {}));
  EXPECT_FALSE(has_time_for({.limit = milliseconds(2), .elapsed = milliseconds(2)}, four_of(1024),
                            3, 0, {}));
}

}  // namespace
}  // namespace trainyard::comm
