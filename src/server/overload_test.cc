// SPDX-License-Identifier: Apache-2.0
#include "server/overload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::server {
namespace {

using testing::HasSubstr;

http::Request request(std::string method, std::string path) {
  return {.method = std::move(method), .path = std::move(path)};
}

TEST(Overload, IsAThrottlingExceptionForJsonServices) {
  http::Request asked = request("POST", "/");
  asked.headers.set("X-Amz-Target", "SageMaker.DescribeTrainingJob");
  const http::Response told = overload_response(asked, "id-1");
  EXPECT_EQ(told.status, 400);
  EXPECT_EQ(told.headers.get("x-amzn-ErrorType"), "ThrottlingException");
  EXPECT_EQ(told.headers.get("x-amzn-RequestId"), "id-1");
  EXPECT_THAT(told.body, HasSubstr(R"("__type":"ThrottlingException")"));
}

TEST(Overload, IsThrottlingForQueryServices) {
  http::Request asked = request("POST", "/");
  asked.headers.set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
  const http::Response told = overload_response(asked, "id-2");
  EXPECT_EQ(told.status, 400);
  EXPECT_THAT(told.body, HasSubstr("<Code>Throttling</Code>"));
}

TEST(Overload, IsSlowDownForS3) {
  const http::Response told = overload_response(request("PUT", "/bucket/key"), "id-3");
  EXPECT_EQ(told.status, 503);
  EXPECT_THAT(told.body, HasSubstr("<Code>SlowDown</Code>"));
  EXPECT_THAT(told.body, HasSubstr("<RequestId>id-3</RequestId>"));
}

TEST(Overload, TellsInstancesWhenToAskAgain) {
  const http::Response told = overload_response(request("POST", "/yard/v1/reports"), "id-4");
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.headers.get("Retry-After"), "1");
}

}  // namespace
}  // namespace trainyard::server
