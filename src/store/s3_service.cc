// SPDX-License-Identifier: Apache-2.0
#include "store/s3_service.h"

#include "base/encoding.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "store/call.h"
#include "store/handlers.h"
#include "store/post_object.h"
#include "store/routes.h"
#include "store/s3_errors.h"

namespace trainyard::store {
namespace {

Result<void> run(Call& call) {
  const std::string_view owner = call.headers().get("x-amz-expected-bucket-owner");
  if (!owner.empty() && owner != call.options.account_id) {
    return Error{Code::kDenied, "Access Denied: the bucket has another owner", "access"};
  }
  YARD_TRY(const Operation operation, choose_operation(call.exchange.request(), call.target));
  return operation.run(call);
}

http::Response xml_error(const S3Error& error, std::string_view message, std::string_view resource,
                         std::string_view request_id) {
  s3::XmlWriter xml("Error", false);
  xml.add("Code", error.code).add("Message", message).add("Resource", resource);
  xml.add("RequestId", request_id).add("HostId", request_id);
  http::Response response{.status = error.status, .headers = {}, .body = xml.finish()};
  response.headers.set("Content-Type", "application/xml");
  add_request_id(response, request_id);
  return response;
}

void add_cors(s3::ObjectStore& store, const http::Request& request, const std::string& bucket,
              http::Response& response) {
  const http::Headers allowed = cors_headers(store, request, bucket);
  for (const auto& [name, value] : allowed.fields()) {
    response.headers.set(name, value);
  }
}

// What a URL signed by version 2 says nothing about must not decide what it opens.
Result<void> check_covered(const http::Verified& verified, const http::Request& request,
                           const Target& target) {
  if (!verified.version2) {
    return {};
  }
  if (target.is_of_host) {
    return Error{
        Code::kDenied,
        "A URL signed by version 2 does not cover the host, so the bucket must stand in its "
        "path: presign with path-style addressing, or by signature version s3v4",
        "access"};
  }
  if (target.key.empty() && request.method != "GET" && request.method != "HEAD") {
    return Error{Code::kDenied,
                 "A URL signed by version 2 may read a bucket but not change it: presign by "
                 "signature version s3v4",
                 "access"};
  }
  return {};
}

}  // namespace

S3Service::S3Service(s3::ObjectStore& store, Options options, Clock& clock)
    : store_(store), options_(std::move(options)), clock_(clock) {}

void S3Service::handle(std::unique_ptr<http::Exchange> exchange, const http::Verified& verified) {
  const std::string request_id = next_request_id();
  const http::Request& request = exchange->request();
  const auto target = parse_target(request, options_.domains);
  if (!target) {
    exchange->respond(error_response(target.error(), request.path, request_id));
    return;
  }
  if (const auto covered = check_covered(verified, request, *target); !covered) {
    exchange->respond(error_response(covered.error(), request.path, request_id));
    return;
  }
  Call call(*exchange, verified, *target, {.store = store_, .options = options_});
  call.request_id = request_id;
  call.extra = cors_headers(store_, request, target->bucket);
  const auto done = run(call);
  if (done) {
    return;
  }
  if (is_logged(done.error())) {
    log_error("s3: " + request.method + " " + request.path + ": " + done.error().message +
              " request=" + request_id);
  }
  if (!call.is_answered()) {
    call.respond(error_response(done.error(), request.path, request_id));
  }
}

void S3Service::handle_unsigned(std::unique_ptr<http::Exchange> exchange,
                                const http::AuthError& failure) {
  const std::string request_id = next_request_id();
  const http::Request& request = exchange->request();
  const auto target = parse_target(request, options_.domains);
  http::Response response = auth_error_response(failure, request.path, request_id);
  if (target && request.method == "OPTIONS") {
    response = preflight(store_, request, *target, request_id);
  } else if (target) {
    add_cors(store_, request, target->bucket, response);
  }
  exchange->respond(std::move(response));
}

void S3Service::handle_form(std::unique_ptr<http::Exchange> exchange, const FormCheck& check) {
  const std::string request_id = next_request_id();
  const http::Request& request = exchange->request();
  const auto target = parse_target(request, options_.domains);
  const PostCall call{.store = store_, .options = options_, .check = check, .clock = clock_};
  auto answered = target ? post_object(*exchange, *target, call) : target.error();
  if (!answered && is_logged(answered.error())) {
    log_error("s3: " + request.method + " " + request.path + ": " + answered.error().message +
              " request=" + request_id);
  }
  http::Response response;
  if (!answered) {
    response = error_response(answered.error(), request.path, request_id);
  } else if (const auto& refused = answered->refused) {
    response = auth_error_response(*refused, request.path, request_id);
  } else {
    response = std::move(answered->response);
  }
  add_request_id(response, request_id);
  if (target) {
    add_cors(store_, request, target->bucket, response);
  }
  exchange->respond(std::move(response));
}

std::string S3Service::next_request_id() {
  const auto now = clock_.now().time_since_epoch().count();
  const std::string seed = std::to_string(now) + "." + std::to_string(++requests_);
  return upper(to_hex(hash_of(HashKind::kMd5, seed)).substr(0, 16));
}

http::Response S3Service::error_response(const Error& error, std::string_view resource,
                                         std::string_view request_id) {
  return xml_error(s3_error_of(error), error.message, resource, request_id);
}

http::Response auth_error_response(const http::AuthError& error, std::string_view resource,
                                   std::string_view request_id) {
  return xml_error(s3_error_of(error.failure), error.message, resource, request_id);
}

}  // namespace trainyard::store
