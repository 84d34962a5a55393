// SPDX-License-Identifier: Apache-2.0
#include "api/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::api {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json simulate(const std::string& form) {
  return read_query("iam", "SimulatePrincipalPolicy", form);
}

TEST(ReadQuery, MakesListsOfNumberedMembers) {
  EXPECT_EQ(simulate("Action=SimulatePrincipalPolicy&Version=2010-05-08&"
                     "PolicySourceArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fa+b&"
                     "ActionNames.member.2=s3%3APutObject&ActionNames.member.1=s3%3AGetObject&"
                     "MaxItems=7"),
            (json{{"PolicySourceArn", "arn:aws:iam::123456789012:role/a b"},
                  {"ActionNames", {"s3:GetObject", "s3:PutObject"}},
                  {"MaxItems", 7}}));
}

TEST(ReadQuery, MakesStructuresInLists) {
  EXPECT_EQ(simulate("ContextEntries.member.1.ContextKeyName=aws:x&"
                     "ContextEntries.member.1.ContextKeyValues.member.1=a"),
            (json{{"ContextEntries",
                   {{{"ContextKeyName", "aws:x"}, {"ContextKeyValues", json::array({"a"})}}}}}));
}

TEST(ReadQuery, LeavesWhatDoesNotParseToTheValidator) {
  EXPECT_EQ(simulate("MaxItems=many")["MaxItems"], "many");
  EXPECT_EQ(simulate("ActionNames=")["ActionNames"], json::array());
}

TEST(ReadQuery, SurvivesHostileForms) {
  std::string deep = "ActionNames";
  for (int i = 0; i < 50'000; ++i) {
    deep += ".member.1";
  }
  EXPECT_EQ(simulate(deep + "=x")["ActionNames"], json::array({nullptr}));
  EXPECT_EQ(simulate("&&==&%zz=%zz&ActionNames.member.0=x&.=y"),
            json({{"ActionNames", json::array()}}));
  EXPECT_EQ(read_query("sts", "GetCallerIdentity", "a=b"), json::object());
  EXPECT_EQ(read_query("ec2", "RunInstances", "a=b"), json::object());
}

TEST(ReadQuery, GivesTextWhateverBytesAFormEscapes) {
  EXPECT_EQ(simulate("PolicySourceArn=a%FFb&ActionNames.member.1=\xc0x&CallerArn=%E6%97%A5"),
            (json{{"PolicySourceArn", "a\uFFFDb"},
                  {"ActionNames", json::array({"\uFFFDx"})},
                  {"CallerArn", "\u65e5"}}));
}

TEST(FormValue, FindsOneNameAlone) {
  EXPECT_EQ(form_value("Actions=x&Action=Get%20Role", "Action"), "Get Role");
  EXPECT_EQ(form_value("Actions=x", "Action"), "");
}

TEST(QueryResult, HasTheFormOfSts) {
  EXPECT_EQ(
      query_result_xml("sts", "GetCallerIdentity",
                       {{"Account", "123456789012"}, {"Arn", "arn:aws:iam::1:user/a&b"}}, "id-2"),
      "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<GetCallerIdentityResult><Account>123456789012</Account>"
      "<Arn>arn:aws:iam::1:user/a&amp;b</Arn></GetCallerIdentityResult>"
      "<ResponseMetadata><RequestId>id-2</RequestId></ResponseMetadata>"
      "</GetCallerIdentityResponse>");
}

TEST(QueryResult, WritesListsNumbersAndTimes) {
  const json role = {{"RoleName", "r"}, {"CreateDate", 0}, {"MaxSessionDuration", 3600}};
  const std::string xml = query_result_xml("iam", "GetRole", {{"Role", role}}, "id");
  EXPECT_THAT(xml, HasSubstr("xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\""));
  EXPECT_THAT(xml, HasSubstr("<Role><RoleName>r</RoleName>"
                             "<CreateDate>1970-01-01T00:00:00.000Z</CreateDate>"
                             "<MaxSessionDuration>3600</MaxSessionDuration></Role>"));
  const json simulated = {{"EvaluationResults", {{{"EvalActionName", "s3:PutObject"}}}},
                          {"IsTruncated", false}};
  EXPECT_THAT(query_result_xml("iam", "SimulatePrincipalPolicy", simulated, "id"),
              HasSubstr("<EvaluationResults><member><EvalActionName>s3:PutObject</EvalActionName>"
                        "</member></EvaluationResults><IsTruncated>false</IsTruncated>"));
}

TEST(QueryError, CarriesAnyText) {
  const WireError error{.code = "ValidationError", .message = "a \"b\" <c> & \xff\n\u65e5"};
  const std::string xml = query_error_xml(error, "iam", "id-1");
  EXPECT_THAT(xml, HasSubstr("<Type>Sender</Type><Code>ValidationError</Code>"));
  EXPECT_THAT(xml, HasSubstr("&lt;c&gt; &amp; \uFFFD\n\u65e5"));
  EXPECT_THAT(xml, HasSubstr("<RequestId>id-1</RequestId></ErrorResponse>"));
}

TEST(QueryError, HasAFormOfItsOwnForEc2) {
  const WireError error = query_denied("ec2", "DescribeVpcs", "arn:aws:iam::1:user/a");
  EXPECT_EQ(
      query_error_xml(error, "ec2", "id"),
      "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>User: "
      "arn:aws:iam::1:user/a is not authorized to perform: ec2:DescribeVpcs because "
      "Trainyard does not serve it</Message></Error></Errors><RequestID>id</RequestID></Response>");
}

TEST(QueryDenied, NamesTheServiceThatWasCalled) {
  const WireError error = query_denied("cloudformation", "ListStacks", "arn:x");
  EXPECT_EQ(error.code, "AccessDenied");
  EXPECT_EQ(error.http_status, 403);
  EXPECT_THAT(error.message, HasSubstr("cloudformation:ListStacks"));
}

}  // namespace
}  // namespace trainyard::api
