// SPDX-License-Identifier: Apache-2.0
// How far the ranks of a communicator are, as seen from one of them. The queue tells it about its
// own operations; the executor asks about others, to say in a time-out who is behind. Implemented
// over the boards of this host (standing.h).
#pragma once

#include <cstdint>
#include <optional>

#include "comm/types.h"

namespace trainyard::comm {

class ProgressBoard {
 public:
  virtual ~ProgressBoard() = default;

  // Collectives of this rank, in the order of their numbers. On the thread that issues or runs
  // them; must be cheap, and not block.
  virtual void note_issued(std::uint64_t sequence, const Signature& signature) = 0;
  virtual void note_started(std::uint64_t sequence) = 0;
  virtual void note_completed(std::uint64_t sequence) = 0;

  // The last collective that `rank` has issued, if that is known.
  virtual std::optional<std::uint64_t> last_issued(std::int32_t rank) const = 0;
  // `rank` is known to have ended its communicator in order: it sends nothing after that, and what
  // it sent before can be seen.
  virtual bool has_left(std::int32_t /*rank*/) const { return false; }
};

}  // namespace trainyard::comm
