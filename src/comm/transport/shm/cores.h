// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a host have a core each: then waiting by looking is fastest; otherwise the
// one that waits may keep the one it waits for from running, and has to yield at once.
#pragma once

#include <span>

#include "comm/transport/shm/board.h"

namespace trainyard::comm {

// The processors that the calling thread may run on, the first Board::kMaxCpus of them.
Board::Cpus allowed_cpus();

// True when every rank can have a processor of its own among those that it may run on (a matching
// exists: Hall 1935; found by augmenting paths).
bool have_a_core_each(std::span<const Board::Cpus> ranks);

}  // namespace trainyard::comm
