// SPDX-License-Identifier: Apache-2.0
// A server of one answer function for the tests of this module, in place of HTTP.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/api_client.h"
#include "cli/terminal.h"
#include "http/client.h"
#include "testing/fake_clock.h"

namespace trainyard::cli {

inline http::Response answer(const nlohmann::json& body, int status = 200) {
  return {.status = status, .headers = {}, .body = body.dump()};
}

inline http::Response refuse(const std::string& type, const std::string& message,
                             int status = 400) {
  return answer({{"__type", type}, {"message", message}}, status);
}

struct FakeApi final : http::Client {
  using Answer =
      std::function<Result<http::Response>(const std::string& operation, const nlohmann::json&)>;

  explicit FakeApi(Answer chosen) : give(std::move(chosen)) {}

  Result<http::Response> send(const http::ClientRequest& request) override {
    const std::string target(request.headers.get("X-Amz-Target"));
    const std::string operation = target.substr(target.find('.') + 1);
    nlohmann::json input = nlohmann::json::parse(request.body);
    calls.emplace_back(operation, input);
    return give(operation, input);
  }

  // The input of the last call of an operation; null when there was none.
  nlohmann::json last(const std::string& operation) const {
    nlohmann::json found;
    for (const auto& [name, input] : calls) {
      if (name == operation) {
        found = input;
      }
    }
    return found;
  }

  Answer give;
  std::vector<std::pair<std::string, nlohmann::json>> calls;
};

inline Settings some_settings() {
  return {.endpoint = "http://127.0.0.1:8321",
          .region = "us-east-1",
          .credentials = {.access_key_id = "AKID", .secret_access_key = "secret"}};
}

// What a verb or a watch needs, with its output kept as text.
struct Stage {
  explicit Stage(FakeApi::Answer chosen) : fake(std::move(chosen)) {}

  FakeApi fake;
  testing::FakeClock clock{WallTime(std::chrono::seconds(1'796'069'525))};
  ApiClient api{fake, clock, some_settings()};
  std::ostringstream out;
  std::ostringstream err;
  Terminal terminal{.out = out, .err = err};
};

}  // namespace trainyard::cli
