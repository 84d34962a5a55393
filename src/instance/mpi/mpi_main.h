// SPDX-License-Identifier: Apache-2.0
// Entry of `trainyard instance-mpi ROLE ...`: our own programs in the containers of an MPI job.
// launch_plan.h starts `lead` on the first instance and `serve` on the others; `lead` runs mpirun,
// which runs `shell` to reach the others and `rank` once a rank. Never started by hand.
//
//   algo-1:  init ─ lead ─ guard mpirun ┬ rank ─ the user's program
//                    ▲ lines, ends      └ shell algo-2 ┐ one TCP connection each,
//   algo-2:  init ─ serve ◄───────────────────────────-┘ proven by the attempt's secret
//                     └ guard orted ─ rank ─ the user's program      (rank also talks to lead)
#pragma once

#include <string>
#include <vector>

namespace trainyard::instance {

int mpi_main(const std::vector<std::string>& args);

}  // namespace trainyard::instance
