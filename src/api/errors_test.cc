// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::api {
namespace {

struct Case {
  Code code;
  const char* subject;
  const char* service;
  const char* operation;
  const char* wire_code;
  int status;
};

class ToWire : public ::testing::TestWithParam<Case> {};

TEST_P(ToWire, GivesTheNameAndStatusOfTheService) {
  const Case& c = GetParam();
  const WireError wire = to_wire({c.code, "why", c.subject}, c.service, c.operation);
  EXPECT_EQ(wire.code, c.wire_code);
  EXPECT_EQ(wire.http_status, c.status);
  EXPECT_NE(wire.message, "");
}

INSTANTIATE_TEST_SUITE_P(
    Table, ToWire,
    ::testing::Values(
        Case{Code::kNotFound, "", "sagemaker", "DescribeTrainingJob", "ValidationException", 400},
        Case{Code::kNotFound, "", "sagemaker", "StopTrainingJob", "ValidationException", 400},
        Case{Code::kNotFound, "", "sagemaker", "DeleteTrainingJob", "ValidationException", 400},
        Case{Code::kNotFound, "", "sagemaker", "CreateTrainingJob", "ResourceNotFound", 400},
        Case{Code::kAlreadyExists, "", "sagemaker", "CreateTrainingJob", "ResourceInUse", 400},
        Case{Code::kConflict, "", "sagemaker", "StopTrainingJob", "ValidationException", 400},
        Case{Code::kConflict, "", "sagemaker", "DeleteTrainingJob", "ResourceInUse", 400},
        Case{Code::kExhausted, "", "sagemaker", "CreateTrainingJob", "ResourceLimitExceeded", 400},
        Case{Code::kExhausted, "body", "sagemaker", "", "RequestEntityTooLargeException", 413},
        Case{Code::kDenied, "", "sagemaker", "CreateTrainingJob", "AccessDeniedException", 400},
        Case{Code::kInvalidArgument, "", "sagemaker", "AddTags", "ValidationException", 400},
        Case{Code::kInvalidArgument, "serialization", "logs", "", "SerializationException", 400},
        Case{Code::kUnimplemented, "operation", "sagemaker", "X", "UnknownOperationException", 400},
        Case{Code::kUnavailable, "", "sagemaker", "ListTrainingJobs", "ServiceUnavailable", 503},
        Case{Code::kInternal, "", "sagemaker", "ListTrainingJobs", "InternalFailure", 500},
        Case{Code::kCorrupt, "", "logs", "GetLogEvents", "InternalFailure", 500},
        Case{Code::kInvalidArgument, "", "logs", "GetLogEvents", "InvalidParameterException", 400},
        Case{Code::kNotFound, "", "logs", "GetLogEvents", "ResourceNotFoundException", 400},
        Case{Code::kConflict, "", "sagemaker", "UpdateTrainingJob", "ValidationException", 400},
        Case{Code::kNotFound, "", "sagemaker", "UpdateTrainingJob", "ResourceNotFound", 400},
        Case{Code::kInvalidArgument, "", "cloudwatch", "ListMetrics", "InvalidParameterValue", 400},
        Case{Code::kInvalidArgument, "missing", "cloudwatch", "", "MissingParameter", 400},
        Case{Code::kInvalidArgument, "combination", "cloudwatch", "", "InvalidParameterCombination",
             400},
        Case{Code::kInvalidArgument, "token", "cloudwatch", "", "InvalidNextToken", 400},
        Case{Code::kDenied, "", "sts", "GetCallerIdentity", "AccessDenied", 403},
        Case{Code::kNotFound, "", "iam", "GetRole", "NoSuchEntity", 404},
        Case{Code::kInvalidArgument, "", "iam", "GetRole", "ValidationError", 400},
        Case{Code::kInvalidArgument, "principal", "iam", "SimulatePrincipalPolicy", "InvalidInput",
             400}));

TEST(ToWire, SaysWhatClientsExpectOfUnknownThings) {
  EXPECT_EQ(to_wire({Code::kNotFound, "x"}, "sagemaker", "DescribeTrainingJob").message,
            "Requested resource not found.");
  EXPECT_EQ(to_wire({Code::kNotFound, "x"}, "logs", "DescribeLogStreams").message,
            "The specified log group does not exist.");
  EXPECT_EQ(to_wire({Code::kNotFound, "x", "log_stream"}, "logs", "GetLogEvents").message,
            "The specified log stream does not exist.");
}

struct AuthCase {
  const char* failure;
  const char* json;
  const char* query;
};
class ToWireAuth : public ::testing::TestWithParam<AuthCase> {};

TEST_P(ToWireAuth, UsesTheNamesOfTheProtocol) {
  const WireError json = to_wire_auth(GetParam().failure, "", Protocol::kJson);
  EXPECT_EQ(json.code, GetParam().json);
  EXPECT_EQ(json.http_status, 400);
  EXPECT_NE(json.message, "");
  EXPECT_EQ(to_wire_auth(GetParam().failure, "", Protocol::kQuery).code, GetParam().query);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ToWireAuth,
    ::testing::Values(
        AuthCase{"missing", "MissingAuthenticationTokenException", "MissingAuthenticationToken"},
        AuthCase{"malformed", "IncompleteSignatureException", "IncompleteSignature"},
        AuthCase{"unknown-key", "UnrecognizedClientException", "InvalidClientTokenId"},
        AuthCase{"bad-token", "UnrecognizedClientException", "InvalidClientTokenId"},
        AuthCase{"expired-token", "ExpiredTokenException", "ExpiredToken"},
        AuthCase{"skewed", "InvalidSignatureException", "SignatureDoesNotMatch"},
        AuthCase{"mismatch", "InvalidSignatureException", "SignatureDoesNotMatch"}));

TEST(ToWireAuth, BeginsSkewMessagesAsClientsExpect) {
  EXPECT_EQ(to_wire_auth("skewed", "20261129T195205Z is now earlier than 20261129T200000Z",
                         Protocol::kJson)
                .message,
            "Signature expired: 20261129T195205Z is now earlier than 20261129T200000Z");
  EXPECT_EQ(to_wire_auth("mismatch", "", Protocol::kQuery).http_status, 403);
}

TEST(ErrorBodies, CarryAnyText) {
  const WireError error{.code = "ValidationException", .message = "a \"b\" <c> & \xff\n\u65e5"};
  const auto body = nlohmann::json::parse(json_error_body(error));
  EXPECT_EQ(body["__type"], "ValidationException");
  EXPECT_EQ(body["message"], "a \"b\" <c> & \uFFFD\n\u65e5");
}

}  // namespace
}  // namespace trainyard::api
