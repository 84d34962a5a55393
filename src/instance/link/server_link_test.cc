// SPDX-License-Identifier: Apache-2.0
// What an instance believes, against servers that may be false.
#include "instance/link/server_link.h"

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "instance/testing/proving.h"

namespace trainyard::instance {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kServer = "http://server";

http::Response acknowledging(int seq = 7) {
  return {.status = 200, .headers = {}, .body = nlohmann::json{{"acknowledged", seq}}.dump()};
}

// Gives every request to `answer`, with its claim when that proves itself.
class Peer final : public http::Client {
 public:
  Result<http::Response> send(const http::ClientRequest& request) override {
    requests.push_back(request);
    const std::string target = request.url.substr(kServer.size());
    YARD_TRY(const wire::Claim claim,
             proven_claim(request.method, target, request.headers, request.body));
    claims.push_back(claim);
    return answer(claim);
  }

  std::function<http::Response(const wire::Claim&)> answer = [](const wire::Claim& claim) {
    return proven_answer(claim, acknowledging());
  };
  std::vector<http::ClientRequest> requests;
  std::vector<wire::Claim> claims;
};

struct ServerLinkTest : testing::Test {
  // What the link makes of an answer that is not the server's to its request.
  void expect_unproven(const std::function<http::Response(const wire::Claim&)>& false_answer) {
    peer.answer = false_answer;
    const Result<std::int64_t> told = link.report("[]", {});
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, Code::kUnavailable);
    EXPECT_TRUE(is_unproven(told.error())) << told.error().message;
  }

  Peer peer;
  ServerLink link{peer, std::string(kServer), test_speaker()};
};

TEST_F(ServerLinkTest, SendsNothingOfItsToken) {
  ASSERT_TRUE(link.in_attempt(3).report("[]", {}));
  const std::string secret = test_token().substr(33);
  for (const auto& [name, value] : peer.requests[0].headers.fields()) {
    EXPECT_THAT(value, Not(HasSubstr(secret))) << name;
  }
  EXPECT_EQ(peer.requests[0].headers.get(wire::kEpochHeader), "3");
  EXPECT_EQ(peer.requests[0].headers.get(wire::kProtocolHeader), "3");
}

TEST_F(ServerLinkTest, NumbersTheRequestsOfAllAttempts) {
  ASSERT_TRUE(link.report("[]", {}));
  ASSERT_TRUE(link.in_attempt(2).report("[]", {}));
  ASSERT_TRUE(link.in_attempt(3).report("[]", {}));
  EXPECT_EQ(peer.claims[0].run, "");
  EXPECT_EQ(peer.claims[1].run, kTestRun);
  EXPECT_EQ(peer.claims[2].number, 3U);
}

// Whoever had the address before may hold a connection and pass on what the server says.
TEST_F(ServerLinkTest, UsesNoConnectionAgain) {
  (void)link.assignment();
  (void)link.commands(0, {});
  (void)link.credentials();
  ASSERT_TRUE(link.report("[]", {}));
  ASSERT_EQ(peer.requests.size(), 4U);
  for (const http::ClientRequest& request : peer.requests) {
    EXPECT_FALSE(request.keep) << request.url;
  }
}

TEST_F(ServerLinkTest, DoesNotBelieveAnAlteredAnswer) {
  expect_unproven([](const wire::Claim& claim) {
    http::Response response = proven_answer(claim, acknowledging(7));
    response.body = acknowledging(8).body;
    return response;
  });
  expect_unproven([](const wire::Claim& claim) {
    http::Response response = proven_answer(claim, acknowledging());
    response.status = 403;
    return response;
  });
  expect_unproven([](const wire::Claim& claim) {
    http::Response response = proven_answer(claim, acknowledging());
    response.headers.set(wire::kRunHeader, std::string(32, '2'));
    return response;
  });
}

TEST_F(ServerLinkTest, DoesNotBelieveAnAnswerToAnotherRequest) {
  std::optional<http::Response> kept;
  peer.answer = [&](const wire::Claim& claim) {
    kept = proven_answer(claim, acknowledging());
    return *kept;
  };
  ASSERT_TRUE(link.report("[]", {}));
  expect_unproven([&](const wire::Claim&) { return *kept; });
}

TEST_F(ServerLinkTest, DoesNotBelieveItsOwnProof) {
  expect_unproven([](const wire::Claim& claim) {
    http::Response response = acknowledging();
    response.headers.set(wire::kRunHeader, claim.run);
    response.headers.set(wire::kProofHeader, claim.proof);
    return response;
  });
}

// 403 would end the job's processes here.
TEST_F(ServerLinkTest, IsEndedByNobodyButTheServer) {
  for (const int status : {200, 400, 401, 403, 409, 500, 503}) {
    expect_unproven([&](const wire::Claim&) {
      return http::Response{.status = status, .headers = {}, .body = "no"};
    });
  }
  peer.answer = [](const wire::Claim& claim) {
    return proven_answer(claim, {.status = 403, .headers = {}, .body = "over"});
  };
  EXPECT_EQ(link.report("[]", {}).error().code, Code::kDenied);
}

TEST_F(ServerLinkTest, AsksAServerThatHasBegunAnewOnceMore) {
  const std::string later(32, '2');
  peer.answer = [&](const wire::Claim& claim) {
    return claim.run == later
               ? proven_answer(claim, acknowledging(), later)
               : proven_answer(claim, {.status = 401, .headers = {}, .body = ""}, later);
  };
  EXPECT_EQ(*link.report("[]", {}), 7);
  EXPECT_EQ(peer.claims.size(), 2U);
  EXPECT_EQ(peer.claims[1].number, 2U);
}

TEST_F(ServerLinkTest, IsUnavailableWhenItsRequestIsNotHeard) {
  peer.answer = [](const wire::Claim& claim) {
    return proven_answer(claim, {.status = 401, .headers = {}, .body = "was here"});
  };
  const Result<std::int64_t> told = link.report("[]", {});
  EXPECT_EQ(told.error().code, Code::kUnavailable);
  EXPECT_THAT(told.error().message, HasSubstr("was here"));
}

TEST_F(ServerLinkTest, NamesBothVersionsWhenTheServersIsTooOld) {
  expect_unproven([](const wire::Claim&) {
    http::Response response{.status = 400, .headers = {}, .body = "{}"};
    response.headers.set(wire::kProtocolHeader, "2");
    return response;
  });
  EXPECT_THAT(link.report("[]", {}).error().message,
              AllOf(HasSubstr("version \"2\""), HasSubstr("version 3")));
}

TEST_F(ServerLinkTest, ComplainsOnceUntilTheServerAnswersAgain) {
  const auto false_answer = [](const wire::Claim&) {
    return http::Response{.status = 200, .headers = {}, .body = "{}"};
  };
  const auto honest = peer.answer;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    expect_unproven(false_answer);
  }
  const std::string complaint = "ignoring what answers at http://server";
  const std::string first = testing::internal::GetCapturedStderr();
  EXPECT_THAT(first, HasSubstr(complaint));
  EXPECT_EQ(first.find(complaint), first.rfind(complaint)) << first;
  testing::internal::CaptureStderr();
  peer.answer = honest;
  EXPECT_TRUE(link.report("[]", {}));
  expect_unproven(false_answer);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("our server answers again"), HasSubstr(complaint)));
}

}  // namespace
}  // namespace trainyard::instance
