// SPDX-License-Identifier: Apache-2.0
// One signed call of an AWS JSON operation. The verbs use nothing else to reach the server.
#pragma once

#include <stop_token>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "cli/settings.h"
#include "http/client.h"

namespace trainyard::cli {

class ApiClient {
 public:
  // `client` and `clock` outlive it. A requested stop ends a running call with kCancelled.
  ApiClient(http::Client& client, Clock& clock, Settings settings, std::stop_token stop = {});

  // The answer's body. An error that the server sent has its AWS name as subject
  // ("ValidationException") and a message for people; one without subject means that no answer
  // came.
  Result<nlohmann::json> call(std::string_view service, std::string_view operation,
                              const nlohmann::json& input) const;

 private:
  http::Client& client_;
  Clock& clock_;
  Settings settings_;
  std::stop_token stop_;
};

}  // namespace trainyard::cli
