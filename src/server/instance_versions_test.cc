// SPDX-License-Identifier: Apache-2.0
// Instances of the versions before, which run on when the server is replaced by this one. What they
// ask and what they take for an answer is written down here by hand, as their programs have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/random.h"
#include "server/instance_face.h"
#include "server/testing/fakes.h"

namespace trainyard::server {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

const std::string kToken = wire::make_token("root", kInstanceId);

struct Call {
  std::string method;
  std::string name;
  std::string body = {};
};

const std::vector<Call> kCalls = {
    {"GET", "assignment"}, {"GET", "credentials"}, {"POST", "reports", R"([{"seq":7}])"}};

class InstanceVersionsTest : public testing::Test {
 protected:
  std::shared_ptr<Answer> ask(const Call& call, const std::string& version,
                              const std::string& authorization) {
    http::Request request = request_of(call.method, "/yard/v1/" + call.name);
    request.headers.set("Authorization", authorization);
    request.headers.set("Yard-Protocol", version);
    request.headers.set("Yard-Epoch", "1");
    auto answer = std::make_shared<Answer>();
    const Route route = classify(request);
    face_.handle(std::make_unique<FakeExchange>(std::move(request), call.body, answer), route);
    return answer;
  }

  struct Proven {
    std::shared_ptr<Answer> answer;
    bool is_believed = false;
  };
  // As an instance of version 2 asks with this key, and whether it believes the answer.
  Proven ask_as_version_2(const Call& call, const std::string& key) {
    const std::string number = std::to_string(++number_);
    const std::string said = "yard-request\n2\n" + std::string(kInstanceId) + "\n" + run_ + "\n" +
                             number + "\n" + call.method + "\n/yard/v1/" + call.name + "\n1\n" +
                             sha256_hex(call.body);
    const std::string proof = to_hex(hmac_sha256(key, said));
    Proven out{.answer = ask(call, "2",
                             "Yard-HMAC-SHA256 Id=" + std::string(kInstanceId) + ", Run=" + run_ +
                                 ", Number=" + number + ", Proof=" + proof)};
    run_ = out.answer->header("Yard-Run");
    const std::string heard = "yard-answer\n2\n" + proof + "\n" + run_ + "\n" +
                              std::to_string(out.answer->response.status) + "\n" +
                              sha256_hex(out.answer->response.body);
    out.is_believed = out.answer->header("Yard-Proof") == to_hex(hmac_sha256(key, heard));
    return out;
  }

  FakeControl control_;
  SystemRandom random_;
  InstanceFace face_{control_, random_};
  std::string run_;
  int number_ = 0;
};

// It takes an answer of a success only with this header absent, or of its own version or the next.
TEST_F(InstanceVersionsTest, AnswersVersion1AsItTakesAnswers) {
  for (const Call& call : kCalls) {
    const auto answer = ask(call, "1", "Bearer good");
    EXPECT_EQ(answer->response.status, 200) << call.name;
    EXPECT_THAT(answer->header("Yard-Protocol"), AnyOf("1", "2")) << call.name;
  }
}

TEST_F(InstanceVersionsTest, ProvesToVersion2InItsVersion) {
  const std::string key = hmac_sha256(kToken, "yard-instance-key");
  const Proven first = ask_as_version_2(kCalls[0], key);
  EXPECT_EQ(first.answer->response.status, 401);  // it has not heard of this run
  EXPECT_TRUE(first.is_believed);
  for (const Call& call : kCalls) {
    const Proven proven = ask_as_version_2(call, key);
    EXPECT_EQ(proven.answer->response.status, 200) << call.name;
    EXPECT_EQ(proven.answer->header("Yard-Protocol"), "2") << call.name;
    EXPECT_TRUE(proven.is_believed) << call.name;
  }
}

TEST_F(InstanceVersionsTest, TellsTheFirstBuildsOfVersion2BothVersions) {
  for (const Call& call : kCalls) {
    const Proven refused = ask_as_version_2(call, hash_of(HashKind::kSha256, kToken));
    EXPECT_EQ(refused.answer->response.status, 403);
    EXPECT_FALSE(refused.is_believed);
    EXPECT_EQ(refused.answer->header("Yard-Proof"), "");
    EXPECT_THAT(refused.answer->json()["message"].get<std::string>(),
                AllOf(HasSubstr("version 2"), HasSubstr("this side of 3")));
  }
  EXPECT_EQ(control_.heard.size(), 0U);
}

}  // namespace
}  // namespace trainyard::server
