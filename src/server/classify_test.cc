// SPDX-License-Identifier: Apache-2.0
#include "server/classify.h"

#include <gtest/gtest.h>

#include "server/testing/fakes.h"

namespace trainyard::server {
namespace {

http::Request with(http::Request request, std::string_view header, std::string value) {
  request.headers.set(header, std::move(value));
  return request;
}

struct Case {
  const char* name;
  http::Request request;
  Route route;
};

class Classify : public testing::TestWithParam<Case> {};

TEST_P(Classify, FindsTheService) {
  const Route route = classify(GetParam().request);
  EXPECT_EQ(route.kind, GetParam().route.kind);
  EXPECT_EQ(route.service, GetParam().route.service);
  EXPECT_EQ(route.operation, GetParam().route.operation);
}

const std::string kSigned = "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/s3/aws4_request";

INSTANTIATE_TEST_SUITE_P(
    Requests, Classify,
    testing::Values(
        Case{"SageMaker",
             json_request("SageMaker.CreateTrainingJob"),
             {RouteKind::kJson, "sagemaker", "CreateTrainingJob"}},
        Case{"Logs",
             json_request("Logs_20140328.GetLogEvents"),
             {RouteKind::kJson, "logs", "GetLogEvents"}},
        Case{"Metrics",
             json_request("GraniteServiceVersion20100801.ListMetrics"),
             {RouteKind::kJson, "cloudwatch", "ListMetrics"}},
        Case{"MetricsByForm",
             with(form_request(), "Authorization",
                  "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/monitoring/aws4_request"),
             {RouteKind::kQuery, "cloudwatch"}},
        Case{"OtherTarget",
             json_request("DynamoDB_20120810.ListTables"),
             {RouteKind::kJson, "dynamodb_20120810", "ListTables"}},
        Case{"NoDot", json_request("Nonsense"), {RouteKind::kJson, "nonsense", ""}},
        Case{"Form", form_request(), {RouteKind::kQuery}},
        Case{"ActionInTheQuery",
             request_of("GET", "/", "Action=GetCallerIdentity&Version=2011-06-15"),
             {RouteKind::kQuery}},
        Case{"FormOfIam",
             with(form_request(), "Authorization",
                  "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/iam/aws4_request"),
             {RouteKind::kQuery, "iam"}},
        Case{"RestOfAnotherService",
             with(request_of("GET", "/2015-03-31/functions/"), "Authorization",
                  "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/lambda/aws4_request"),
             {RouteKind::kRest, "lambda"}},
        Case{"ListBuckets", request_of("GET", "/"), {RouteKind::kS3}},
        Case{"PutObject", request_of("PUT", "/bucket/key"), {RouteKind::kS3}},
        Case{"FormUploadToABucket",
             with(request_of("POST", "/bucket"), "Content-Type",
                  "application/x-www-form-urlencoded"),
             {RouteKind::kS3}},
        Case{"ObjectWithATargetHeader",
             with(request_of("PUT", "/bucket/key"), "X-Amz-Target", "SageMaker.AddTags"),
             {RouteKind::kS3}},
        Case{"QueryNamedAlmostAction", request_of("GET", "/", "Actions=x"), {RouteKind::kS3}},
        Case{"Health", request_of("GET", "/yard/health"), {RouteKind::kHealth}},
        Case{"Instance",
             with(request_of("GET", "/yard/v1/commands", "after=3"), "Authorization", "Bearer t"),
             {RouteKind::kInstance, "", "commands"}},
        Case{"UnknownYardPath", request_of("GET", "/yard/v2/x"), {RouteKind::kS3}},
        Case{"ABucketCalledYard",
             with(request_of("GET", "/yard/v1/key"), "Authorization", kSigned),
             {RouteKind::kS3}},
        Case{"ABucketSignedForAnotherService",
             with(with(request_of("GET", "/bucket"), "Authorization",
                       "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/sts/aws4_request"),
                  "x-amz-content-sha256", "0"),
             {RouteKind::kS3}},
        Case{"ABucketCalledYardPresigned",
             request_of("GET", "/yard/health", "X-Amz-Signature=0123"),
             {RouteKind::kS3}}),
    [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

TEST(ClaimedService, ReadsTheCredentialScope) {
  EXPECT_EQ(claimed_service(with(request_of("POST", "/"), "Authorization",
                                 "AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/sts/"
                                 "aws4_request, SignedHeaders=host, Signature=00")),
            "sts");
  EXPECT_EQ(claimed_service(request_of(
                "GET", "/", "X-Amz-Credential=AKID%2F20261129%2Fus-east-1%2Fs3%2Faws4_request")),
            "s3");
  EXPECT_EQ(claimed_service(request_of("GET", "/")), "");
  EXPECT_EQ(claimed_service(with(request_of("GET", "/"), "Authorization", "Credential=a/b")), "");
}

TEST(ScopeFits, OnlyTheServiceThatWasSignedFor) {
  EXPECT_TRUE(scope_fits({RouteKind::kJson, "sagemaker", "X"}, "sagemaker"));
  EXPECT_FALSE(scope_fits({RouteKind::kJson, "sagemaker", "X"}, "s3"));
  EXPECT_FALSE(scope_fits({RouteKind::kJson, "logs", "X"}, "sagemaker"));
  EXPECT_TRUE(scope_fits({RouteKind::kJson, "cloudwatch", "X"}, "monitoring"));
  EXPECT_FALSE(scope_fits({RouteKind::kJson, "cloudwatch", "X"}, "logs"));
  EXPECT_TRUE(scope_fits({RouteKind::kS3}, "s3"));
  EXPECT_FALSE(scope_fits({RouteKind::kS3}, "sts"));
  EXPECT_TRUE(scope_fits({RouteKind::kQuery}, "iam"));
  EXPECT_FALSE(scope_fits({RouteKind::kQuery}, "s3"));
}

TEST(IsServedToJobs, LeavesOutWhatStartsJobs) {
  EXPECT_TRUE(is_served_to_jobs({RouteKind::kS3}, ""));
  EXPECT_TRUE(is_served_to_jobs({RouteKind::kInstance, "", "reports"}, ""));
  EXPECT_TRUE(is_served_to_jobs({RouteKind::kQuery}, "GetCallerIdentity"));
  EXPECT_FALSE(is_served_to_jobs({RouteKind::kQuery}, "GetRole"));
  EXPECT_FALSE(is_served_to_jobs({RouteKind::kJson, "sagemaker", "CreateTrainingJob"}, ""));
}

}  // namespace
}  // namespace trainyard::server
