// SPDX-License-Identifier: Apache-2.0
#include "instance/link/server_link.h"

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

namespace trainyard::instance {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kShortCall{10'000};
constexpr std::string_view kProof = "proof";
constexpr std::string_view kRun = "run";

Code code_of_status(int status) {
  if (status == 403) {
    return Code::kDenied;
  }
  if (status == 409) {
    return Code::kConflict;
  }
  // 401: this request is not heard, but another one may be.
  return status >= 500 || status == 401 || status == 429 ? Code::kUnavailable
                                                         : Code::kInvalidArgument;
}

std::string words_of(const http::Response& response) {
  const std::string said(utf8_prefix(to_valid_utf8(trim(response.body)), 500));
  return std::to_string(response.status) + (said.empty() ? "" : ": " + said);
}

}  // namespace

bool is_unproven(const Error& error) {
  return error.subject == kProof;
}

ServerLink ServerLink::in_attempt(int epoch) const {
  ServerLink link = *this;
  link.epoch_ = epoch;
  return link;
}

wire::Claim ServerLink::next_claim() {
  const MutexLock lock(talk_->mutex);
  return {.id = speaker_.id, .run = talk_->run, .number = ++talk_->number};
}

// What it said is told to people, and nothing else is done with it.
Error ServerLink::doubt(const http::Response& response) {
  std::string why = "nothing in the answer proves that it is our server's";
  const std::string* version = response.headers.find(wire::kProtocolHeader);
  if (version != nullptr) {
    const auto speaks = wire::check_protocol(*version, wire::Peer::kServer);
    why = speaks ? why : speaks.error().message;
  }
  bool is_news = false;
  {
    const MutexLock lock(talk_->mutex);
    is_news = !std::exchange(talk_->is_doubted, true);
  }
  if (is_news) {
    log_warning("ignoring what answers at " + server_ + ": " + why +
                ". Our server is not ready, or another program has its address. It said " +
                words_of(response));
  }
  return {Code::kUnavailable, why, std::string(kProof)};
}

bool ServerLink::believe(const std::string& run, const std::string& asked) {
  bool was_doubted = false;
  {
    const MutexLock lock(talk_->mutex);
    talk_->run = run;
    was_doubted = std::exchange(talk_->is_doubted, false);
  }
  if (was_doubted) {
    log_info("our server answers again at " + server_);
  }
  return run != asked;
}

Result<http::Response> ServerLink::ask(http::ClientRequest request, const std::string& target) {
  wire::Claim claim = next_claim();
  const std::string epoch = epoch_ ? std::to_string(*epoch_) : "";
  claim.proof = wire::prove_request(speaker_.key, claim,
                                    {.method = request.method,
                                     .target = target,
                                     .epoch = epoch,
                                     .body_hash = sha256_hex(request.body)});
  request.headers.set("Authorization", wire::to_header(claim));
  request.headers.set(wire::kProtocolHeader, std::to_string(wire::kProtocolVersion));
  if (epoch_) {
    request.headers.set(wire::kEpochHeader, epoch);
  }
  if (!request.body.empty()) {
    request.headers.set("Content-Type", "application/json");
  }
  YARD_TRY(http::Response response, client_.send(request));
  const std::string run(response.headers.get(wire::kRunHeader));
  const std::string proof = wire::prove_answer(
      speaker_.key, claim.proof, {.status = response.status, .run = run, .body = response.body});
  if (!equal_in_constant_time(proof, response.headers.get(wire::kProofHeader))) {
    return doubt(response);
  }
  if (believe(run, claim.run) && response.status == 401) {
    return Error{Code::kUnavailable, "the server has begun anew", std::string(kRun)};
  }
  return response;
}

Result<json> ServerLink::call(http::ClientRequest request) {
  const std::string target = request.url;
  const std::string what = request.method + " " + target;
  request.url = server_ + target;
  // A false server may hold a connection until the real one is back, and pass on what is said.
  request.keep = false;
  Result<http::Response> asked = ask(request, target);
  if (!asked && asked.error().subject == kRun) {
    asked = ask(std::move(request), target);
  }
  if (!asked) {
    return is_unproven(asked.error()) ? asked.error().in(what) : asked.error();
  }
  const http::Response response = *std::move(asked);
  if (response.status / 100 != 2) {
    return Error{code_of_status(response.status),
                 what + ": the server answers " + words_of(response)};
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
