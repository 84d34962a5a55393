// SPDX-License-Identifier: Apache-2.0
// Pauses of this process: it was stopped, its machine stood still, its disk did not answer. What
// instances said meanwhile could not be heard, so that their silence proves nothing.
#pragma once

#include "control/job/job.h"

namespace trainyard::control {

// How long nothing was done between two turns that are to come every `tick`. Zero for what a busy
// machine may do.
Duration pause_between(SteadyTime last, SteadyTime now, Duration tick);

// Silence and deadlines count as if the pause had not been. Wall times of reports stay: they tell
// what was first.
void forgive(Duration pause, const Now& now, Job& job, Facts& facts);

}  // namespace trainyard::control
