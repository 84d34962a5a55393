// SPDX-License-Identifier: Apache-2.0
#include "server/instance_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  std::string epoch_;
  FakeControl control_;
  std::unique_ptr<InstanceFace> face_ = std::make_unique<InstanceFace>(control_);
};

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
