// SPDX-License-Identifier: Apache-2.0
// Where the ranks of this host stand: the boards of their shared segment, or one of its own for a
// rank that is alone. The queue writes this rank's, and so does who performs operations elsewhere,
// when they are complete; the watchdog reads all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "comm/health/facts.h"
#include "comm/health/progress.h"
#include "comm/transport/shm/segment.h"

namespace trainyard::comm {

class Standing final : public ProgressBoard {
 public:
  // `local` are the ranks of this host, by their index in the segment; it is null for a rank alone.
  Standing(std::shared_ptr<const Segment> segment, std::vector<std::int32_t> local,
           std::int32_t rank);

  void note_issued(std::uint64_t sequence, const Signature& signature) override {
    own_->note_issued(sequence, signature);
  }
  void note_started(std::uint64_t sequence) override { own_->note_started(sequence); }
  void note_completed(std::uint64_t sequence) override;
  std::optional<std::uint64_t> last_issued(std::int32_t rank) const override;
  bool has_left(std::int32_t rank) const override;

  void show(const Error& fault) { own_->fault().show(fault); }
  std::optional<Error> fault_of(std::int32_t rank) const;  // as it showed it, of this host
  void leave() { own_->raise(Board::kLeft); }
  RankProgress of(std::int32_t rank) const;  // of this host

 private:
  Board* board_of(std::int32_t rank) const;

  std::shared_ptr<const Segment> segment_;
  std::vector<std::int32_t> local_;
  std::unique_ptr<Board> alone_;
  Mutex completing_;
  Board* own_;
};

}  // namespace trainyard::comm
