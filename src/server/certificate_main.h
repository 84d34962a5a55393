// SPDX-License-Identifier: Apache-2.0
// `trainyard certificate`: makes the certificate and key that `trainyard server --tls-cert` wants,
// for those who have no certificate authority.
#pragma once

#include <string>
#include <vector>

namespace trainyard::server {

// `args` without the verb. The exit code: 0 made; 1 refused, nothing was changed; 2 wrong usage.
int certificate_main(const std::vector<std::string>& args);

}  // namespace trainyard::server
