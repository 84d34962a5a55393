// SPDX-License-Identifier: Apache-2.0
// The far end of one remote command: starts it in a session of its own, passes bytes and signals
// on, and tells how it ended. When the peer hangs up, the command's process group is killed.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "instance/launch/environment.h"
#include "instance/remote_shell/connection.h"

namespace trainyard::instance {

struct ShellPlace {
  Variables environment;  // of every command
  std::string directory;
  std::vector<std::string> prefix;  // words put before every command
};

// `words` is the payload of kCommand. Returns when the command has ended and the peer knows it, or
// when the peer has gone.
void run_shell_session(Connection& peer, const std::string& words, const ShellPlace& place,
                       const std::stop_token& stop);

}  // namespace trainyard::instance
