// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "formats/json.h"

namespace trainyard::server {
namespace {

http::Response health(const http::Request& request) {
  http::Response response;
  response.headers.set("Content-Type", "application/json");
  if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.headers.set("Allow", "GET, HEAD");
    return response;
  }
  response.body = dump_json({{"status", "ok"}, {"version", std::string(version())}});
  return response;
}

}  // namespace

std::string_view version() {
  return YARD_VERSION;
}

Router::Router(control::Control& control, store::S3Service& s3, Clock& clock, Random& random)
    : s3_(s3, key_lookup(control), clock),
      api_(control, clock, random),
      instances_(control, random) {}

void Router::handle(std::unique_ptr<http::Exchange> exchange) {
  const Route route = classify(exchange->request());
  switch (route.kind) {
    case RouteKind::kHealth:
      return exchange->respond(health(exchange->request()));
    case RouteKind::kInstance:
      return instances_.handle(std::move(exchange), route);
    case RouteKind::kJson:
    case RouteKind::kQuery:
    case RouteKind::kRest:
      return api_.handle(std::move(exchange), route);
    case RouteKind::kS3:
      return s3_.handle(std::move(exchange));
  }
}

}  // namespace trainyard::server
