// SPDX-License-Identifier: Apache-2.0
// One rank of an MPI launch: `trainyard instance-mpi rank`, started by mpirun. It learns from the
// leader what to run, runs it with torch.distributed's variables, sends its output to the leader,
// tells how it ended, and ends in the same way.
#pragma once

#include <string>
#include <vector>

#include "instance/launch/environment.h"

namespace trainyard::instance {

// The user's program gets `environment` without our own variable. Variables of its rank that are
// set already stay, unless `overrule`.
int rank_main(Variables environment, bool overrule);

}  // namespace trainyard::instance
