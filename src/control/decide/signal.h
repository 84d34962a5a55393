// SPDX-License-Identifier: Apache-2.0
// A user's signal for the programs of a job (SignalTrainingJob): who is told. A pure function; the
// reconciler stores and sends what it returns, and the instances pass the signal on.
#pragma once

#include <vector>

#include "control/decide/decide.h"

namespace trainyard::control {

// One command for each instance of the running attempt whose program has not ended. kConflict, with
// the job's state, while no program runs: before training has begun, and once a stop or an end has.
Result<std::vector<Send>> plan_signal(const Job& job, const Facts& facts, wire::UserSignal signal,
                                      const Now& now);

}  // namespace trainyard::control
