// SPDX-License-Identifier: Apache-2.0
#include "instance/link/credentials_server.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

http::Response answer(int status, const json& body) {
  http::Response response{.status = status, .headers = {}, .body = body.dump()};
  response.headers.add("Content-Type", "application/json");
  return response;
}

}  // namespace

http::Response credentials_response(const http::Request& request, const CredentialsPlace& place,
                                    RoleCredentials& credentials) {
  if (request.method != "GET" || !equal_in_constant_time(request.path, place.path)) {
    return answer(404, {{"code", "NotFound"}, {"message", "no credentials under this path"}});
  }
  if (!place.token.empty() &&
      !equal_in_constant_time(request.headers.get("Authorization"), place.token)) {
    return answer(401, {{"code", "Unauthorized"},
                        {"message", "Authorization is not AWS_CONTAINER_AUTHORIZATION_TOKEN"}});
  }
  const Result<wire::Credentials> keys = credentials.get();
  if (!keys) {
    return answer(503, {{"code", "Unavailable"}, {"message", keys.error().message}});
  }
  return answer(200, {{"RoleArn", keys->role_arn},
                      {"AccessKeyId", keys->access_key_id},
                      {"SecretAccessKey", keys->secret_access_key},
                      {"Token", keys->session_token},
                      {"Expiration", to_iso8601(keys->expires)}});
}

Result<std::unique_ptr<http::Server>> serve_credentials(const CredentialsPlace& place,
                                                        RoleCredentials& credentials) {
  auto handler = [place, &credentials](const std::unique_ptr<http::Exchange>& exchange) {
    exchange->respond(credentials_response(exchange->request(), place, credentials));
  };
  YARD_TRY(auto server, http::Server::start({.io_threads = 1, .max_workers = 4}, handler));
  YARD_TRY(server->listen(place.address, place.port, "credentials"));
  return server;
}

}  // namespace trainyard::instance
