// SPDX-License-Identifier: Apache-2.0
// What is known of each rank's operations, and the two faults that show in it and in no message:
// ranks that run different operations under one number, and ranks that wait for one that has left.
// Pure; the watchdog collects the facts and asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/member.h"
#include "comm/types.h"

namespace trainyard::comm {

struct RankProgress {
  std::int32_t rank = 0;
  std::uint64_t issued = 0;  // sequence numbers of collectives; 0: none yet
  std::uint64_t completed = 0;
  bool has_left = false;  // in order, after what it had issued
  // The last ones issued, in any order.
  std::vector<std::pair<std::uint64_t, Signature>> recent = {};

  bool operator==(const RankProgress&) const = default;
};

// kConflict: "the ranks disagree: as operation 7, rank 0 (pid 5 on a) runs all_reduce of 4 float32
// (sum), but rank 2 (pid 6 on b) runs all_gather ...".
std::optional<Error> find_disagreement(const std::vector<RankProgress>& ranks,
                                       const std::vector<Member>& members);
// kUnavailable: "rank 1 is in operation 9, but rank 0 left the world after operation 8".
std::optional<Error> find_left_behind(const std::vector<RankProgress>& ranks,
                                      const std::vector<Member>& members);

// For heartbeats.
std::string encode(const RankProgress& progress);
Result<RankProgress> decode_progress(std::string_view text);

}  // namespace trainyard::comm
