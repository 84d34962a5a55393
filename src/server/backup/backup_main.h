// SPDX-License-Identifier: Apache-2.0
// The verbs `trainyard backup`, `trainyard restore` and `trainyard check`: the home of a server is
// copied, made again and looked through, beside the server or without one.
#pragma once

#include <string>
#include <vector>

namespace trainyard::server {

// `args` without the verb. 0: done; 1: refused, failed, or damage was found; 2: wrong usage.
int backup_main(const std::vector<std::string>& args);
int restore_main(const std::vector<std::string>& args);
int check_main(const std::vector<std::string>& args);

}  // namespace trainyard::server
