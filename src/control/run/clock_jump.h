// SPDX-License-Identifier: Apache-2.0
// The wall clock, when somebody sets it. Clients are shown what it says, but MaxRuntimeInSeconds,
// MaxWaitTimeInSeconds, MaxPendingTimeInSeconds and the deadlines of a stage are spans of time:
// what they count from moves with the clock. So do the times that tell which of several faults was
// first: of reports, exits, attempts and the outcome. The steady clock tells a jump from time that
// passed; a machine that was suspended counts as one that was not there.
#pragma once

#include <optional>

#include "control/job/job.h"

namespace trainyard::control {

// How far the wall clock was set since `before`, forwards or back. Zero for less than a second, to
// which clocks are kept by running faster or slower.
Duration jump_between(const Now& before, const Now& now);

// How far it was set back while nobody looked: it shows less than when the job was stored. How far
// it was set forward nobody can tell from the time that passed.
Duration jump_since_stored(const Job& job, WallTime now);

void follow(Duration jump, Job& job, Facts& facts);

// What was heard and seen before, by a clock that has been set back since, is not in the future.
void forget_the_future(WallTime now, Facts& facts);

}  // namespace trainyard::control
