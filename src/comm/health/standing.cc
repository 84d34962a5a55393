// SPDX-License-Identifier: Apache-2.0
#include "comm/health/standing.h"

#include <algorithm>

namespace trainyard::comm {

Standing::Standing(std::shared_ptr<const Segment> segment, std::vector<std::int32_t> local,
                   std::int32_t rank)
    : segment_(std::move(segment)), local_(std::move(local)) {
  if (segment_ == nullptr) {
    alone_ = std::make_unique<Board>();
    local_ = {rank};
  }
  own_ = board_of(rank);
}

// Operations that are performed elsewhere end in any order, on any thread.
void Standing::note_completed(std::uint64_t sequence) {
  const MutexLock lock(completing_);
  if (sequence > own_->completed()) {
    own_->note_completed(sequence);
  }
}

Board* Standing::board_of(std::int32_t rank) const {
  const auto found = std::ranges::find(local_, rank);
  if (found == local_.end()) {
    return nullptr;
  }
  return alone_ != nullptr ? alone_.get()
                           : &segment_->board(static_cast<std::uint32_t>(found - local_.begin()));
}

std::optional<std::uint64_t> Standing::last_issued(std::int32_t rank) const {
  const Board* board = board_of(rank);
  return board == nullptr ? std::nullopt : std::optional(board->issued());
}

bool Standing::has_left(std::int32_t rank) const {
  const Board* board = board_of(rank);
  return board != nullptr && board->has(Board::kLeft);
}

std::optional<Error> Standing::fault_of(std::int32_t rank) const {
  const Board* board = board_of(rank);
  return board == nullptr ? std::nullopt : board->fault().seen();
}

RankProgress Standing::of(std::int32_t rank) const {
  RankProgress progress{.rank = rank};
  const Board* board = board_of(rank);
  if (board == nullptr) {
    return progress;
  }
  // Left is set after the last operation: who has left is never shown with fewer than it issued.
  progress.has_left = board->has(Board::kLeft);
  progress.completed = board->completed();
  progress.issued = board->issued();
  const std::uint64_t kept = std::min<std::uint64_t>(progress.issued, Board::kKeptOperations);
  for (std::uint64_t sequence = progress.issued - kept + 1; sequence <= progress.issued;
       ++sequence) {
    if (const auto signature = board->signature_of(sequence)) {
      progress.recent.emplace_back(sequence, *signature);
    }
  }
  return progress;
}

}  // namespace trainyard::comm
