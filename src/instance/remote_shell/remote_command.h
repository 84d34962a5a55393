// SPDX-License-Identifier: Apache-2.0
// Reads the command that Open MPI gives to a remote shell, without a shell: what the command says
// about the environment is applied, the rest is words. Pure.
//
// mpirun passes the command as several words. The first is the daemon, with assignments before it
// when a prefix is in use ("PATH=/opt/mpi/bin:$PATH ; export PATH ; /opt/mpi/bin/orted"). Values of
// the others are protected by a pair of double quotes, whatever they hold: they may come from the
// job's own options, and are taken as they are.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "instance/launch/environment.h"

namespace trainyard::instance {

struct RemoteCommand {
  std::vector<std::string> argv;
  Variables environment;
};

// kInvalidArgument for anything that would need a shell.
Result<RemoteCommand> remote_command(const std::vector<std::string>& words,
                                     const Variables& environment);

}  // namespace trainyard::instance
