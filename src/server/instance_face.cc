// SPDX-License-Identifier: Apache-2.0
#include "server/instance_face.h"

#include <array>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/json.h"
#include "server/api_face.h"
#include "wire/messages.h"

namespace trainyard::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxReports = std::size_t{16} << 20;
constexpr std::size_t kMaxOther = std::size_t{4} << 10;  // the other calls have no body

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

http::Response response_of(const Result<json>& answered, int version) {
  http::Response response;
  response.headers.set("Content-Type", "application/json");
  response.headers.set(wire::kProtocolHeader, std::to_string(version));
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

Result<std::optional<int>> epoch_of(const http::Request& request) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const std::string_view header = request.headers.get(wire::kEpochHeader);
  if (header.empty()) {
    return std::optional<int>();
  }
  const Result<std::int64_t> epoch = parse_int(header);
  if (!epoch || *epoch < 1 || *epoch > kMost) {
    return Error{Code::kInvalidArgument,
                 std::string(wire::kEpochHeader) + " must be the number of an attempt", "epoch"};
  }
  return std::optional(static_cast<int>(*epoch));
}

// Of version 1, which runs on when the server is replaced by a newer one.
Result<std::string> bearer_token(const http::Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.headers.get("Authorization");
  if (!authorization.starts_with(kBearer)) {
    return Error{Code::kDenied, "a bearer token is missing", "token"};
  }
  return std::string(trim(authorization.substr(kBearer.size())));
}

std::string target_of(const http::Request& request) {
  return request.query.empty() ? request.path : request.path + "?" + request.query;
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

Result<json> take_reports(control::Control& control, const control::InstanceCaller& caller,
                          const std::string& body) {
  YARD_TRY(const json reports, parse_json(body));
  return control.reports(caller, reports);
}

// What came with a request.
struct Body {
  std::string text;
  std::string hash;  // sha256_hex() of it all
};

Result<Body> keep_body(http::Exchange& exchange, std::size_t limit) {
  YARD_TRY(std::string text, exchange.read_all(limit));
  std::string hash = sha256_hex(text);
  return Body{.text = std::move(text), .hash = std::move(hash)};
}

// Of one whose reports are not wanted only the hash: it may be anybody's, and as long as he likes.
Result<Body> skim_body(http::Exchange& exchange) {
  std::array<std::byte, std::size_t{16} << 10> piece;
  Hasher hasher(HashKind::kSha256);
  std::size_t seen = 0;
  while (true) {
    YARD_TRY(const std::size_t got, exchange.read_body(piece));
    if (got == 0) {
      return Body{.text = {}, .hash = to_hex(hasher.finish())};
    }
    hasher.update(std::span(piece).first(got));
    seen += got;
    if (seen > kMaxReports) {
      return Error{Code::kExhausted, "the body is longer than " + human_bytes(kMaxReports)};
    }
  }
}

}  // namespace

bool names_known_instance(control::Control& control, const http::Request& request) {
  std::string token = bearer_token(request).value_or("");
  if (const auto claim = wire::claim_from_header(request.headers.get("Authorization"))) {
    token = control.instance_token(claim->id);
  }
  return !token.empty() && control.knows({.token = std::move(token)}).has_value();
}

// Before its proof was looked at, which covers the body.
Result<InstanceFace::Asker> InstanceFace::asker_of(const http::Request& request, int version) {
  if (version == wire::kBearerVersion) {
    YARD_TRY(std::string token, bearer_token(request));
    return Asker{.version = version, .caller = {.token = std::move(token)}};
  }
  YARD_TRY(const wire::Claim claim, wire::claim_from_header(request.headers.get("Authorization")));
  Asker asker{
      .version = version, .caller = {.token = control_.instance_token(claim.id)}, .claim = claim};
  YARD_TRY(wire::Speaker speaker, wire::speaker_of(asker.caller.token));
  asker.key = std::move(speaker.key);
  return asker;
}

// An answer to somebody else is never proven: he might hand it on.
Result<void> InstanceFace::check_proof(const Asker& asker, const http::Request& request,
                                       const std::string& body_hash) {
  const std::string target = target_of(request);
  const std::string proof = wire::prove_request(asker.key, asker.claim,
                                                {.method = request.method,
                                                 .target = target,
                                                 .epoch = request.headers.get(wire::kEpochHeader),
                                                 .body_hash = body_hash,
                                                 .version = asker.version});
  if (equal_in_constant_time(proof, asker.claim.proof)) {
    return {};
  }
  std::string told = "the request does not prove that its sender has the token";
  if (asker.version != wire::kProtocolVersion) {
    told += "; it is of protocol version " + std::to_string(asker.version) + ", this side of " +
            std::to_string(wire::kProtocolVersion) +
            ", which has another key than the first builds of version 2";
  }
  return Error{Code::kDenied, std::move(told), "token"};
}

Result<void> InstanceFace::is_wanted(const Asker& asker) {
  if (!asker.key.empty() && asker.claim.run != run_) {
    return Error{Code::kConflict, "the request is for another run of the server", "run"};
  }
  return control_.knows(asker.caller);
}

Result<void> InstanceFace::admit(const Asker& asker, const Result<void>& wanted) {
  YARD_TRY(wanted);
  return control_.hear(asker.caller, asker.claim.number);
}

http::Response InstanceFace::proven(const Asker& asker, http::Response response) const {
  if (!asker.key.empty()) {
    response.headers.set(wire::kRunHeader, run_);
    response.headers.set(wire::kProofHeader, wire::prove_answer(asker.key, asker.claim.proof,
                                                                {.status = response.status,
                                                                 .run = run_,
                                                                 .body = response.body,
                                                                 .version = asker.version}));
  }
  return response;
}

void InstanceFace::handle(std::unique_ptr<http::Exchange> exchange, const Route& route) {
  const http::Request& request = exchange->request();
  const Result<int> speaks =
      wire::check_protocol(request.headers.get(wire::kProtocolHeader), wire::Peer::kInstance);
  const int version = speaks ? *speaks : wire::kProtocolVersion;
  const auto refuse = [&](const Error& error) { exchange->respond(response_of(error, version)); };
  if (!speaks) {
    return refuse(speaks.error());
  }
  Result<Asker> asker = asker_of(request, version);
  if (!asker) {
    return refuse(asker.error());
  }
  const Result<void> wanted = is_wanted(*asker);
  if (!wanted && asker->key.empty()) {
    return refuse(wanted.error());  // nothing of the body decides about it
  }
  const bool is_report = request.method == "POST" && route.operation == "reports";
  exchange->limit_body_time(kMostBodyTime);
  const Result<Body> body = is_report && !wanted
                                ? skim_body(*exchange)
                                : keep_body(*exchange, is_report ? kMaxReports : kMaxOther);
  if (!body) {
    // Too long is the caller's mistake here, and not worth a retry.
    return refuse({Code::kInvalidArgument, body.error().message, "body"});
  }
  if (!asker->key.empty()) {
    if (const Result<void> proof = check_proof(*asker, request, body->hash); !proof) {
      return refuse(proof.error());
    }
    if (const Result<void> admitted = admit(*asker, wanted); !admitted) {
      http::Response response = response_of(admitted.error(), version);
      // Of one that is denied, too, the words prove themselves.
      response.status = admitted.error().code == Code::kConflict ? 401 : response.status;
      return exchange->respond(proven(*asker, std::move(response)));
    }
  }
  const Result<std::optional<int>> epoch = epoch_of(request);
  if (!epoch) {
    return exchange->respond(proven(*asker, response_of(epoch.error(), version)));
  }
  asker->caller.epoch = *epoch;
  call(std::move(exchange), route, *asker, body->text);
}

void InstanceFace::call(std::unique_ptr<http::Exchange> exchange, const Route& route,
                        const Asker& asker, const std::string& body) {
  const http::Request& request = exchange->request();
  const bool is_get = request.method == "GET";
  if (is_get && route.operation == "commands") {
    return poll_commands(std::move(exchange), asker);
  }
  Result<json> answered =
      Error{Code::kNotFound, "no such call: " + request.method + " " + request.path, "path"};
  if (is_get && route.operation == "assignment") {
    answered = control_.assignment(asker.caller);
  } else if (is_get && route.operation == "credentials") {
    answered = control_.credentials(asker.caller);
  } else if (request.method == "POST" && route.operation == "reports") {
    answered = take_reports(control_, asker.caller, body);
  }
  exchange->respond(proven(asker, response_of(answered, asker.version)));
}

void InstanceFace::poll_commands(const std::shared_ptr<http::Exchange>& exchange,
                                 const Asker& asker) {
  const Result<std::int64_t> after = after_of(exchange->request());
  if (!after) {
    return exchange->respond(proven(asker, response_of(after.error(), asker.version)));
  }
  // The exchange is shared with the poll in flight; a std::function must be copyable.
  control_.commands(asker.caller, *after, wire::kLongPoll,
                    [this, exchange, asker](Result<json> answered) {
                      answers_.post([this, exchange, asker, answered = std::move(answered)] {
                        exchange->respond(proven(asker, response_of(answered, asker.version)));
                      });
                    });
}

}  // namespace trainyard::server
