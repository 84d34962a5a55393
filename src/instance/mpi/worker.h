// SPDX-License-Identifier: Apache-2.0
// Every instance of an MPI launch but the first: `trainyard instance-mpi serve`. It is the remote
// shell of its container until the leader says how the launch has ended, and ends in the same way.
// When the leader is gone, everything here ends.
#pragma once

#include "instance/launch/environment.h"

namespace trainyard::instance {

// Commands run in `environment`, which has mpi_link.h's variable.
int serve_main(const Variables& environment);

}  // namespace trainyard::instance
