// SPDX-License-Identifier: Apache-2.0
// Which server to talk to and as whom: from the command line, the environment that AWS's clients
// use, and the files that the server on this machine leaves in its home.
#pragma once

#include <string>
#include <string_view>

#include "base/home.h"
#include "base/result.h"
#include "http/sigv4.h"

namespace trainyard::cli {

struct Settings {
  std::string endpoint;  // "http://127.0.0.1:8321", no slash at the end
  std::string region;
  http::Credentials credentials;
  bool keys_from_environment = false;
  std::string ca_bundle = {};  // a file of certificates to trust; empty: the system's
};

// Endpoint: `endpoint_option`, AWS_ENDPOINT_URL, <home>/server.json. Keys: AWS_ACCESS_KEY_ID and
// its two companions, <home>/credentials. Certificates to trust: what the server in <home> names
// when its endpoint is the one, AWS_CA_BUNDLE. Region: AWS_REGION, AWS_DEFAULT_REGION, that
// server's. The errors say what to do.
Result<Settings> find_settings(const Environment& environment, const Path& home,
                               std::string_view endpoint_option);

}  // namespace trainyard::cli
