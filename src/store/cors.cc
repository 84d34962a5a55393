// SPDX-License-Identifier: Apache-2.0
// A bucket's CORS configuration, which is one of its settings, and what it adds to answers.
#include "store/body.h"
#include "store/cors_rules.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kCorsBody = std::size_t{64} << 10;
constexpr const char* kSetting = "cors";

Error forbidden(std::string_view why) {
  return Error{Code::kDenied, "CORSResponse: " + std::string(why), "cors"};
}

Result<http::Headers> answer_preflight(s3::ObjectStore& store, const http::Request& request,
                                       const Target& target) {
  const std::string_view origin = request.headers.get("Origin");
  const std::string_view method = request.headers.get("Access-Control-Request-Method");
  if (origin.empty()) {
    return Error{Code::kInvalidArgument, "Insufficient information. Origin request header needed.",
                 "bad-request"};
  }
  if (method.empty()) {
    return Error{Code::kInvalidArgument, "Invalid Access-Control-Request-Method: null",
                 "bad-request"};
  }
  // Whoever asks is not known: a bucket that is not there looks like one without a configuration.
  const auto document = store.bucket_setting(target.bucket, kSetting);
  if (!document || document->empty()) {
    return forbidden("CORS is not enabled for this bucket.");
  }
  YARD_TRY(const CorsRules rules, parse_cors(*document));
  const auto allowed =
      allow_preflight(rules, origin, method, request.headers.get("Access-Control-Request-Headers"));
  if (!allowed) {
    return forbidden(
        "This CORS request is not allowed. This is usually because the evaluation of Origin, "
        "request method / Access-Control-Request-Method or Access-Control-Request-Headers are not "
        "whitelisted by the resource's CORS spec.");
  }
  return *allowed;
}

}  // namespace

http::Response preflight(s3::ObjectStore& store, const http::Request& request, const Target& target,
                         std::string_view request_id) {
  auto allowed = answer_preflight(store, request, target);
  http::Response response{.headers = allowed ? *allowed : http::Headers()};
  if (!allowed) {
    response = S3Service::error_response(allowed.error(), request.path, request_id);
  }
  add_request_id(response, request_id);
  return response;
}

http::Headers cors_headers(s3::ObjectStore& store, const http::Request& request,
                           const std::string& bucket) {
  const std::string_view origin = request.headers.get("Origin");
  if (origin.empty() || bucket.empty()) {
    return {};
  }
  const auto document = store.bucket_setting(bucket, kSetting);
  if (!document || document->empty()) {
    return {};
  }
  const auto rules = parse_cors(*document);
  return rules ? allow_request(*rules, origin, request.method).value_or(http::Headers())
               : http::Headers();
}

Result<void> get_bucket_cors(Call& call) {
  YARD_TRY(const std::string document, call.store.bucket_setting(call.target.bucket, kSetting));
  if (document.empty()) {
    return Error{Code::kNotFound, "The CORS configuration does not exist", "cors"};
  }
  http::Response response{.body = document};
  response.headers.set("Content-Type", "application/xml");
  call.respond(std::move(response));
  return {};
}

Result<void> put_bucket_cors(Call& call) {
  YARD_TRY(const auto body, Body::open(call));
  YARD_TRY(const std::string text, body->read_text(kCorsBody));
  YARD_TRY(const CorsRules rules, parse_cors(text));
  YARD_TRY(call.store.set_bucket_setting(call.target.bucket, kSetting, cors_document(rules)));
  call.respond({});
  return {};
}

Result<void> delete_bucket_cors(Call& call) {
  YARD_TRY(call.store.set_bucket_setting(call.target.bucket, kSetting, ""));
  call.respond({.status = 204});
  return {};
}

}  // namespace trainyard::store
