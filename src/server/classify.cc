// SPDX-License-Identifier: Apache-2.0
#include "server/classify.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::server {
namespace {

constexpr std::string_view kInstancePrefix = "/yard/v1/";
constexpr std::string_view kMetrics = "cloudwatch";
constexpr std::string_view kMetricsSigning = "monitoring";
constexpr std::string_view kForm = "application/x-www-form-urlencoded";

bool has_query_name(std::string_view query, std::string_view name) {
  const std::vector<std::string_view> pairs = split(query, '&');
  return std::any_of(pairs.begin(), pairs.end(), [&](std::string_view pair) {
    return pair.starts_with(name) && pair.size() > name.size() && pair[name.size()] == '=';
  });
}

// A bucket may be called "yard": its requests are signed, ours are not.
bool is_signed(const http::Request& request) {
  const std::string_view authorization = request.headers.get("Authorization");
  return authorization.starts_with("AWS") || has_query_name(request.query, "X-Amz-Signature") ||
         has_query_name(request.query, "Signature");
}

Route by_target(std::string_view target) {
  const std::size_t dot = target.rfind('.');
  const std::string_view prefix = target.substr(0, dot);
  Route route{.kind = RouteKind::kJson};
  if (dot != std::string_view::npos) {
    route.operation = target.substr(dot + 1);
  }
  if (prefix == "SageMaker") {
    route.service = "sagemaker";
  } else if (prefix == "Logs_20140328") {
    route.service = "logs";
  } else if (prefix == "GraniteServiceVersion20100801") {
    route.service = kMetrics;
  } else {
    route.service = lower(prefix);
  }
  return route;
}

std::string query_service(const http::Request& request) {
  const std::string claimed = claimed_service(request);
  return claimed == kMetricsSigning ? std::string(kMetrics) : claimed;
}

}  // namespace

Route classify(const http::Request& request) {
  if (request.path.starts_with("/yard/") && !is_signed(request)) {
    if (request.path.starts_with(kInstancePrefix)) {
      return {.kind = RouteKind::kInstance,
              .operation = request.path.substr(kInstancePrefix.size())};
    }
    if (request.path == "/yard/health") {
      return {.kind = RouteKind::kHealth};
    }
  }
  const bool is_post_to_root = request.method == "POST" && request.path == "/";
  if (const std::string* target = request.headers.find("X-Amz-Target");
      target != nullptr && is_post_to_root) {
    return by_target(*target);
  }
  const bool is_form = lower(request.headers.get("Content-Type")).starts_with(kForm);
  if ((is_post_to_root && is_form) ||
      (request.path == "/" && has_query_name(request.query, "Action"))) {
    return {.kind = RouteKind::kQuery, .service = query_service(request)};
  }
  // S3's clients send the digest of the body in a header, those of other services do not.
  if (const std::string service = claimed_service(request);
      !service.empty() && service != "s3" &&
      request.headers.find("x-amz-content-sha256") == nullptr) {
    return {.kind = RouteKind::kRest, .service = service};
  }
  return {.kind = RouteKind::kS3};
}

std::string claimed_service(const http::Request& request) {
  std::string credential;
  const std::string_view authorization = request.headers.get("Authorization");
  constexpr std::string_view kCredential = "Credential=";
  if (const std::size_t at = authorization.find(kCredential); at != std::string_view::npos) {
    credential = authorization.substr(at + kCredential.size());
    credential.resize(std::min(credential.size(), credential.find_first_of(", ")));
  } else if (const auto query = http::parse_query(request.query); query) {
    for (const auto& [name, value] : *query) {
      credential = name == "X-Amz-Credential" ? value : credential;
    }
  }
  // <key>/<date>/<region>/<service>/aws4_request
  const std::vector<std::string_view> parts = split(credential, '/');
  return parts.size() >= 5 ? std::string(parts[parts.size() - 2]) : std::string();
}

std::string_view signing_name(std::string_view service) {
  return service == kMetrics ? kMetricsSigning : service;
}

bool scope_fits(const Route& route, std::string_view scope_service) {
  switch (route.kind) {
    case RouteKind::kS3:
      return scope_service == "s3";
    case RouteKind::kJson:
      // What is signed for a service that we do not have is its own matter: it is refused anyway.
      return scope_service == signing_name(route.service) ||
             (route.service != "sagemaker" && route.service != "logs" &&
              route.service != kMetrics && route.service != "trainyard");
    case RouteKind::kQuery:
      return scope_service != "s3" && scope_service != "sagemaker" && scope_service != "logs";
    case RouteKind::kRest:
    case RouteKind::kHealth:
    case RouteKind::kInstance:
      return true;
  }
  return false;
}

bool is_served_to_jobs(const Route& route, std::string_view query_action) {
  return route.kind == RouteKind::kInstance || route.kind == RouteKind::kS3 ||
         (route.kind == RouteKind::kQuery && query_action == "GetCallerIdentity");
}

}  // namespace trainyard::server
