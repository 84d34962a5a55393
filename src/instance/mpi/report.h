// SPDX-License-Identifier: Apache-2.0
// How the leader and the workers of an MPI launch tell their supervisors its end.
#pragma once

#include "base/result.h"
#include "instance/run/init.h"

namespace trainyard::instance {

// Writes it to the status descriptor that init has left open; gives the exit code to leave with.
int report_end(const ProcessEnd& end);
// The launch came to nothing because another instance is not there: that one's supervisor, or its
// silence, says why. Here it is a victim.
int report_lost(const Error& error);

}  // namespace trainyard::instance
