// SPDX-License-Identifier: Apache-2.0
// How an MPI launch has ended, from what the ranks and mpirun have shown. Pure. The leader decides,
// and every instance of the job reports the same.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/subprocess.h"
#include "instance/run/init.h"

namespace trainyard::instance {

struct RankEnd {
  int rank = 0;
  std::string host;
  ExitStatus status;
  WallTime at{};                        // when the leader heard of it: one clock for all hosts
  std::vector<std::string> lines = {};  // the last ones that it printed
};

struct LaunchFacts {
  std::vector<RankEnd> ends = {};  // in the order in which the leader heard of them
  ExitStatus mpirun;
  bool stopping = false;  // told to stop: whoever fails then is a victim
  WallTime at{};          // mpirun's end
};

// Code 0: all is well. The rank that failed first is named. A rank that calls MPI_Abort may end
// after those that are killed because of it; mpirun's own exit code then says which one it was.
ProcessEnd verdict_of(const LaunchFacts& facts);

// As a shell says it: 128 + signal.
int shell_code(ExitStatus status);

}  // namespace trainyard::instance
