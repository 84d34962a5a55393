// SPDX-License-Identifier: Apache-2.0
// The instance's side of the protocol in wire/messages.h: one call, one request, no retries (but
// one, when the server has begun anew). Every request proves that it is this instance's and every
// answer must prove that it is the server's (wire/proof.h): whatever else listens at the server's
// address learns nothing and is not believed, whatever it says. Every thread of the supervisor
// shares one. An error of code kDenied means that this attempt is over: its token is no longer
// known, and nothing that it says will be heard. kConflict: the job has gone on to another attempt,
// which this instance is still part of. kUnavailable with subject "proof": the answer is not the
// server's; that is logged here, once until the server has answered again.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "http/client.h"
#include "wire/messages.h"
#include "wire/proof.h"

namespace trainyard::instance {

class ServerLink {
 public:
  // `server` is a base URL without a path. The client must outlive the link.
  ServerLink(http::Client& client, std::string server, wire::Speaker speaker)
      : client_(client), server_(std::move(server)), speaker_(std::move(speaker)) {}

  // The same link for everything that is said in one attempt.
  ServerLink in_attempt(int epoch) const;

  Result<wire::Assignment> assignment();
  // Waits up to wire::kLongPoll on the server's side.
  Result<std::vector<wire::Command>> commands(std::int64_t after, std::stop_token stop);
  // `body` is a JSON list of reports. Gives the highest sequence number that the server has.
  Result<std::int64_t> report(std::string body, std::stop_token stop);
  Result<wire::Credentials> credentials();

 private:
  // What all copies of a link have said and heard.
  struct Talk {
    Mutex mutex;
    std::string run GUARDED_BY(mutex);  // of the server, as its last answer said
    std::uint64_t number GUARDED_BY(mutex) = 0;
    bool is_doubted GUARDED_BY(mutex) = false;
  };

  Result<nlohmann::json> call(http::ClientRequest request);
  // With a proof of its own, to the run of the server that we know. Gives proven answers only.
  Result<http::Response> ask(http::ClientRequest request, const std::string& target);
  wire::Claim next_claim();
  Error doubt(const http::Response& response);
  // True: it is another run than the one that was asked.
  bool believe(const std::string& run, const std::string& asked);

  http::Client& client_;
  std::string server_;
  wire::Speaker speaker_;
  std::optional<int> epoch_ = {};
  std::shared_ptr<Talk> talk_ = std::make_shared<Talk>();  // with the links of all attempts
};

// Whether the error is already in the log.
bool is_unproven(const Error& error);

}  // namespace trainyard::instance
