// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/buffers.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainyard::comm {

Buffers::Buffers(std::vector<SimulatedRank>& ranks, SharedUse* uses) : ranks_(ranks), uses_(uses) {
  for (const SimulatedRank& rank : ranks) {
    scratch_.emplace_back(rank.schedule.scratch);
    if (uses_ != nullptr) {
      uses_->add_memory(rank.memory.size());
    }
  }
}

Result<Buffers::Place> Buffers::find(std::int32_t owner, const Slice& slice) {
  const auto o = static_cast<std::size_t>(owner);
  SimulatedRank& rank = ranks_[o];
  const bool is_scratch = slice.region == Region::kScratch;
  std::vector<Cell>& cells = is_scratch ? scratch_[o] : rank.memory;
  std::uint64_t begin = slice.offset;
  if (!is_scratch) {
    begin += slice.region == Region::kInput ? rank.input_at : rank.output_at;
  }
  if (begin + slice.length > cells.size()) {
    return Error{Code::kCorrupt, fmt::format("elements up to {} are beyond the buffers of rank {}",
                                             slice.offset + slice.length, owner)};
  }
  return Place{cells, begin, is_scratch};
}

Result<std::vector<Cell>> Buffers::load(std::int32_t rank, std::int32_t owner, const Slice& slice) {
  YARD_TRY(const Place place, find(owner, slice));
  const auto first = place.cells.begin() + static_cast<std::ptrdiff_t>(place.begin);
  const auto last = first + static_cast<std::ptrdiff_t>(slice.length);
  if (uses_ != nullptr && !place.is_scratch &&
      !uses_->read(rank, static_cast<std::size_t>(owner), place.begin, slice.length)) {
    return Error{Code::kCorrupt,
                 fmt::format("it reads what another rank may be writing at rank {}", owner)};
  }
  if (!std::all_of(first, last, [](const Cell& cell) { return cell.is_known; })) {
    return Error{Code::kCorrupt, "it reads what was never written"};
  }
  return std::vector<Cell>(first, last);
}

Result<void> Buffers::store(std::int32_t rank, std::int32_t owner, const Slice& slice,
                            const std::vector<Cell>& cells) {
  if (slice.region == Region::kInput) {
    return Error{Code::kCorrupt, "it writes to its input"};
  }
  YARD_TRY(const Place place, find(owner, slice));
  if (uses_ != nullptr && !place.is_scratch &&
      !uses_->write(rank, static_cast<std::size_t>(owner), place.begin, slice.length)) {
    return Error{Code::kCorrupt,
                 fmt::format("it writes what another rank may be using at rank {}", owner)};
  }
  std::copy(cells.begin(), cells.end(),
            place.cells.begin() + static_cast<std::ptrdiff_t>(place.begin));
  return {};
}

bool Buffers::are_same(std::int32_t owner, const Slice& one, const Slice& other) {
  const Result<Place> a = find(owner, one);
  const Result<Place> b = find(owner, other);
  return a && b && &a->cells == &b->cells && a->begin == b->begin && one.length == other.length;
}

}  // namespace trainyard::comm
