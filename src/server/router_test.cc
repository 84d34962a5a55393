// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/directory/directory_store.h"
#include "server/testing/fakes.h"

namespace trainyard::server {
namespace {

using testing::HasSubstr;

class RouterTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = s3::DirectoryStore::open(directory_->path() / "objects", clock_, random_);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    objects_ = std::move(*opened);
    s3_ = std::make_unique<store::S3Service>(*objects_, store::Options{}, clock_);
    router_ = std::make_unique<Router>(control_, *s3_, clock_, random_);
  }
  Answer send(http::Request request, const std::string& body = "") {
    auto answer = std::make_shared<Answer>();
    router_->handle(std::make_unique<FakeExchange>(std::move(request), body, answer));
    EXPECT_TRUE(answer->given);
    return *answer;
  }
  Answer send_signed(http::Request request, const std::string& service = "s3") {
    sign_as(request, "", service, clock_.now());
    return send(std::move(request));
  }

  Result<TempDir> directory_ = TempDir::make("router-");
  FixedClock clock_;
  SystemRandom random_;
  FakeControl control_;
  std::unique_ptr<s3::ObjectStore> objects_;
  std::unique_ptr<store::S3Service> s3_;
  std::unique_ptr<Router> router_;
};

TEST_F(RouterTest, AnswersHealthWithoutASignature) {
  const Answer answer = send(request_of("GET", "/yard/health"));
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.json()["status"], "ok");
  EXPECT_EQ(answer.json()["version"], std::string(version()));
  EXPECT_EQ(send(request_of("DELETE", "/yard/health")).response.status, 405);
}

TEST_F(RouterTest, ServesS3ByPath) {
  EXPECT_EQ(send_signed(request_of("PUT", "/bucket-1")).response.status, 200);
  const Answer listed = send_signed(request_of("GET", "/"));
  EXPECT_EQ(listed.response.status, 200);
  EXPECT_THAT(listed.response.body, HasSubstr("<Name>bucket-1</Name>"));
}

TEST_F(RouterTest, RefusesS3WithoutASignatureInXml) {
  const Answer answer = send(request_of("GET", "/bucket-1/key"));
  EXPECT_EQ(answer.response.status, 403);
  EXPECT_THAT(answer.response.body, HasSubstr("<Code>AccessDenied</Code>"));
}

TEST_F(RouterTest, RefusesAnUnsignedYardPathThatItDoesNotKnow) {
  EXPECT_EQ(send(request_of("GET", "/yard/v2/x")).response.status, 403);
}

TEST_F(RouterTest, RefusesS3SignedForAnotherService) {
  http::Request request = request_of("GET", "/bucket-1");
  request.headers.set("x-amz-content-sha256", sha256_hex(""));
  EXPECT_THAT(send_signed(std::move(request), "sagemaker").response.body,
              HasSubstr("AuthorizationHeaderMalformed"));
}

TEST_F(RouterTest, SendsTargetsToTheApiAndTokensToTheInstances) {
  EXPECT_EQ(send(json_request("SageMaker.AddTags"), "{}").response.status, 400);
  http::Request instance = request_of("GET", "/yard/v1/assignment");
  instance.headers.set("Authorization", "Bearer good");
  instance.headers.set("Yard-Protocol", "1");
  EXPECT_EQ(send(std::move(instance)).json()["host"], "algo-1");
}

}  // namespace
}  // namespace trainyard::server
