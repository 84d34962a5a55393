// SPDX-License-Identifier: Apache-2.0
// Stand-ins for tests of the server's faces: an exchange whose answer can be looked at, a control
// that remembers what it was asked, and requests signed as a client signs them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "control/control.h"
#include "http/server.h"
#include "http/sigv4.h"
#include "wire/proof.h"

namespace trainyard::server {

inline constexpr const char* kKeyId = "AKIDEXAMPLEKEY000001";
inline constexpr const char* kInstanceId = "0123456789abcdef0123456789abcdef";
inline constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

class FixedClock final : public Clock {
 public:
  WallTime now() const override { return wall; }
  SteadyTime steady_now() const override { return {}; }

  WallTime wall{Duration{1'795'983'734'000}};
};

// What an exchange was answered; shared with the test, which outlives the exchange.
struct Answer {
  bool given = false;
  http::Response response;
  std::size_t most_read = 0;               // the largest piece of the body that was asked for
  std::chrono::milliseconds body_time{0};  // for which the body may be waited

  nlohmann::json json() const { return nlohmann::json::parse(response.body, nullptr, false); }
  std::string header(std::string_view name) const {
    return std::string(response.headers.get(name));
  }
};

class FakeExchange final : public http::Exchange {
 public:
  // `broken`: what reading the body gives instead.
  FakeExchange(http::Request request, std::string body, std::shared_ptr<Answer> answer,
               std::optional<Error> broken = {})
      : request_(std::move(request)),
        body_(std::move(body)),
        answer_(std::move(answer)),
        broken_(std::move(broken)) {}

  const http::Request& request() const override { return request_; }
  std::optional<std::uint64_t> body_length() const override { return body_.size(); }
  Result<std::size_t> read_body(std::span<std::byte> out) override {
    answer_->most_read = std::max(answer_->most_read, out.size());
    if (broken_) {
      return *broken_;
    }
    const std::size_t count = std::min(out.size(), body_.size() - read_);
    std::memcpy(out.data(), body_.data() + read_, count);
    read_ += count;
    return count;
  }
  void limit_body_time(std::chrono::milliseconds most) override { answer_->body_time = most; }
  void respond(http::Response response) override {
    answer_->response = std::move(response);
    answer_->given = true;
  }
  Result<void> start(http::Response head, std::optional<std::uint64_t>) override {
    answer_->response = std::move(head);
    return {};
  }
  Result<void> write(std::span<const std::byte> bytes) override {
    answer_->response.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<void> finish() override {
    answer_->given = true;
    return {};
  }
  bool is_closed() const override { return false; }

 private:
  http::Request request_;
  std::string body_;
  std::size_t read_ = 0;
  std::shared_ptr<Answer> answer_;
  std::optional<Error> broken_;
};

// Knows one key, one instance of version 1 (token "good") and the one whose token's id is
// kInstanceId; answers what it is told to.
class FakeControl final : public control::Control {
 public:
  Result<nlohmann::json> call(std::string_view service, std::string_view operation,
                              const nlohmann::json& input, const control::Caller& caller) override {
    asked.push_back(std::string(service) + "." + std::string(operation));
    last_input = input;
    last_caller = caller;
    return answer;
  }
  std::optional<control::AccessKey> find_key(std::string_view id) override {
    return id == kKeyId ? std::optional(root_key()) : std::nullopt;
  }
  control::AccessKey root_key() override {
    return {.access_key_id = kKeyId,
            .secret_access_key = kSecret,
            .arn = "arn:aws:iam::123456789012:user/admin",
            .user_id = "AIDAEXAMPLE"};
  }
  std::string instance_token(std::string_view id) override { return wire::make_token("root", id); }
  Result<void> knows(const control::InstanceCaller& caller) override {
    return is_known(caller) ? Result<void>()
                            : Error{Code::kDenied, "the token is not known", "token"};
  }
  Result<void> hear(const control::InstanceCaller& caller, std::uint64_t number) override {
    YARD_TRY(for_caller(caller, {}));
    return heard.insert(number).second
               ? Result<void>()
               : Error{Code::kConflict, "the number was here before", "number"};
  }
  Result<nlohmann::json> assignment(const control::InstanceCaller& caller) override {
    return for_caller(caller, {{"host", "algo-1"}});
  }
  Result<nlohmann::json> reports(const control::InstanceCaller& caller,
                                 const nlohmann::json& body) override {
    last_input = body;
    return for_caller(caller, {{"acknowledged", 7}});
  }
  Result<nlohmann::json> credentials(const control::InstanceCaller& caller) override {
    return for_caller(caller, {{"access_key_id", "ASIA"}});
  }
  void commands(const control::InstanceCaller& caller, std::int64_t after,
                std::chrono::milliseconds,
                std::function<void(Result<nlohmann::json>)> then) override {
    if (!is_known(caller)) {
      return then(for_caller(caller, {}));
    }
    last_epoch = caller.epoch;
    last_after = after;
    pending = std::move(then);
  }
  void release_polls() override {
    if (pending) {
      std::exchange(pending, nullptr)(Error{Code::kUnavailable, "the server is stopping"});
    }
  }

  Result<nlohmann::json> answer = nlohmann::json::object();
  std::vector<std::string> asked;
  nlohmann::json last_input;
  control::Caller last_caller;
  std::int64_t last_after = -1;
  std::optional<int> last_epoch = {};
  std::set<std::uint64_t> heard;
  bool has_forgotten = false;  // all instances
  std::function<void(Result<nlohmann::json>)> pending;

 private:
  bool is_known(const control::InstanceCaller& caller) const {
    return !has_forgotten &&
           (caller.token == "good" || caller.token == wire::make_token("root", kInstanceId));
  }
  Result<nlohmann::json> for_caller(const control::InstanceCaller& caller, nlohmann::json value) {
    if (!is_known(caller)) {
      return Error{Code::kDenied, "the token is not known", "token"};
    }
    last_epoch = caller.epoch;
    return value;
  }
};

inline http::Request request_of(std::string method, std::string path, std::string query = "") {
  http::Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.query = std::move(query);
  request.headers.set("Host", "127.0.0.1:8321");
  return request;
}

inline http::Request json_request(const std::string& target) {
  http::Request request = request_of("POST", "/");
  request.headers.set("X-Amz-Target", target);
  request.headers.set("Content-Type", "application/x-amz-json-1.1");
  return request;
}

inline http::Request form_request() {
  http::Request request = request_of("POST", "/");
  request.headers.set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
  return request;
}

inline void sign_as(http::Request& request, const std::string& body, const std::string& service,
                    WallTime now, const std::string& secret = kSecret) {
  http::sign(request, sha256_hex(body), {.access_key_id = kKeyId, .secret_access_key = secret},
             {.region = "us-east-1", .service = service}, now);
}

}  // namespace trainyard::server
