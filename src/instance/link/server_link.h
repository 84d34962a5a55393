// SPDX-License-Identifier: Apache-2.0
// The instance's side of the protocol in wire/messages.h: one call, one request, no retries. Every
// thread of the supervisor shares one. An error of code kDenied means that this attempt is over:
// its token is no longer known, and nothing that it says will be heard. kConflict: the job has gone
// on to another attempt, which this instance is still part of.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/client.h"
#include "wire/messages.h"

namespace trainyard::instance {

class ServerLink {
 public:
  // `server` is a base URL without a path. The client must outlive the link.
  ServerLink(http::Client& client, std::string server, std::string token)
      : client_(client), server_(std::move(server)), token_(std::move(token)) {}

  // The same link for everything that is said in one attempt.
  ServerLink in_attempt(int epoch) const;

  Result<wire::Assignment> assignment();
  // Waits up to wire::kLongPoll on the server's side.
  Result<std::vector<wire::Command>> commands(std::int64_t after, std::stop_token stop);
  // `body` is a JSON list of reports. Gives the highest sequence number that the server has.
  Result<std::int64_t> report(std::string body, std::stop_token stop);
  Result<wire::Credentials> credentials();

 private:
  Result<nlohmann::json> call(http::ClientRequest request);

  http::Client& client_;
  std::string server_;
  std::string token_;
  std::optional<int> epoch_ = {};
};

}  // namespace trainyard::instance
