// SPDX-License-Identifier: Apache-2.0
// Measures, over a communicator that works, which algorithm is best for what (schedule/sweep.h says
// of what): all ranks together. Rank 0's clock decides how far it goes, the slowest rank's time is
// what counts, and rank 0's table is what all ranks return.
#pragma once

#include <chrono>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/schedule/choose.h"
#include "comm/schedule/sweep.h"

namespace trainyard::comm {

struct SweepLimits {
  std::chrono::milliseconds time = std::chrono::seconds(2);
  std::uint64_t largest =
      kLargestSweep;  // bytes of an operation; memory for four of them is needed
};

// Ends when there is no time for the next case by what the last ones took. A world of one rank gets
// `before` back. The error of an operation that failed.
Result<Choices> run_sweep(Communicator& communicator, const Choices& before,
                          const SweepLimits& limits);

}  // namespace trainyard::comm
