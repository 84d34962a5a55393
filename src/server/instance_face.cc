// SPDX-License-Identifier: Apache-2.0
#include "server/instance_face.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "formats/json.h"
#include "wire/messages.h"

namespace trainyard::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxReports = std::size_t{16} << 20;

int status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 400;
    case Code::kDenied:
      return 403;
    case Code::kNotFound:
    case Code::kUnimplemented:
      return 404;
    case Code::kAlreadyExists:
    case Code::kConflict:
      return 409;
    case Code::kExhausted:
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kCancelled:
      return 503;
    case Code::kCorrupt:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

http::Response response_of(const Result<json>& answered) {
  http::Response response;
  response.headers.set("Content-Type", "application/json");
  response.headers.set(wire::kProtocolHeader, std::to_string(wire::kProtocolVersion));
  if (answered) {
    response.body = dump_json(*answered);
    return response;
  }
  const Error& error = answered.error();
  response.status = status_of(error.code);
  if (response.status == 500) {
    log_error("instance protocol: " + error.message);
  }
  response.body = dump_json(json{{"code", std::string(trainyard::name_of(error.code))},
                                 {"message", error.message},
                                 {"subject", error.subject}});
  return response;
}

Result<control::InstanceCaller> caller_of(const http::Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.headers.get("Authorization");
  if (!authorization.starts_with(kBearer)) {
    return Error{Code::kDenied, "a bearer token is missing", "token"};
  }
  control::InstanceCaller caller{.token = std::string(trim(authorization.substr(kBearer.size())))};
  if (const std::string_view header = request.headers.get(wire::kEpochHeader); !header.empty()) {
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    const Result<std::int64_t> epoch = parse_int(header);
    if (!epoch || *epoch < 1 || *epoch > kMost) {
      return Error{Code::kInvalidArgument,
                   std::string(wire::kEpochHeader) + " must be the number of an attempt", "epoch"};
    }
    caller.epoch = static_cast<int>(*epoch);
  }
  return caller;
}

Result<std::int64_t> after_of(const http::Request& request) {
  YARD_TRY(const auto query, http::parse_query(request.query));
  for (const auto& [name, value] : query) {
    if (name == "after") {
      const Result<std::int64_t> after = parse_int(value);
      if (after && *after >= 0) {
        return *after;
      }
    }
  }
  return Error{Code::kInvalidArgument, "after must be a sequence number", "after"};
}

Result<json> take_reports(control::Control& control, http::Exchange& exchange,
                          const control::InstanceCaller& caller) {
  Result<std::string> body = exchange.read_all(kMaxReports);
  if (!body) {
    // Too long is the caller's mistake here, and not worth a retry.
    return Error{Code::kInvalidArgument, body.error().message, "body"};
  }
  YARD_TRY(const json reports, parse_json(*body));
  return control.reports(caller, reports);
}

}  // namespace

void InstanceFace::handle(std::unique_ptr<http::Exchange> exchange, const Route& route) {
  const http::Request& request = exchange->request();
  const auto refuse = [&](const Error& error) { exchange->respond(response_of(error)); };
  if (auto speaks =
          wire::check_protocol(request.headers.get(wire::kProtocolHeader), wire::Peer::kInstance);
      !speaks) {
    return refuse(speaks.error());
  }
  const Result<control::InstanceCaller> caller = caller_of(request);
  if (!caller) {
    return refuse(caller.error());
  }
  const bool is_get = request.method == "GET";
  if (is_get && route.operation == "commands") {
    return poll_commands(std::move(exchange), *caller);
  }
  Result<json> answered =
      Error{Code::kNotFound, "no such call: " + request.method + " " + request.path, "path"};
  if (is_get && route.operation == "assignment") {
    answered = control_.assignment(*caller);
  } else if (is_get && route.operation == "credentials") {
    answered = control_.credentials(*caller);
  } else if (request.method == "POST" && route.operation == "reports") {
    answered = take_reports(control_, *exchange, *caller);
  }
  exchange->respond(response_of(answered));
}

void InstanceFace::poll_commands(const std::shared_ptr<http::Exchange>& exchange,
                                 const control::InstanceCaller& caller) {
  const Result<std::int64_t> after = after_of(exchange->request());
  if (!after) {
    return exchange->respond(response_of(after.error()));
  }
  // The exchange is shared with the poll in flight; a std::function must be copyable.
  control_.commands(caller, *after, wire::kLongPoll, [this, exchange](Result<json> answered) {
    answers_.post(
        [exchange, answered = std::move(answered)] { exchange->respond(response_of(answered)); });
  });
}

}  // namespace trainyard::server
