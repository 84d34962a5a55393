// SPDX-License-Identifier: Apache-2.0
// A Schedule made ready to be performed: into how many pieces it is cut, in which order the pieces
// of its steps run, and which steps may send from where their bytes lie. Pure. The queue keeps the
// plans of recent shapes, so that a small operation costs a look-up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/schedule/choose.h"
#include "comm/schedule/schedule.h"

namespace trainyard::comm {

// What the transport can carry: the same on all ranks, because the number of pieces follows from
// it.
struct Limits {
  std::size_t max_message = 0;
  std::size_t room = 0;
  std::size_t message_cost = 0;
};

struct Plan {
  Schedule schedule;
  std::uint64_t pieces = 1;
  std::int32_t levels = 0;  // the highest level + 1
  // Positions in schedule.steps, by level; those of level l are [first[l], first[l + 1]).
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> first;
  // For each step: its source may be sent without a copy; nothing overwrites it before the
  // receivers can have it.
  std::vector<bool> may_stay;
  // Pieces to one peer, sent from where they lie, that the transport may hold before the next one;
  // 0: any number.
  std::uint64_t window = 0;
};

// Where the output lies from the input in an operation in place, in elements; none when they are
// apart.
using Shift = std::optional<std::int64_t>;

// What a plan depends on beside the schedule.
struct Shape {
  std::size_t element = 1;  // bytes
  std::uint64_t piece_bytes = std::uint64_t{128} << 10;
  Shift shift = std::nullopt;
  std::uint64_t most_under_way =
      0;  // bytes from a rank to all others, about; 0: what there is room for
};

// All ranks come to the same number of pieces: nothing of this rank's own steps goes into it.
Plan make_plan(Schedule schedule, const Shape& shape, const Limits& limits);

// Plans by what they depend on. A small direct-mapped table: a shape pushes out another one that
// falls on the same place.
struct PlanKey {
  Signature signature;
  Choice choice;
  bool in_place = false;

  bool operator==(const PlanKey&) const = default;
};

class PlanCache {
 public:
  // The plan of `key`, or null.
  const Plan* find(const PlanKey& key) const;
  const Plan* keep(const PlanKey& key, Plan plan);

 private:
  static constexpr std::size_t kPlaces = 256;
  struct Place {
    PlanKey key;
    std::unique_ptr<Plan> plan;
  };
  std::array<Place, kPlaces> places_;
};

}  // namespace trainyard::comm
