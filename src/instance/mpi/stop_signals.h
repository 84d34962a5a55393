// SPDX-License-Identifier: Apache-2.0
// A stop, or a signal that is passed on, reaches every process of a container at once. It is meant
// for the user's; ours, mpirun and its daemons must outlive it, or they would cut short the time
// that the ranks have to save. They keep these signals blocked; mpirun unblocks them for the ranks.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::instance {

// Call it before the first thread. The descriptor is readable (struct signalfd_siginfo) when one of
// them has come.
Result<Fd> block_stop_signals();
// Whether SIGTERM or SIGINT has come on that descriptor since the last call.
bool stop_came(const Fd& signals);
// Back to normal, for a process that is about to end by a signal.
void unblock_stop_signals();

// `trainyard instance-mpi guard PROGRAM ARGUMENTS...`: becomes the program, signals blocked.
int guard_main(const std::vector<std::string>& command);

}  // namespace trainyard::instance
