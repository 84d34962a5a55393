// SPDX-License-Identifier: Apache-2.0
// `trainyard server`: reads the flags, runs one Service until it is told to stop by SIGTERM or
// SIGINT, and says in one line where it listens and where the key is.
#pragma once

#include <string>
#include <vector>

#include "server/flags.h"

namespace trainyard::server {

// `args` without the verb. Gives the exit code: 0 stopped as told, 1 could not start, 2 wrong
// usage. Call it before any thread is started: it blocks the two signals for all of them.
int server_main(const std::vector<std::string>& args);

int run_server(const ServerConfig& config);

}  // namespace trainyard::server
