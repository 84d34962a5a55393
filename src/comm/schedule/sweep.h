// SPDX-License-Identifier: Apache-2.0
// What a sweep measures, as values: the operations that training uses, of sizes a factor of four
// apart, each by the algorithms and pieces that may be best there; and whether there is time for
// one more. run/sweep.h performs it, choose.h makes the table.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "comm/schedule/choose.h"

namespace trainyard::comm {

// One operation of one size, which each of the candidates performs in turn.
struct SweepCase {
  OpKind kind = OpKind::kAllReduce;
  bool windows = false;
  std::uint64_t bytes = 0;  // as Signature::count, in fp32
  int repeats = 1;          // in a row, as one sample: small ones are over too soon for a clock
  std::vector<Choice> candidates = {};

  bool operator==(const SweepCase&) const = default;
};

inline constexpr std::uint64_t kSmallestSweep = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kLargestSweep = std::uint64_t{16} << 20;

// Sizes ascend, so that what there is time for is complete up to some size. Without cases for which
// there is but one candidate. `windows`: also by buffers that all ranks map; `copies_once`: the
// kernel reads private ones for others. Both on one host only.
std::vector<SweepCase> sweep_cases(const World& world, bool windows, bool copies_once,
                                   std::uint64_t largest = kLargestSweep);

// What rank 0 knows when it decides whether to go on.
struct SweepClock {
  std::chrono::nanoseconds limit;
  std::chrono::nanoseconds elapsed = {};
};
// Whether `next` may begin, `rounds` of all its candidates: the same operation of `before_bytes`
// took `before` by the slowest of them, and its time grows with the bytes at most. The first case
// of an operation (before_bytes 0) may, until the time is over.
bool has_time_for(const SweepClock& clock, const SweepCase& next, int rounds,
                  std::uint64_t before_bytes, std::chrono::nanoseconds before);

}  // namespace trainyard::comm
