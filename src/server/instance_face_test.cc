// SPDX-License-Identifier: Apache-2.0
#include "server/instance_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "server/api_face.h"
#include "server/testing/fakes.h"

namespace trainyard::server {
namespace {

using testing::HasSubstr;

class InstanceFaceTest : public testing::Test {
 protected:
  std::shared_ptr<Answer> send(const std::string& method, const std::string& call,
                               const std::string& token = "good", const std::string& body = "",
                               const std::string& protocol = "1") {
    const std::size_t question = call.find('?');
    http::Request request =
        request_of(method, "/yard/v1/" + call.substr(0, question),
                   question == std::string::npos ? "" : call.substr(question + 1));
    request.headers.set("Authorization", "Bearer " + token);
    request.headers.set("Yard-Protocol", protocol);
    if (!epoch_.empty()) {
      request.headers.set("Yard-Epoch", epoch_);
    }
    auto answer = std::make_shared<Answer>();
    const Route route = classify(request);
    face_->handle(std::make_unique<FakeExchange>(std::move(request), body, answer), route);
    return answer;
  }

  // A request of this version that is not proven yet.
  static http::Request proving_request(const std::string& method, const std::string& call) {
    const std::size_t question = call.find('?');
    http::Request request =
        request_of(method, "/yard/v1/" + call.substr(0, question),
                   question == std::string::npos ? "" : call.substr(question + 1));
    request.headers.set("Yard-Protocol", "3");
    return request;
  }
  // Its claim, to the run that the test has heard of.
  wire::Claim prove(http::Request& request, const std::string& body = "", int number = 1) const {
    wire::Claim claim{.id = kInstanceId, .run = run_, .number = static_cast<std::uint64_t>(number)};
    const std::string target = request.path + (request.query.empty() ? "" : "?" + request.query);
    claim.proof = wire::prove_request(key_, claim,
                                      {.method = request.method,
                                       .target = target,
                                       .epoch = request.headers.get("Yard-Epoch"),
                                       .body_hash = sha256_hex(body)});
    request.headers.set("Authorization", wire::to_header(claim));
    return claim;
  }
  std::shared_ptr<Answer> give(http::Request request, const std::string& body = "") {
    auto answer = std::make_shared<Answer>();
    const Route route = classify(request);
    face_->handle(std::make_unique<FakeExchange>(std::move(request), body, answer), route);
    return answer;
  }
  void learn_the_run() {
    http::Request request = proving_request("GET", "assignment");
    prove(request);
    run_ = give(request)->header("Yard-Run");
    ASSERT_EQ(run_.size(), 32U);
  }
  bool proves_itself(const Answer& answer, const wire::Claim& claim) const {
    return answer.header("Yard-Proof") == wire::prove_answer(key_, claim.proof,
                                                             {.status = answer.response.status,
                                                              .run = answer.header("Yard-Run"),
                                                              .body = answer.response.body});
  }
  // That it is refused in words that prove nothing to anybody.
  void expect_denied(http::Request request, const std::string& body = "") {
    const auto answer = give(std::move(request), body);
    EXPECT_EQ(answer->response.status, 403);
    EXPECT_EQ(answer->header("Yard-Proof"), "");
    EXPECT_EQ(control_.heard.size(), 0U);
  }

  std::string epoch_;
  std::string run_;
  const std::string key_ = wire::speaker_of(wire::make_token("root", kInstanceId))->key;
  FakeControl control_;
  SeededRandom random_{3};
  std::unique_ptr<InstanceFace> face_ = std::make_unique<InstanceFace>(control_, random_);
};

TEST_F(InstanceFaceTest, ProvesItsAnswersToWhoProvesHisRequests) {
  learn_the_run();
  http::Request request = proving_request("POST", "reports");
  request.headers.set("Yard-Epoch", "3");
  const wire::Claim claim = prove(request, R"([{"seq":7}])");
  const auto answer = give(request, R"([{"seq":7}])");
  EXPECT_EQ(answer->json()["acknowledged"], 7);
  EXPECT_EQ(control_.last_epoch, 3);
  EXPECT_TRUE(proves_itself(*answer, claim));
}

TEST_F(InstanceFaceTest, ProvesALongPollsAnswer) {
  learn_the_run();
  http::Request request = proving_request("GET", "commands?after=4");
  const wire::Claim claim = prove(request);
  const auto answer = give(request);
  control_.release_polls();
  face_.reset();
  EXPECT_EQ(answer->response.status, 503);
  EXPECT_TRUE(proves_itself(*answer, claim));
}

TEST_F(InstanceFaceTest, DeniesAnAlteredRequest) {
  learn_the_run();
  http::Request body = proving_request("POST", "reports");
  prove(body, "[]");
  expect_denied(body, R"([{"seq":7}])");
  http::Request path = proving_request("GET", "assignment");
  prove(path);
  path.path = "/yard/v1/credentials";
  expect_denied(path);
  http::Request query = proving_request("GET", "commands?after=1");
  prove(query);
  query.query = "after=2";
  expect_denied(query);
  http::Request method = proving_request("POST", "reports");
  prove(method);
  method.method = "GET";
  expect_denied(method);
  http::Request epoch = proving_request("GET", "credentials");
  prove(epoch);
  epoch.headers.set("Yard-Epoch", "2");
  expect_denied(epoch);
}

TEST_F(InstanceFaceTest, DeniesAClaimWithAnotherNumberRunOrName) {
  learn_the_run();
  const auto altered = [&](auto change) {
    http::Request request = proving_request("GET", "credentials");
    wire::Claim claim = prove(request);
    change(claim);
    request.headers.set("Authorization", wire::to_header(claim));
    expect_denied(request);
  };
  altered([](wire::Claim& claim) { claim.number = 2; });
  altered([](wire::Claim& claim) { claim.run = std::string(32, '0'); });
  altered([](wire::Claim& claim) { claim.id = std::string(32, '0'); });
  altered([](wire::Claim& claim) { claim.proof = std::string(64, '0'); });
}

// What was said to somebody else at the server's address opens nothing later.
TEST_F(InstanceFaceTest, HearsNoRequestTwiceAndNoneOfAnEarlierRun) {
  learn_the_run();
  http::Request request = proving_request("GET", "credentials");
  const wire::Claim claim = prove(request);
  EXPECT_EQ(give(request)->response.status, 200);
  const auto again = give(request);
  EXPECT_EQ(again->response.status, 401);
  EXPECT_EQ(again->json()["subject"], "number");
  EXPECT_TRUE(proves_itself(*again, claim));
  face_ = std::make_unique<InstanceFace>(control_, random_);
  control_.heard.clear();
  const auto later = give(request);
  EXPECT_EQ(later->response.status, 401);
  EXPECT_EQ(later->json()["subject"], "run");
  EXPECT_TRUE(proves_itself(*later, claim));
  EXPECT_NE(later->header("Yard-Run"), run_);
}

// It would believe nothing else.
TEST_F(InstanceFaceTest, TellsAForgottenInstanceThatItIsOverAndProvesIt) {
  learn_the_run();
  control_.has_forgotten = true;
  http::Request request = proving_request("POST", "reports");
  const wire::Claim claim = prove(request, "[]");
  const auto answer = give(request, "[]");
  EXPECT_EQ(answer->response.status, 403);
  EXPECT_TRUE(proves_itself(*answer, claim));
}

// Any user of the machine may send them: as long as they are, they take a piece's memory.
TEST_F(InstanceFaceTest, KeepsNothingOfReportsThatAreNotWanted) {
  constexpr std::size_t kPiece = std::size_t{16} << 10;
  const std::string body = "[" + std::string(std::size_t{1} << 20, ' ') + "]";
  http::Request request = proving_request("POST", "reports");
  wire::Claim claim = prove(request, body);
  const auto of_no_run = give(request, body);
  EXPECT_EQ(of_no_run->response.status, 401);
  EXPECT_TRUE(proves_itself(*of_no_run, claim));
  EXPECT_LE(of_no_run->most_read, kPiece);
  EXPECT_EQ(of_no_run->body_time, kMostBodyTime);
  learn_the_run();
  claim = prove(request, body);
  EXPECT_GT(give(request, body)->most_read, kPiece);
  control_.has_forgotten = true;
  const auto forgotten = give(request, body);
  EXPECT_EQ(forgotten->response.status, 403);
  EXPECT_TRUE(proves_itself(*forgotten, claim));
  EXPECT_LE(forgotten->most_read, kPiece);
  EXPECT_EQ(give(request, body + " ")->header("Yard-Proof"), "");
  EXPECT_EQ(send("POST", "reports", "stale", body)->most_read, 0U);
}

TEST_F(InstanceFaceTest, TakesNoBodyOfOtherCalls) {
  const std::string body(5'000, ' ');
  for (const char* call : {"assignment", "credentials", "commands?after=0", "other"}) {
    EXPECT_EQ(send("GET", call, "good", body)->response.status, 400) << call;
    EXPECT_EQ(send("GET", call, "stale", body)->response.status, 403) << call;
  }
}

TEST_F(InstanceFaceTest, TakesNoReportsWithoutALimit) {
  const std::string body((std::size_t{16} << 20) + 1, ' ');
  http::Request request = proving_request("POST", "reports");
  prove(request, body);
  EXPECT_EQ(give(request, body)->response.status, 400);
}

TEST_F(InstanceFaceTest, TakesNoBearerTokenInThisVersion) {
  http::Request request = proving_request("GET", "assignment");
  request.headers.set("Authorization", "Bearer good");
  expect_denied(request);
}

TEST_F(InstanceFaceTest, GivesAssignmentAndCredentialsForAToken) {
  const auto assignment = send("GET", "assignment");
  EXPECT_EQ(assignment->response.status, 200);
  EXPECT_EQ(assignment->json()["host"], "algo-1");
  EXPECT_EQ(assignment->header("Yard-Protocol"), "1");
  EXPECT_EQ(send("GET", "credentials")->json()["access_key_id"], "ASIA");
}

TEST_F(InstanceFaceTest, PassesTheEpochOn) {
  send("GET", "credentials");
  EXPECT_FALSE(control_.last_epoch);
  epoch_ = "3";
  send("GET", "credentials");
  EXPECT_EQ(control_.last_epoch, 3);
  for (const char* wrong : {"0", "-1", "x", "99999999999"}) {
    epoch_ = wrong;
    EXPECT_EQ(send("GET", "credentials")->response.status, 400) << wrong;
  }
}

TEST_F(InstanceFaceTest, TakesReports) {
  const auto answer = send("POST", "reports", "good", R"([{"seq":7}])");
  EXPECT_EQ(answer->json()["acknowledged"], 7);
  EXPECT_EQ(control_.last_input[0]["seq"], 7);
  EXPECT_EQ(send("POST", "reports", "good", "[{")->response.status, 400);
}

TEST_F(InstanceFaceTest, RefusesATokenThatIsUnknownOrMissing) {
  const auto unknown = send("GET", "assignment", "stale");
  EXPECT_EQ(unknown->response.status, 403);
  EXPECT_EQ(unknown->json()["code"], "Denied");
  http::Request bare = request_of("GET", "/yard/v1/assignment");
  bare.headers.set("Yard-Protocol", "1");
  auto answer = std::make_shared<Answer>();
  face_->handle(std::make_unique<FakeExchange>(bare, "", answer), classify(bare));
  EXPECT_EQ(answer->response.status, 403);
}

TEST_F(InstanceFaceTest, RefusesAnotherProtocolAndNamesBoth) {
  const auto answer = send("GET", "assignment", "good", "", "9");
  EXPECT_EQ(answer->response.status, 400);
  EXPECT_EQ(answer->header("Yard-Protocol"), "3");
  EXPECT_EQ(answer->json()["subject"], "protocol");
  EXPECT_THAT(answer->json()["message"].get<std::string>(), HasSubstr("\"9\""));
}

TEST_F(InstanceFaceTest, DoesNotKnowOtherPathsAndMethods) {
  EXPECT_EQ(send("GET", "secrets")->response.status, 404);
  EXPECT_EQ(send("POST", "assignment")->response.status, 404);
  EXPECT_EQ(send("GET", "commands?after=x")->response.status, 400);
  EXPECT_EQ(send("GET", "commands")->response.status, 400);
}

TEST_F(InstanceFaceTest, AnswersALongPollWhenControlDoes) {
  const auto answer = send("GET", "commands?after=4");
  EXPECT_FALSE(answer->given);
  EXPECT_EQ(control_.last_after, 4);
  control_.pending(nlohmann::json::array({{{"seq", 5}, {"kind", "go"}}}));
  control_.pending = nullptr;
  face_.reset();  // ends when its threads have answered
  ASSERT_TRUE(answer->given);
  EXPECT_EQ(answer->json()[0]["seq"], 5);
}

TEST_F(InstanceFaceTest, RefusesALongPollWithAStaleToken) {
  const auto answer = send("GET", "commands?after=0", "stale");
  face_.reset();
  EXPECT_EQ(answer->response.status, 403);
}

}  // namespace
}  // namespace trainyard::server
