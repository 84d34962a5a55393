// SPDX-License-Identifier: Apache-2.0
#include "server/overload.h"

#include <fmt/format.h>

#include "api/errors.h"
#include "api/query.h"
#include "server/classify.h"

namespace trainyard::server {
namespace {

constexpr const char* kMessage = "Rate exceeded: the server has more requests than it can take";

http::Response of_json(std::string_view request_id) {
  http::Response response{.status = 400};
  response.headers.set("Content-Type", "application/x-amz-json-1.1");
  response.headers.set("x-amzn-ErrorType", "ThrottlingException");
  response.headers.set("x-amzn-RequestId", std::string(request_id));
  response.body = api::json_error_body(
      {.code = "ThrottlingException", .http_status = 400, .message = kMessage});
  return response;
}

http::Response of_query(const Route& route, std::string_view request_id) {
  http::Response response{.status = 400};
  response.headers.set("Content-Type", "text/xml");
  response.headers.set("x-amzn-RequestId", std::string(request_id));
  response.body =
      api::query_error_xml({.code = "Throttling", .http_status = 400, .message = kMessage},
                           route.service, std::string(request_id));
  return response;
}

http::Response of_s3(std::string_view request_id) {
  http::Response response{.status = 503};
  response.headers.set("Content-Type", "application/xml");
  response.headers.set("x-amz-request-id", std::string(request_id));
  response.body = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code><Message>Please "
      "reduce your request rate.</Message><RequestId>{}</RequestId></Error>",
      request_id);
  return response;
}

http::Response of_instance() {
  http::Response response{.status = 503};
  response.headers.set("Content-Type", "application/json");
  response.headers.set("Retry-After", "1");
  response.body = R"({"code":"Unavailable","message":"the server is overloaded","subject":""})";
  return response;
}

}  // namespace

http::Response overload_response(const http::Request& request, std::string_view request_id) {
  const Route route = classify(request);
  switch (route.kind) {
    case RouteKind::kJson:
    case RouteKind::kRest:
      return of_json(request_id);
    case RouteKind::kQuery:
      return of_query(route, request_id);
    case RouteKind::kS3:
      return of_s3(request_id);
    case RouteKind::kInstance:
    case RouteKind::kHealth:
      return of_instance();
  }
  return of_instance();
}

}  // namespace trainyard::server
