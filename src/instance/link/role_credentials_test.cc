// SPDX-License-Identifier: Apache-2.0
#include "instance/link/role_credentials.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "instance/link/credentials_server.h"
#include "instance/testing/proving.h"

namespace trainyard::instance {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  WallTime now() const override { return now_; }
  SteadyTime steady_now() const override { return {}; }
  void pass(Duration time) { now_ += time; }

 private:
  WallTime now_{Duration(1'800'000'000'000)};
};

// Answers every request with new keys, or with a status.
class KeyServer final : public http::Client {
 public:
  KeyServer(Clock& clock, Duration life) : clock_(clock), life_(life) {}

  Result<http::Response> send(const http::ClientRequest& request) override {
    const std::string target = request.url.substr(std::string_view("http://server").size());
    YARD_TRY(const wire::Claim claim,
             proven_claim(request.method, target, request.headers, request.body));
    return proven_answer(claim, answer());
  }

  int asked = 0;
  int status = 200;

 private:
  http::Response answer() {
    ++asked;
    if (status != 200) {
      return {.status = status, .headers = {}, .body = {}};
    }
    const wire::Credentials keys{.role_arn = "arn:role",
                                 .access_key_id = "KEY" + std::to_string(asked),
                                 .secret_access_key = "secret",
                                 .session_token = "token",
                                 .expires = clock_.now() + life_};
    return {.status = 200, .headers = {}, .body = wire::to_json(keys).dump()};
  }

  Clock& clock_;
  Duration life_;
};

struct RoleCredentialsTest : testing::Test {
  ManualClock clock;
  KeyServer server{clock, minutes(60)};
  ServerLink link{server, "http://server", test_speaker()};
  RoleCredentials credentials{link, clock};
};

TEST_F(RoleCredentialsTest, AreFetchedOnceAndRenewedBeforeTheyExpire) {
  EXPECT_EQ(credentials.get()->access_key_id, "KEY1");
  clock.pass(minutes(54));
  EXPECT_EQ(credentials.get()->access_key_id, "KEY1");
  clock.pass(minutes(2));
  EXPECT_EQ(credentials.get()->access_key_id, "KEY2");
}

// cases.md 135: keys that live for a minute.
TEST(RoleCredentials, AreRenewedAfterHalfOfAShortLife) {
  ManualClock clock;
  KeyServer server(clock, seconds(60));
  ServerLink link(server, "http://server", test_speaker());
  RoleCredentials credentials(link, clock);
  EXPECT_EQ(credentials.get()->access_key_id, "KEY1");
  clock.pass(seconds(29));
  EXPECT_EQ(credentials.get()->access_key_id, "KEY1");
  clock.pass(seconds(2));
  EXPECT_EQ(credentials.get()->access_key_id, "KEY2");
}

TEST_F(RoleCredentialsTest, AreFetchedAgainWhenTheyWereRefused) {
  EXPECT_EQ(credentials.signing_keys(false)->access_key_id, "KEY1");
  EXPECT_EQ(credentials.signing_keys(true)->access_key_id, "KEY2");
}

TEST_F(RoleCredentialsTest, ServeOnWhileTheServerIsAwayUntilTheyExpire) {
  ASSERT_TRUE(credentials.get());
  server.status = 503;
  clock.pass(minutes(58));
  EXPECT_EQ(credentials.get()->access_key_id, "KEY1");
  clock.pass(minutes(3));
  EXPECT_EQ(credentials.get().error().code, Code::kUnavailable);
}

TEST_F(RoleCredentialsTest, AreServedUnderTheSecretPathOnly) {
  http::Request request;
  request.method = "GET";
  request.path = "/v2/credentials/secret";
  const http::Response good =
      credentials_response(request, {.path = "/v2/credentials/secret"}, credentials);
  EXPECT_EQ(good.status, 200);
  const nlohmann::json keys = nlohmann::json::parse(good.body);
  EXPECT_EQ(keys["AccessKeyId"], "KEY1");
  EXPECT_EQ(keys["Token"], "token");
  EXPECT_EQ(keys["RoleArn"], "arn:role");
  EXPECT_EQ(keys["Expiration"], to_iso8601(clock.now() + minutes(60)));
  request.path = "/v2/credentials/other";
  EXPECT_EQ(credentials_response(request, {.path = "/v2/credentials/secret"}, credentials).status,
            404);
}

TEST_F(RoleCredentialsTest, AskForATokenWhereOthersReachThem) {
  const CredentialsPlace place{.path = "/v2/credentials/secret", .token = "mine"};
  http::Request request;
  request.method = "GET";
  request.path = place.path;
  EXPECT_EQ(credentials_response(request, place, credentials).status, 401);
  request.headers.set("Authorization", "yours");
  EXPECT_EQ(credentials_response(request, place, credentials).status, 401);
  request.headers.set("Authorization", "mine");
  EXPECT_EQ(credentials_response(request, place, credentials).status, 200);
}

}  // namespace
}  // namespace trainyard::instance
