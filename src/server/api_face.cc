// SPDX-License-Identifier: Apache-2.0
#include "server/api_face.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/answer_json.h"
#include "api/errors.h"
#include "api/model.h"
#include "api/query.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/json.h"

namespace trainyard::server {
namespace {

using nlohmann::json;

constexpr const char* kJsonType = "application/x-amz-json-1.1";
constexpr const char* kJsonTypeOfMetrics = "application/x-amz-json-1.0";

// Never what the client says: an answer must not be read as HTML.
std::string json_type(const http::Request& request) {
  return request.headers.get("Content-Type") == kJsonTypeOfMetrics ? kJsonTypeOfMetrics : kJsonType;
}

bool is_served_as_json(std::string_view service) {
  return std::ranges::any_of(api::services(), [&](const api::Service& known) {
    return known.name == service && known.protocol == "json";
  });
}

// The form of a refusal depends on the protocol, and for query requests on the service.
struct Refusal {
  const http::Request& request;
  const Route& route;
  std::string request_id;

  http::Response with(const api::WireError& error) const {
    http::Response response;
    response.status = error.http_status;
    if (route.kind == RouteKind::kQuery) {
      response.headers.set("Content-Type", "text/xml");
      response.body = api::query_error_xml(error, route.service, request_id);
      return response;
    }
    response.headers.set("Content-Type", json_type(request));
    response.headers.set("x-amzn-ErrorType", error.code);
    response.body = api::json_error_body(error);
    return response;
  }

  http::Response with(std::string_view auth_failure, std::string message) const {
    const api::Protocol protocol =
        route.kind == RouteKind::kQuery ? api::Protocol::kQuery : api::Protocol::kJson;
    return with(api::to_wire_auth(auth_failure, std::move(message), protocol));
  }
};

control::Caller caller_of(const control::AccessKey& key) {
  return {.access_key_id = key.access_key_id, .arn = key.arn, .user_id = key.user_id};
}

// The Action of a query request: in its body or, failing that, in its query.
std::string action_of(const http::Request& request, const std::string& body) {
  const std::string action = api::form_value(body, "Action");
  return action.empty() ? api::form_value(request.query, "Action") : action;
}

void log_if_ours(const Error& error, std::string_view service, std::string_view operation) {
  if (error.code == Code::kInternal || error.code == Code::kCorrupt) {
    log_error(fmt::format("{} {}: {}", service, operation, error.message));
  }
}

// What the client is told of a body that could not be read; nothing when it has gone.
std::optional<Error> fault_in_body(const Error& unread) {
  if (unread.code == Code::kExhausted) {
    return Error{Code::kExhausted, "the request's body is longer than 10 MiB", "body"};
  }
  if (unread.code == Code::kCorrupt) {
    return Error{Code::kInvalidArgument, unread.message, "serialization"};
  }
  return std::nullopt;
}

// Of a service that speaks JSON and that we do not have: by the name that it was signed for, since
// few know what an AmazonEC2ContainerRegistry_V20150921 is.
Error not_served(const http::Request& request, const Route& route) {
  return {.code = Code::kUnimplemented,
          .message = fmt::format("The operation {}:{} is not served by Trainyard.",
                                 claimed_service(request), route.operation),
          .subject = "operation"};
}

api::WireError rest_denied(const http::Request& request, const std::string& service,
                           const control::Caller& caller) {
  return {.code = "AccessDeniedException",
          .http_status = 403,
          .message = fmt::format("User: {} is not authorized to call the service {}: {} {}: it "
                                 "is not served by Trainyard",
                                 caller.arn, service, request.method, request.path)};
}

}  // namespace

http::KeyLookup key_lookup(control::Control& control) {
  return [&control](std::string_view id) -> std::optional<http::KnownKey> {
    std::optional<control::AccessKey> key = control.find_key(id);
    if (!key) {
      return std::nullopt;
    }
    return http::KnownKey{.secret_access_key = std::move(key->secret_access_key),
                          .session_token = std::move(key->session_token),
                          .expires = key->expires};
  };
}

std::string_view name_of(http::AuthFailure failure) {
  switch (failure) {
    case http::AuthFailure::kMissing:
      return "missing";
    case http::AuthFailure::kMalformed:
      return "malformed";
    case http::AuthFailure::kUnknownKey:
      return "unknown-key";
    case http::AuthFailure::kBadToken:
      return "bad-token";
    case http::AuthFailure::kExpiredToken:
      return "expired-token";
    case http::AuthFailure::kSkewed:
      return "skewed";
    case http::AuthFailure::kExpired:
      return "expired";
    case http::AuthFailure::kMismatch:
      return "mismatch";
  }
  return "mismatch";
}

std::string new_request_id(Random& random) {
  std::string id = random.hex(16);
  for (const std::size_t dash : {8, 13, 18, 23}) {
    id.insert(dash, 1, '-');
  }
  return id;
}

void ApiFace::handle(std::unique_ptr<http::Exchange> exchange, const Route& route) {
  const http::Request& request = exchange->request();
  const std::string request_id = new_request_id(random_);
  const auto respond = [&](http::Response response) {
    response.headers.set("x-amzn-RequestId", request_id);
    exchange->respond(std::move(response));
  };
  const Refusal refusal{request, route, request_id};
  if (const auto refused = refuse_unread(*exchange)) {
    return respond(refusal.with(name_of(refused->failure), refused->message));
  }
  exchange->limit_body_time(kMostBodyTime);
  const Result<std::string> body = exchange->read_all(kMaxApiBody);
  if (body) {
    respond(answer(request, route, *body, request_id));
  } else if (const auto fault = fault_in_body(body.error())) {
    respond(refusal.with(api::to_wire(*fault, route.service, route.operation)));
  }
}

// Nobody waits for a long body that cannot help its sender: all that is looked at before the
// signature itself says the same whatever the body is. A short one is here already.
std::optional<http::AuthError> ApiFace::refuse_unread(const http::Exchange& exchange) {
  constexpr std::uint64_t kShort = std::uint64_t{64} << 10;
  const std::uint64_t length = exchange.body_length().value_or(kMaxApiBody);
  if (length <= kShort || length > kMaxApiBody) {  // a longer one is refused unread
    return std::nullopt;
  }
  auto verified =
      http::verify(exchange.request(), sha256_hex(""), key_lookup(control_), clock_.now());
  auto* const failed = std::get_if<http::AuthError>(&verified);
  if (failed == nullptr || failed->failure == http::AuthFailure::kMismatch) {
    return std::nullopt;
  }
  return std::move(*failed);
}

http::Response ApiFace::answer(const http::Request& request, const Route& route,
                               const std::string& body, const std::string& request_id) {
  const Refusal refusal{request, route, request_id};
  const auto verified = http::verify(request, sha256_hex(body), key_lookup(control_), clock_.now());
  if (const auto* failed = std::get_if<http::AuthError>(&verified)) {
    return refusal.with(name_of(failed->failure), failed->message);
  }
  const http::Verified& holds = std::get<http::Verified>(verified);
  if (!scope_fits(route, holds.scope.service)) {
    return refusal.with(
        "mismatch",
        fmt::format("Credential should be scoped to correct service: '{}'.",
                    route.kind == RouteKind::kJson ? signing_name(route.service) : "sts"));
  }
  const std::optional<control::AccessKey> key = control_.find_key(holds.access_key_id);
  if (!key) {
    return refusal.with("unknown-key", "");  // revoked just now
  }
  const control::Caller caller = caller_of(*key);
  const std::string action =
      route.kind == RouteKind::kQuery ? action_of(request, body) : route.operation;
  // A job's keys, and no others have a session, open no more elsewhere than on its own network:
  // where jobs share the machine's, they reach every listener.
  const bool is_job = request.listener == kGatewayTag || !key->session_token.empty();
  if (is_job && !is_served_to_jobs(route, action)) {
    const Error denied{Code::kDenied, fmt::format("{} is not served to a job", action)};
    return refusal.with(api::to_wire(denied, route.service, action));
  }
  switch (route.kind) {
    case RouteKind::kQuery:
      return answer_query({request, body, request_id},
                          {.kind = route.kind, .service = route.service, .operation = action},
                          caller);
    case RouteKind::kRest:
      return refusal.with(rest_denied(request, route.service, caller));
    default:
      return answer_json({request, body, request_id}, route, caller);
  }
}

http::Response ApiFace::answer_json(const Asked& asked, const Route& route,
                                    const control::Caller& caller) {
  const Refusal refusal{asked.request, route, asked.request_id};
  const Result<json> input = asked.body.empty() ? json::object() : parse_json(asked.body);
  if (!input || !input->is_object()) {
    const Error malformed{Code::kInvalidArgument,
                          input ? "the request's body is not a JSON object" : input.error().message,
                          "serialization"};
    return refusal.with(api::to_wire(malformed, route.service, route.operation));
  }
  Result<json> answered = not_served(asked.request, route);
  if (is_served_as_json(route.service)) {
    answered = control_.call(route.service, route.operation, *input, caller);
  }
  if (!answered) {
    log_if_ours(answered.error(), route.service, route.operation);
    return refusal.with(api::to_wire(answered.error(), route.service, route.operation));
  }
  http::Response response;
  response.headers.set("Content-Type", json_type(asked.request));
  // An operation without output answers with an empty object.
  response.body =
      answered->is_null()
          ? "{}"
          : api::write_answer(route.service, route.operation, *answered,
                              api::non_finite_for(asked.request.headers.get("User-Agent")));
  return response;
}

http::Response ApiFace::answer_query(const Asked& asked, const Route& route,
                                     const control::Caller& caller) {
  const Refusal refusal{asked.request, route, asked.request_id};
  const std::string& action = route.operation;
  if (api::find_operation(route.service, action) == nullptr) {
    return refusal.with(api::query_denied(route.service, action, caller.arn));
  }
  const std::string form = asked.body + "&" + asked.request.query;
  const Result<json> answered =
      control_.call(route.service, action, api::read_query(route.service, action, form), caller);
  if (!answered) {
    log_if_ours(answered.error(), route.service, action);
    return refusal.with(api::to_wire(answered.error(), route.service, action));
  }
  http::Response response;
  response.headers.set("Content-Type", "text/xml");
  response.body = api::query_result_xml(route.service, action, *answered, asked.request_id);
  return response;
}

}  // namespace trainyard::server
