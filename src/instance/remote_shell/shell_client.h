// SPDX-License-Identifier: Apache-2.0
// The near end of one remote command: mpirun runs it as it would run ssh. Standard input, output
// and error, signals and the exit status are those of the command.
#pragma once

#include <string>
#include <vector>

#include "base/subprocess.h"
#include "instance/remote_shell/connection.h"

namespace trainyard::instance {

struct ShellStreams {
  int input = 0;
  int output = 1;
  int errors = 2;
  int signals = -1;  // a signalfd whose signals are passed on; -1: none
};

// Until the command has ended. kUnavailable when the peer has gone before.
Result<ExitStatus> run_remotely(Connection& peer, const std::vector<std::string>& words,
                                const ShellStreams& streams);

}  // namespace trainyard::instance
