// SPDX-License-Identifier: Apache-2.0
// `trainyard store`: serves an object store alone until it is told to stop; `trainyard store
// import`: takes the files of a folder into one, without a server.
#pragma once

#include <string>
#include <vector>

namespace trainyard::server {

// `args` without the verb. Gives the exit code: 0 done or stopped as told; 1 could not start, or
// something was refused or failed; 2 wrong usage; 130 an import was stopped. Call it before any
// thread is started: it blocks two signals for all of them.
int store_main(const std::vector<std::string>& args);

}  // namespace trainyard::server
