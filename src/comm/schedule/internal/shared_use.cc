// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/shared_use.h"

#include <algorithm>

namespace trainyard::comm {

void SharedUse::add_memory(std::size_t elements) {
  memories_.emplace_back(elements);
}

void SharedUse::begin_step(std::int32_t rank) {
  const auto r = static_cast<std::size_t>(rank);
  ++clocks_[r][r];
}

const std::vector<std::uint32_t>& SharedUse::clock(std::int32_t rank) const {
  return clocks_[static_cast<std::size_t>(rank)];
}

void SharedUse::hear(std::int32_t rank, const std::vector<std::uint32_t>& clock) {
  std::vector<std::uint32_t>& mine = clocks_[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < ranks_; ++r) {
    mine[r] = std::max(mine[r], clock[r]);
  }
}

bool SharedUse::is_after_write(std::size_t rank, const Element& element) const {
  return element.written <= clocks_[rank][element.writer];
}

bool SharedUse::is_after_reads(std::size_t rank, const Element& element) const {
  for (std::size_t r = 0; r < element.read.size(); ++r) {
    if (element.read[r] > clocks_[rank][r]) {
      return false;
    }
  }
  return true;
}

bool SharedUse::read(std::int32_t rank, std::size_t owner, std::uint64_t begin,
                     std::uint64_t length) {
  const auto r = static_cast<std::size_t>(rank);
  bool is_alone = true;
  for (std::uint64_t i = begin; i < begin + length; ++i) {
    Element& element = memories_[owner][i];
    is_alone = is_alone && is_after_write(r, element);
    element.read.resize(ranks_);
    element.read[r] = clocks_[r][r];
  }
  return is_alone;
}

bool SharedUse::write(std::int32_t rank, std::size_t owner, std::uint64_t begin,
                      std::uint64_t length) {
  const auto r = static_cast<std::size_t>(rank);
  bool is_alone = true;
  for (std::uint64_t i = begin; i < begin + length; ++i) {
    Element& element = memories_[owner][i];
    is_alone = is_alone && is_after_write(r, element) && is_after_reads(r, element);
    element.writer = r;
    element.written = clocks_[r][r];
  }
  return is_alone;
}

bool SharedUse::is_over(std::int32_t rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return std::all_of(memories_[r].begin(), memories_[r].end(), [&](const Element& element) {
    return is_after_write(r, element) && is_after_reads(r, element);
  });
}

}  // namespace trainyard::comm
