// SPDX-License-Identifier: Apache-2.0
#include "instance/link/server_link.h"

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::instance {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kShortCall{10'000};

Code code_of_status(int status) {
  if (status == 401 || status == 403) {
    return Code::kDenied;
  }
  if (status == 409) {
    return Code::kConflict;
  }
  return status >= 500 || status == 429 ? Code::kUnavailable : Code::kInvalidArgument;
}

}  // namespace

ServerLink ServerLink::in_attempt(int epoch) const {
  ServerLink link = *this;
  link.epoch_ = epoch;
  return link;
}

Result<json> ServerLink::call(http::ClientRequest request) {
  const std::string what = request.method + " " + request.url;
  request.url = server_ + request.url;
  request.headers.add("Authorization", "Bearer " + token_);
  request.headers.add(std::string(wire::kProtocolHeader), std::to_string(wire::kProtocolVersion));
  if (epoch_) {
    request.headers.add(std::string(wire::kEpochHeader), std::to_string(*epoch_));
  }
  if (!request.body.empty()) {
    request.headers.add("Content-Type", "application/json");
  }
  YARD_TRY(const http::Response response, client_.send(request));
  if (response.status / 100 != 2) {
    const std::string said(utf8_prefix(to_valid_utf8(trim(response.body)), 500));
    return Error{code_of_status(response.status), what + ": the server answers " +
                                                      std::to_string(response.status) +
                                                      (said.empty() ? "" : ": " + said)};
  }
  if (const std::string* version = response.headers.find(wire::kProtocolHeader)) {
    YARD_TRY(wire::check_protocol(*version, wire::Peer::kServer));
  }
  json value = json::parse(response.body, nullptr, false);
  if (value.is_discarded()) {
    return Error{Code::kUnavailable, what + ": the answer is not JSON"};
  }
  return value;
}

Result<wire::Assignment> ServerLink::assignment() {
  YARD_TRY(const json value, call({.url = "/yard/v1/assignment", .timeout = kShortCall}));
  return wire::assignment_from_json(value);
}

Result<std::vector<wire::Command>> ServerLink::commands(std::int64_t after, std::stop_token stop) {
  YARD_TRY(const json list, call({.url = "/yard/v1/commands?after=" + std::to_string(after),
                                  .timeout = wire::kLongPoll + kShortCall,
                                  .stop = std::move(stop)}));
  if (!list.is_array()) {
    return Error{Code::kUnavailable, "the server's commands are not a list"};
  }
  std::vector<wire::Command> commands;
  for (const json& item : list) {
    YARD_TRY(wire::Command command, wire::command_from_json(item));
    commands.push_back(std::move(command));
  }
  return commands;
}

Result<std::int64_t> ServerLink::report(std::string body, std::stop_token stop) {
  YARD_TRY(const json value, call({.method = "POST",
                                   .url = "/yard/v1/reports",
                                   .body = std::move(body),
                                   .timeout = kShortCall,
                                   .stop = std::move(stop)}));
  const auto found = value.is_object() ? value.find("acknowledged") : value.end();
  if (found == value.end() || !found->is_number_integer()) {
    return Error{Code::kUnavailable, "the server's answer to a report acknowledges nothing"};
  }
  return found->get<std::int64_t>();
}

Result<wire::Credentials> ServerLink::credentials() {
  YARD_TRY(const json value, call({.url = "/yard/v1/credentials", .timeout = kShortCall}));
  return wire::credentials_from_json(value);
}

}  // namespace trainyard::instance
