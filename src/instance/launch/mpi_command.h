// SPDX-License-Identifier: Apache-2.0
// Decides mpirun's command line for Open MPI 4.1, from what the job asks for. Pure; mpi/leader.cc
// runs it. The options are those of the SageMaker training toolkit, by their names of today, with
// what our remote shell needs. The user's program and its arguments are not part of it: each rank
// is told by the leader, so that hyperparameters never pass through mpirun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::instance {

// How programs inside a container name our own binary: init, pid 1, is it.
inline constexpr const char* kOwnProgram = "/proc/1/exe";
inline constexpr const char* kMpiVerb = "instance-mpi";

// What a job adds to mpirun's options. "--NCCL_DEBUG LEVEL" is the toolkit's own and no option of
// mpirun's.
struct CustomMpiOptions {
  std::vector<std::string> arguments;
  std::string nccl_debug;
};

// The value of the hyperparameter `key`, which errors name. kInvalidArgument for text that is not
// words, and for options that would take the platform's remote shell away.
Result<CustomMpiOptions> parse_custom_mpi_options(std::string_view key, std::string_view text);

struct MpiJob {
  std::vector<std::string> hosts;  // the leader first
  int processes_per_host = 1;
  std::string network_interface;
  // Started as SMDDP's runner does: ranks may share cores, and torch's variables are not the
  // user's.
  bool smddp_runner = false;
  std::vector<std::string> custom;  // an option of these replaces ours of the same meaning
};

// argv[0] is "mpirun", looked up in the container's PATH; the program is our own, once a rank.
std::vector<std::string> mpirun_command(const MpiJob& job);

}  // namespace trainyard::instance
