// SPDX-License-Identifier: Apache-2.0
// Which service a request is for, from its head alone. One listener serves all of them, because
// clients send every service to the one AWS_ENDPOINT_URL. The router acts on the answer; nothing
// here reads a body, checks a signature or knows what is served.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace trainyard::server {

enum class RouteKind {
  kHealth,    // GET /yard/health, unsigned
  kInstance,  // /yard/v1/..., with proofs
  kJson,      // X-Amz-Target
  kQuery,     // Action=..., in a form or in the query
  kRest,      // by path, but signed for another service than S3
  kS3,        // everything else, by path
};

struct Route {
  RouteKind kind = RouteKind::kS3;
  // Of kJson: "sagemaker", "logs", "cloudwatch", or the target's own prefix in lower case for a
  // service that we do not have. Of kRest and kQuery: the one in the credential scope, if any.
  std::string service = {};
  std::string operation = {};  // of kJson; of kInstance the path below /yard/v1/

  bool operator==(const Route&) const = default;
};

Route classify(const http::Request& request);

// The service in the credential scope that the request claims; empty when there is none. Not
// verified: it only picks the form of an error.
std::string claimed_service(const http::Request& request);

// The name that requests to a service are signed for.
std::string_view signing_name(std::string_view service);

// Whether `scope_service` may sign for `route`.
bool scope_fits(const Route& route, std::string_view scope_service);

// What a listener at the gateway of a job's network answers: the instance protocol, S3, and STS
// GetCallerIdentity (`query_action` is the Action of a query request).
bool is_served_to_jobs(const Route& route, std::string_view query_action);

}  // namespace trainyard::server
