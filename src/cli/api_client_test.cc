// SPDX-License-Identifier: Apache-2.0
#include "cli/api_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/hash.h"
#include "cli/interrupt.h"
#include "http/server.h"

namespace trainyard::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Settings settings_for(std::uint16_t port) {
  return {.endpoint = "http://127.0.0.1:" + std::to_string(port),
          .region = "us-east-1",
          .credentials = {.access_key_id = "AKID",
                          .secret_access_key = "secret",
                          .session_token = "token"},
          .keys_from_environment = true};
}

// Answers with the target and the input when the signature holds, as the real server checks it.
void check_and_echo(std::unique_ptr<http::Exchange> exchange) {
  const Result<std::string> body = exchange->read_all(65'536);
  const http::KeyLookup keys = [](std::string_view id) -> std::optional<http::KnownKey> {
    if (id != "AKID") {
      return std::nullopt;
    }
    return http::KnownKey{.secret_access_key = "secret", .session_token = "token"};
  };
  const auto verdict =
      http::verify(exchange->request(), sha256_hex(*body), keys, SystemClock().now());
  if (const auto* error = std::get_if<http::AuthError>(&verdict)) {
    exchange->respond(
        {.status = 400,
         .headers = {},
         .body =
             Json({{"__type", "InvalidSignatureException"}, {"message", error->message}}).dump()});
    return;
  }
  const Json answer = {{"target", exchange->request().headers.get("X-Amz-Target")},
                       {"input", Json::parse(*body)}};
  exchange->respond({.status = 200, .headers = {}, .body = answer.dump()});
}

class ApiClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = http::Server::start({}, check_and_echo);
    ASSERT_TRUE(started.has_value());
    server_ = *std::move(started);
    const auto port = server_->listen("127.0.0.1", 0, "test");
    ASSERT_TRUE(port.has_value());
    port_ = *port;
  }

  std::unique_ptr<http::Server> server_;
  std::uint16_t port_ = 0;
  std::unique_ptr<http::Client> client_ = http::Client::make();
  SystemClock clock_;
};

TEST_F(ApiClientTest, SignsWhatTheServerVerifies) {
  const ApiClient api(*client_, clock_, settings_for(port_));
  const auto answer = api.call("logs", "GetLogEvents", {{"logStreamName", "\u65e5 x"}});
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ((*answer)["target"], "Logs_20140328.GetLogEvents");
  EXPECT_EQ((*answer)["input"]["logStreamName"], "\u65e5 x");
}

TEST_F(ApiClientTest, SaysWhichKeysWereWrong) {
  Settings settings = settings_for(port_);
  settings.credentials.secret_access_key = "other";
  const ApiClient api(*client_, clock_, settings);
  const auto answer = api.call("sagemaker", "ListTrainingJobs", Json::object());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().subject, "InvalidSignatureException");
  EXPECT_THAT(answer.error().message, HasSubstr("eval \"$(./yard env)\""));
}

// Whoever follows a job waits then, as for a server that is away.
TEST(Throttling, IsToBeTriedAgain) {
  auto server = http::Server::start({}, [](std::unique_ptr<http::Exchange> exchange) {
    exchange->respond({.status = 400,
                       .headers = {},
                       .body = R"({"__type":"ThrottlingException","message":"Rate exceeded"})"});
  });
  ASSERT_TRUE(server.has_value());
  const auto port = (*server)->listen("127.0.0.1", 0, "test");
  ASSERT_TRUE(port.has_value());
  const auto client = http::Client::make();
  SystemClock clock;
  const auto answer =
      ApiClient(*client, clock, settings_for(*port)).call("logs", "GetLogEvents", Json::object());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

TEST_F(ApiClientTest, SaysHowToStartAServerThatIsGone) {
  server_->stop(std::chrono::milliseconds(0));
  const ApiClient api(*client_, clock_, settings_for(port_));
  const auto answer = api.call("sagemaker", "ListTrainingJobs", Json::object());
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().subject, "");
  EXPECT_THAT(answer.error().message, HasSubstr("Start it with ./yard up"));
}

TEST(InterruptTest, TurnsASignalIntoAStoppedToken) {
  Interrupt interrupt;
  EXPECT_TRUE(interrupt.pause(std::chrono::milliseconds(0)));
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  EXPECT_FALSE(interrupt.pause(std::chrono::seconds(30)));
  EXPECT_TRUE(interrupt.token().stop_requested());
}

}  // namespace
}  // namespace trainyard::cli
