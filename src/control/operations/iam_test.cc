// SPDX-License-Identifier: Apache-2.0
#include "control/operations/iam.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/validate.h"
#include "base/encoding.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr const char* kAccount = "123456789012";
constexpr const char* kRole = "arn:aws:iam::123456789012:role/service-role/Team";

json answer_to(std::string_view operation, const json& input) {
  const auto answer = call_iam(operation, input, kAccount);
  EXPECT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_TRUE(api::check_output("iam", operation, *answer));
  return *answer;
}

TEST(GetRole, GivesTheArnOfANameAndALastingId) {
  const json role = answer_to("GetRole", {{"RoleName", "Team"}})["Role"];
  EXPECT_EQ(role["Arn"], "arn:aws:iam::123456789012:role/Team");
  EXPECT_EQ(role["RoleName"], "Team");
  EXPECT_EQ(role["RoleId"].get<std::string>().size(), 21u);
  EXPECT_EQ(role["RoleId"], answer_to("GetRole", {{"RoleName", "Team"}})["Role"]["RoleId"]);
  EXPECT_NE(role["RoleId"], answer_to("GetRole", {{"RoleName", "Other"}})["Role"]["RoleId"]);
}

TEST(GetRole, SaysThatSageMakerMayAssumeIt) {
  const json role = answer_to("GetRole", {{"RoleName", "Team"}})["Role"];
  const json policy = json::parse(*uri_decode(role["AssumeRolePolicyDocument"].get<std::string>()));
  const json& statement = policy["Statement"][0];
  EXPECT_EQ(statement["Effect"], "Allow");
  EXPECT_EQ(statement["Action"], "sts:AssumeRole");
  EXPECT_EQ(statement["Principal"]["Service"], "sagemaker.amazonaws.com");
}

TEST(SimulatePrincipalPolicy, AllowsEachActionOnEachResource) {
  const json answer = answer_to("SimulatePrincipalPolicy",
                                {{"PolicySourceArn", kRole},
                                 {"ActionNames", {"s3:GetObject", "s3:PutObject"}},
                                 {"ResourceArns", {"arn:aws:s3:::a/*", "arn:aws:s3:::b/*"}}});
  const json& results = answer["EvaluationResults"];
  ASSERT_EQ(results.size(), 4u);
  for (const json& result : results) {
    EXPECT_EQ(result["EvalDecision"], "allowed");
  }
  EXPECT_EQ(results[1]["EvalActionName"], "s3:GetObject");
  EXPECT_EQ(results[1]["EvalResourceName"], "arn:aws:s3:::b/*");
  EXPECT_EQ(answer["IsTruncated"], false);
}

TEST(SimulatePrincipalPolicy, GivesManyResultsInPages) {
  json input = {{"PolicySourceArn", kRole}, {"ActionNames", json::array()}, {"MaxItems", 40}};
  for (int i = 0; i < 100; ++i) {
    input["ActionNames"].push_back("s3:Action" + std::to_string(i));
  }
  std::vector<std::string> seen;
  for (int page = 0; page < 3; ++page) {
    const json answer = answer_to("SimulatePrincipalPolicy", input);
    EXPECT_EQ(answer["IsTruncated"], page < 2);
    for (const json& result : answer["EvaluationResults"]) {
      seen.push_back(result["EvalActionName"].get<std::string>());
    }
    input["Marker"] = answer.value("Marker", json());
  }
  EXPECT_EQ(json(seen), input["ActionNames"]);
}

TEST(SimulatePrincipalPolicy, TakesUsersAndRolesOfAnyAccount) {
  for (const char* source :
       {"arn:aws:iam::999999999999:role/Other", "arn:aws:iam::123456789012:user/admin"}) {
    const json input = {{"PolicySourceArn", source}, {"ActionNames", {"s3:GetObject"}}};
    EXPECT_TRUE(call_iam("SimulatePrincipalPolicy", input, kAccount)) << source;
  }
}

TEST(SimulatePrincipalPolicy, RefusesWhatIsNoPrincipal) {
  for (const char* source : {"Team", "arn:aws:s3:::bucket/role/x", "arn:aws:iam:::role/Team",
                             "arn:aws:iam::123456789012:policy/x"}) {
    const json input = {{"PolicySourceArn", source}, {"ActionNames", {"s3:GetObject"}}};
    const auto answer = call_iam("SimulatePrincipalPolicy", input, kAccount);
    ASSERT_FALSE(answer.has_value()) << source;
    EXPECT_EQ(answer.error().subject, "principal");
  }
}

TEST(SimulatePrincipalPolicy, RefusesAMarkerThatItDidNotMake) {
  const json input = {{"PolicySourceArn", kRole}, {"ActionNames", {"a:b"}}, {"Marker", "x"}};
  EXPECT_FALSE(call_iam("SimulatePrincipalPolicy", input, kAccount));
}

TEST(CallIam, DoesNotServeTheRest) {
  EXPECT_EQ(call_iam("CreateRole", json::object(), kAccount).error().code, Code::kUnimplemented);
}

}  // namespace
}  // namespace trainyard::control
