// SPDX-License-Identifier: Apache-2.0
#include "cli/api_client.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "api/model.h"
#include "base/hash.h"
#include "cli/members.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kTimeout{60'000};

std::string_view target_prefix(std::string_view service) {
  const auto all = api::services();
  const auto found = std::ranges::find(all, service, &api::Service::name);
  return found == all.end() ? std::string_view() : found->target_prefix;
}

Code code_of(int status) {
  if (status >= 500) {
    return Code::kUnavailable;
  }
  return status == 403 ? Code::kDenied : Code::kInvalidArgument;
}

// A server that has too much to do says so by a status of the 400s, as AWS does.
bool is_throttled(std::string_view name) {
  return name == "ThrottlingException" || name == "Throttling";
}

bool is_about_keys(std::string_view name) {
  return name == "UnrecognizedClientException" || name == "InvalidSignatureException" ||
         name == "MissingAuthenticationTokenException" || name == "ExpiredTokenException";
}

Error refusal(const http::Response& response, std::string_view operation, bool own_keys) {
  const Json body = Json::parse(response.body, nullptr, false);
  std::string name = text_of(body, "__type");
  // "com.amazonaws.sagemaker#ResourceInUse": clients drop the name space.
  name.erase(0, name.find('#') == std::string::npos ? 0 : name.find('#') + 1);
  std::string message = text_of(body, "message");
  if (message.empty()) {
    message = text_of(body, "Message");
  }
  if (name.empty()) {
    name = "Status " + std::to_string(response.status);
  }
  std::string text = std::string(operation) + ": " + name;
  if (!message.empty()) {
    text += ": " + message;
  }
  if (is_about_keys(name) && own_keys) {
    text +=
        "\nThe keys come from AWS_ACCESS_KEY_ID in the environment; for the keys of this "
        "server run eval \"$(./yard env)\".";
  }
  const Code code = is_throttled(name) ? Code::kUnavailable : code_of(response.status);
  return {.code = code, .message = std::move(text), .subject = name};
}

}  // namespace

ApiClient::ApiClient(http::Client& client, Clock& clock, Settings settings, std::stop_token stop)
    : client_(client), clock_(clock), settings_(std::move(settings)), stop_(std::move(stop)) {}

Result<Json> ApiClient::call(std::string_view service, std::string_view operation,
                             const Json& input) const {
  http::ClientRequest request;
  request.method = "POST";
  request.url = settings_.endpoint + "/";
  request.body = input.dump(-1, ' ', false, Json::error_handler_t::replace);
  request.timeout = kTimeout;
  request.stop = stop_;

  http::Request head;
  head.method = request.method;
  head.path = "/";
  head.headers.add("Host", settings_.endpoint.substr(settings_.endpoint.find("://") + 3));
  head.headers.add("Content-Type", "application/x-amz-json-1.1");
  head.headers.add("X-Amz-Target",
                   std::string(target_prefix(service)) + "." + std::string(operation));
  http::sign(head, sha256_hex(request.body), settings_.credentials,
             {.region = settings_.region, .service = std::string(service)}, clock_.now());
  request.headers = head.headers;

  Result<http::Response> response = client_.send(request);
  if (!response) {
    Error error = std::move(response).error();
    if (error.code == Code::kUnavailable) {
      error.message = "cannot reach " + settings_.endpoint + " (" + error.message +
                      "): is the server running? Start it with ./yard up";
    }
    return error;
  }
  if (response->status / 100 != 2) {
    return refusal(*response, operation, settings_.keys_from_environment);
  }
  if (response->body.empty()) {
    return Json(Json::object());
  }
  Json body = Json::parse(response->body, nullptr, false);
  if (body.is_discarded()) {
    return Error{.code = Code::kCorrupt,
                 .message = settings_.endpoint + " answered " + std::string(operation) +
                            " with something that is not JSON: is it a Trainyard server?",
                 .subject = "body"};
  }
  return body;
}

}  // namespace trainyard::cli
