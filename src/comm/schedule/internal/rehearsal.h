// SPDX-License-Identifier: Apache-2.0
// For the tests of schedules: one case (algorithm, operation, world, cut) with buffers as
// algorithms.h lays them out and values that are known, what must come out of it, and whether it
// does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/simulate.h"

namespace trainyard::comm {

enum class Layout : std::uint8_t { kOneHost, kEven, kUneven, kInterleaved };
std::vector<std::int32_t> hosts_in(Layout layout, std::int32_t size);

struct Case {
  Algorithm algorithm = Algorithm::kDirect;
  OpKind kind = OpKind::kAllReduce;
  std::int32_t size = 1;
  std::uint64_t count = 0;
  std::int32_t root = 0;
  Layout layout = Layout::kOneHost;
  std::uint64_t pieces = 1;
  bool in_place = false;
  bool is_uneven = false;
};
std::string to_string(const Case& asked);

// The schedules and buffers of all ranks. Values are small integers, so that sums are exact in any
// order; with `is_rough`, fractions, whose sums depend on the order.
std::vector<SimulatedRank> ranks_of(const Case& asked, bool is_rough = false);

// Runs the case with the room that its schedules ask for, and compares with plain sums and copies.
// Gives what is wrong; empty when nothing is.
std::string problem_of(const Case& asked);

// The output of one rank after simulate().
std::vector<float> output_of(const Case& asked, const SimulatedRank& rank, std::int32_t number);

}  // namespace trainyard::comm
