// SPDX-License-Identifier: Apache-2.0
// The leader of an MPI launch, first in its container: waits for the remote shell of every other
// instance, runs mpirun, shows what all ranks print, and says how the launch has ended: to its
// supervisor on the status descriptor of init.h, and to the other instances.
//
//   trainyard instance-mpi lead [--mpi4py] [--alone] COUNT MPIRUN OPTIONS... PROGRAM ARGUMENTS...
//
// COUNT words are mpirun's: any word may be among the options and among the arguments.
//
// One thread owns everything; what happens meanwhile comes to it through one queue.
#pragma once

#include <string>
#include <vector>

#include "instance/launch/environment.h"

namespace trainyard::instance {

struct LeaderWork {
  std::vector<std::string> mpirun;   // with its options, and our program for each rank
  std::vector<std::string> program;  // what each rank runs
  bool offer_mpi4py = false;         // program[0] is Python: run it under mpi4py if that is there
  bool alone = false;                // one rank in all: its lines need no number
  Variables environment;             // with mpi_link.h's variable
};

int lead_main(LeaderWork work);

}  // namespace trainyard::instance
