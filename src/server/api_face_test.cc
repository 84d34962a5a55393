// SPDX-License-Identifier: Apache-2.0
#include "server/api_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/fakes.h"

namespace trainyard::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ApiFaceTest : public testing::Test {
 protected:
  Answer send(http::Request request, const std::string& body) {
    auto answer = std::make_shared<Answer>();
    const Route route = classify(request);
    face_.handle(std::make_unique<FakeExchange>(std::move(request), body, answer), route);
    EXPECT_TRUE(answer->given);
    return *answer;
  }
  Answer send_signed(http::Request request, const std::string& body, const std::string& service) {
    sign_as(request, body, service, clock_.now());
    return send(std::move(request), body);
  }
  std::string error_of(const Answer& answer) { return answer.json().value("__type", ""); }

  FakeControl control_;
  FixedClock clock_;
  SystemRandom random_;
  ApiFace face_{control_, clock_, random_};
};

TEST_F(ApiFaceTest, HandsASignedJsonRequestToControl) {
  control_.answer = nlohmann::json{{"TrainingJobArn", "arn:x"}};
  const Answer answer = send_signed(json_request("SageMaker.CreateTrainingJob"),
                                    R"({"TrainingJobName":"demo"})", "sagemaker");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.json()["TrainingJobArn"], "arn:x");
  EXPECT_EQ(answer.header("Content-Type"), "application/x-amz-json-1.1");
  EXPECT_EQ(answer.header("x-amzn-RequestId").size(), 36u);
  EXPECT_THAT(control_.asked, ElementsAre("sagemaker.CreateTrainingJob"));
  EXPECT_EQ(control_.last_input["TrainingJobName"], "demo");
  EXPECT_EQ(control_.last_caller.arn, "arn:aws:iam::123456789012:user/admin");
}

TEST_F(ApiFaceTest, AnswersAnOperationWithoutOutputWithAnEmptyObject) {
  control_.answer = nlohmann::json();
  EXPECT_EQ(send_signed(json_request("SageMaker.StopTrainingJob"), "{}", "sagemaker").response.body,
            "{}");
}

TEST_F(ApiFaceTest, SpeaksAwsErrorsWithANameAndAStatus) {
  control_.answer = Error{Code::kNotFound, "no job"};
  const Answer answer =
      send_signed(json_request("SageMaker.DescribeTrainingJob"), "{}", "sagemaker");
  EXPECT_EQ(answer.response.status, 400);
  EXPECT_EQ(error_of(answer), "ValidationException");
  EXPECT_EQ(answer.json()["message"], "Requested resource not found.");
}

TEST_F(ApiFaceTest, AsksNobodyWithoutASignature) {
  const Answer answer = send(json_request("SageMaker.CreateTrainingJob"), "{}");
  EXPECT_EQ(error_of(answer), "MissingAuthenticationTokenException");
  EXPECT_THAT(control_.asked, IsEmpty());
}

TEST_F(ApiFaceTest, RefusesAWrongSecret) {
  http::Request request = json_request("SageMaker.CreateTrainingJob");
  sign_as(request, "{}", "sagemaker", clock_.now(), "another secret");
  EXPECT_EQ(error_of(send(std::move(request), "{}")), "InvalidSignatureException");
}

TEST_F(ApiFaceTest, RefusesABodyThatWasAltered) {
  http::Request request = json_request("SageMaker.CreateTrainingJob");
  sign_as(request, R"({"a":1})", "sagemaker", clock_.now());
  EXPECT_EQ(error_of(send(std::move(request), R"({"a":2})")), "InvalidSignatureException");
  EXPECT_THAT(control_.asked, IsEmpty());
}

TEST_F(ApiFaceTest, RefusesAClockThatIsTwentyMinutesOff) {
  http::Request request = json_request("SageMaker.CreateTrainingJob");
  sign_as(request, "{}", "sagemaker", clock_.now() - std::chrono::minutes(20));
  const Answer answer = send(std::move(request), "{}");
  EXPECT_EQ(error_of(answer), "InvalidSignatureException");
  EXPECT_THAT(answer.json()["message"].get<std::string>(), HasSubstr("Signature expired"));
}

TEST_F(ApiFaceTest, RefusesAKeyThatItDoesNotKnow) {
  http::Request request = json_request("SageMaker.CreateTrainingJob");
  http::sign(request, sha256_hex("{}"), {.access_key_id = "AKIDUNKNOWN", .secret_access_key = "s"},
             {.region = "us-east-1", .service = "sagemaker"}, clock_.now());
  EXPECT_EQ(error_of(send(std::move(request), "{}")), "UnrecognizedClientException");
}

TEST_F(ApiFaceTest, RefusesASignatureForAnotherService) {
  const Answer answer = send_signed(json_request("SageMaker.CreateTrainingJob"), "{}", "s3");
  EXPECT_EQ(error_of(answer), "InvalidSignatureException");
  EXPECT_THAT(answer.json()["message"].get<std::string>(), HasSubstr("'sagemaker'"));
}

TEST_F(ApiFaceTest, CallsMalformedJsonASerializationError) {
  for (const char* body : {"{", "[]", "nonsense", "{\"a\":1}x"}) {
    const Answer answer =
        send_signed(json_request("SageMaker.CreateTrainingJob"), body, "sagemaker");
    EXPECT_EQ(answer.response.status, 400) << body;
    EXPECT_EQ(error_of(answer), "SerializationException") << body;
  }
  EXPECT_THAT(control_.asked, IsEmpty());
}

TEST_F(ApiFaceTest, SurvivesABodyThatIsNestedTooDeeply) {
  const std::string body = "{\"a\":" + std::string(200'000, '[');
  EXPECT_EQ(error_of(send_signed(json_request("SageMaker.AddTags"), body, "sagemaker")),
            "SerializationException");
}

TEST_F(ApiFaceTest, RefusesABodyOverTenMebibytes) {
  const std::string body(kMaxApiBody + 1, ' ');
  const Answer answer = send_signed(json_request("SageMaker.AddTags"), body, "sagemaker");
  EXPECT_EQ(answer.response.status, 413);
}

TEST_F(ApiFaceTest, ReadsNoLongBodyOfWhomItDoesNotKnow) {
  const std::string body(100'000, ' ');
  http::Request unknown = json_request("SageMaker.AddTags");
  http::sign(unknown, sha256_hex(body), {.access_key_id = "AKIDUNKNOWN", .secret_access_key = "s"},
             {.region = "us-east-1", .service = "sagemaker"}, clock_.now());
  const Answer refused = send(std::move(unknown), body);
  EXPECT_EQ(error_of(refused), "UnrecognizedClientException");
  EXPECT_EQ(refused.most_read, 0U);
  const Answer missing = send(json_request("SageMaker.AddTags"), body);
  EXPECT_EQ(error_of(missing), "MissingAuthenticationTokenException");
  EXPECT_EQ(missing.most_read, 0U);
  const Answer too_long =
      send(json_request("SageMaker.AddTags"), std::string(kMaxApiBody + 1, ' '));
  EXPECT_EQ(too_long.response.status, 413);
}

TEST_F(ApiFaceTest, WaitsAMinuteForTheBodyOfWhomItMayKnow) {
  const std::string body = "{" + std::string(100'000, ' ') + "}";
  const Answer answer = send_signed(json_request("SageMaker.AddTags"), body, "sagemaker");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.body_time, kMostBodyTime);
}

TEST_F(ApiFaceTest, CallsABrokenChunkedBodyASerializationError) {
  http::Request request = json_request("SageMaker.AddTags");
  sign_as(request, "{}", "sagemaker", clock_.now());
  const auto answer = std::make_shared<Answer>();
  const Route route = classify(request);
  face_.handle(std::make_unique<FakeExchange>(std::move(request), "{}", answer,
                                              Error{Code::kCorrupt, "chunked body: bad chunk"}),
               route);
  EXPECT_EQ(answer->response.status, 400);
  EXPECT_EQ(error_of(*answer), "SerializationException");
}

TEST_F(ApiFaceTest, DoesNotKnowTheTargetOfAServiceThatItLacks) {
  const Answer answer = send_signed(json_request("DynamoDB_20120810.ListTables"), "{}", "dynamodb");
  EXPECT_EQ(error_of(answer), "UnknownOperationException");
  EXPECT_THAT(control_.asked, IsEmpty());
}

TEST_F(ApiFaceTest, AnswersMetricsInTheVersionOfJsonThatWasAsked) {
  control_.answer = nlohmann::json{{"Metrics", nlohmann::json::array()}};
  http::Request request = json_request("GraniteServiceVersion20100801.ListMetrics");
  request.headers.set("Content-Type", "application/x-amz-json-1.0");
  const Answer answer = send_signed(std::move(request), "{}", "monitoring");
  EXPECT_EQ(answer.header("Content-Type"), "application/x-amz-json-1.0");
  EXPECT_THAT(control_.asked, ElementsAre("cloudwatch.ListMetrics"));
}

TEST_F(ApiFaceTest, AnswersMetricsInXmlToClientsThatAskByForm) {
  control_.answer = nlohmann::json{{"Metrics", {{{"MetricName", "loss"}}}}};
  const Answer answer =
      send_signed(form_request(), "Action=ListMetrics&Version=2010-08-01", "monitoring");
  EXPECT_THAT(answer.response.body,
              HasSubstr("<Metrics><member><MetricName>loss</MetricName></member></Metrics>"));
  EXPECT_THAT(control_.asked, ElementsAre("cloudwatch.ListMetrics"));
}

TEST_F(ApiFaceTest, AnswersGetCallerIdentityInXml) {
  control_.answer = nlohmann::json{{"Account", "123456789012"}, {"Arn", "a"}, {"UserId", "u"}};
  const Answer answer =
      send_signed(form_request(), "Action=GetCallerIdentity&Version=2011-06-15", "sts");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "text/xml");
  EXPECT_THAT(answer.response.body, HasSubstr("<Account>123456789012</Account>"));
  EXPECT_THAT(control_.asked, ElementsAre("sts.GetCallerIdentity"));
}

TEST_F(ApiFaceTest, GivesControlTheFormOfAQueryAsJson) {
  control_.answer = nlohmann::json{{"IsTruncated", false}};
  const Answer answer =
      send_signed(form_request(),
                  "Action=SimulatePrincipalPolicy&Version=2010-05-08&PolicySourceArn=arn%3Ax&"
                  "ActionNames.member.1=s3%3APutObject",
                  "iam");
  EXPECT_THAT(control_.asked, ElementsAre("iam.SimulatePrincipalPolicy"));
  EXPECT_EQ(control_.last_input["ActionNames"][0], "s3:PutObject");
  EXPECT_THAT(answer.response.body, HasSubstr("<IsTruncated>false</IsTruncated>"));
}

TEST_F(ApiFaceTest, DeniesWhatItDoesNotServeOfIamInXml) {
  const Answer answer =
      send_signed(form_request(), "Action=CreateRole&Version=2010-05-08&RoleName=Demo", "iam");
  EXPECT_EQ(answer.response.status, 403);
  EXPECT_EQ(answer.header("Content-Type"), "text/xml");
  EXPECT_THAT(answer.response.body, HasSubstr("<Code>AccessDenied</Code>"));
  EXPECT_THAT(answer.response.body,
              HasSubstr("user/admin is not authorized to perform: "
                        "iam:CreateRole because Trainyard does not serve it"));
  EXPECT_THAT(control_.asked, IsEmpty());
}

TEST_F(ApiFaceTest, NamesTheServiceThatItDoesNotHave) {
  const std::string form = "Action=ListStacks&Version=2010-05-15";
  EXPECT_THAT(send_signed(form_request(), form, "cloudformation").response.body,
              HasSubstr("cloudformation:ListStacks"));
  EXPECT_THAT(send_signed(form_request(), form, "ec2").response.body,
              HasSubstr("<Errors><Error><Code>UnauthorizedOperation</Code>"));
  EXPECT_THAT(
      send_signed(json_request("AmazonEC2ContainerRegistry_V20150921.DescribeImages"), "{}", "ecr")
          .json()["message"]
          .get<std::string>(),
      HasSubstr("ecr:DescribeImages is not served by Trainyard"));
}

TEST_F(ApiFaceTest, DeniesServicesWithPathsInJson) {
  const Answer answer = send_signed(request_of("GET", "/2015-03-31/functions/"), "", "lambda");
  EXPECT_EQ(answer.response.status, 403);
  EXPECT_EQ(error_of(answer), "AccessDeniedException");
  EXPECT_EQ(answer.header("x-amzn-ErrorType"), "AccessDeniedException");
  EXPECT_THAT(answer.json()["message"].get<std::string>(),
              HasSubstr("it is not served by Trainyard"));
}

TEST_F(ApiFaceTest, RefusesAnUnsignedQueryRequestInXml) {
  const Answer answer = send(form_request(), "Action=GetCallerIdentity&Version=2011-06-15");
  EXPECT_EQ(answer.response.status, 403);
  EXPECT_THAT(answer.response.body, HasSubstr("MissingAuthenticationToken"));
}

TEST_F(ApiFaceTest, ServesJobsOnlyTheirIdentity) {
  http::Request create = json_request("SageMaker.CreateTrainingJob");
  create.listener = kGatewayTag;
  const Answer denied = send_signed(std::move(create), "{}", "sagemaker");
  EXPECT_EQ(error_of(denied), "AccessDeniedException");
  http::Request identity = form_request();
  identity.listener = kGatewayTag;
  control_.answer = nlohmann::json{{"Account", "123456789012"}};
  EXPECT_EQ(send_signed(std::move(identity), "Action=GetCallerIdentity&Version=2011-06-15", "sts")
                .response.status,
            200);
}

}  // namespace
}  // namespace trainyard::server
