// SPDX-License-Identifier: Apache-2.0
// The AWS services that speak JSON 1.1 (SageMaker, Logs) or the query protocol (STS, IAM): reads
// the body, verifies the signature over it, asks control, and writes the answer or the error in the
// protocol's own form. A service that is not served is refused by its name in a form that its
// clients parse. The router hands requests over; S3 and the instance protocol are not here.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "control/control.h"
#include "http/server.h"
#include "http/sigv4.h"
#include "server/classify.h"

namespace trainyard::server {

// Bodies are read before their signature can be checked, so this bounds what a stranger may send,
// and how long he may take, here and where instances report.
inline constexpr std::size_t kMaxApiBody = std::size_t{10} << 20;
inline constexpr std::chrono::seconds kMostBodyTime{60};

// The tag of listeners on the gateways of jobs' networks.
inline constexpr std::string_view kGatewayTag = "gateway";

// The lookup that http::verify wants.
http::KeyLookup key_lookup(control::Control& control);
// The name of a failure, as api::to_wire_auth knows it.
std::string_view name_of(http::AuthFailure failure);
// "5f3c2a1e-8b7d-4c6f-9e0a-1b2c3d4e5f60".
std::string new_request_id(Random& random);

class ApiFace {
 public:
  // All borrowed for life; `random` is used from many threads.
  ApiFace(control::Control& control, Clock& clock, Random& random)
      : control_(control), clock_(clock), random_(random) {}

  // `route` is kJson, kQuery or kRest. Always answers, unless the client is gone.
  void handle(std::unique_ptr<http::Exchange> exchange, const Route& route);

 private:
  std::optional<http::AuthError> refuse_unread(const http::Exchange& exchange);
  http::Response answer(const http::Request& request, const Route& route, const std::string& body,
                        const std::string& request_id);
  struct Asked {
    const http::Request& request;
    const std::string& body;
    const std::string& request_id;
  };
  http::Response answer_json(const Asked& asked, const Route& route, const control::Caller& caller);
  http::Response answer_query(const Asked& asked, const Route& route,
                              const control::Caller& caller);

  control::Control& control_;
  Clock& clock_;
  Random& random_;
};

}  // namespace trainyard::server
