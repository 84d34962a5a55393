// SPDX-License-Identifier: Apache-2.0
// The memory of all simulated ranks, as their steps see it: what is outside, unwritten or in use by
// another rank is an error (kCorrupt).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "comm/schedule/internal/shared_use.h"
#include "comm/schedule/schedule.h"
#include "comm/schedule/simulate.h"

namespace trainyard::comm {

class Buffers {
 public:
  // With windows, `uses` watches over them; else it is null. Both stay with the caller.
  Buffers(std::vector<SimulatedRank>& ranks, SharedUse* uses);

  // `rank` reads or writes in the memory of `owner`.
  Result<std::vector<Cell>> load(std::int32_t rank, std::int32_t owner, const Slice& slice);
  Result<void> store(std::int32_t rank, std::int32_t owner, const Slice& slice,
                     const std::vector<Cell>& cells);
  // Whether both are the same memory of `owner`, as they can be in place.
  bool are_same(std::int32_t owner, const Slice& one, const Slice& other);

 private:
  // A slice as a stretch of cells of one vector.
  struct Place {
    std::vector<Cell>& cells;
    std::uint64_t begin = 0;
    bool is_scratch = false;
  };
  Result<Place> find(std::int32_t owner, const Slice& slice);

  std::vector<SimulatedRank>& ranks_;
  SharedUse* uses_;
  std::vector<std::vector<Cell>> scratch_;
};

}  // namespace trainyard::comm
