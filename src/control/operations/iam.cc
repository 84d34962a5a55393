// SPDX-License-Identifier: Apache-2.0
#include "control/operations/iam.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/arn.h"
#include "api/paging.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::string_view kSimulate = "SimulatePrincipalPolicy";
constexpr std::size_t kPage = 100;  // AWS's, when no MaxItems is given
constexpr std::size_t kRoleIdLength = 17;
constexpr std::string_view kTrust =
    R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow",)"
    R"("Principal":{"Service":"sagemaker.amazonaws.com"},"Action":"sts:AssumeRole"}]})";

// IAM hands out policies percent-encoded; clients decode them.
json get_role(const std::string& name, const std::string& account) {
  const std::string id = upper(sha256_hex(name).substr(0, kRoleIdLength));
  return {{"Role",
           {{"Path", "/"},
            {"RoleName", name},
            {"RoleId", "AROA" + id},
            {"Arn", api::role_arn(account, name)},
            {"CreateDate", 0},  // nobody made it: it has always been there
            {"AssumeRolePolicyDocument", uri_encode(kTrust)},
            {"MaxSessionDuration", 3600}}}};
}

Result<void> is_principal(const std::string& text) {
  const Result<api::Arn> arn = api::parse_arn(text);
  const bool known = arn && arn->service == "iam" && !arn->account.empty() &&
                     (arn->resource.starts_with("role/") || arn->resource.starts_with("user/") ||
                      arn->resource.starts_with("group/"));
  if (!known) {
    return Error{.code = Code::kInvalidArgument,
                 .message = fmt::format("Invalid Entity Arn: {}", text.substr(0, 256)),
                 .subject = "principal"};
  }
  return {};
}

json allowed(const json& action, const json& resource) {
  return {{"EvalActionName", action},
          {"EvalResourceName", resource},
          {"EvalDecision", "allowed"},
          {"MatchedStatements", json::array()},
          {"MissingContextValues", json::array()}};
}

// One result for each action on each resource, a page at a time.
Result<json> simulate(const json& input) {
  YARD_TRY(is_principal(input.at("PolicySourceArn").get<std::string>()));
  const json& actions = input.at("ActionNames");
  const json named = input.value("ResourceArns", json::array());
  const json resources = named.empty() ? json::array({"*"}) : named;
  const std::size_t total = actions.size() * resources.size();
  std::size_t at = 0;
  if (input.contains("Marker")) {
    YARD_TRY(const json state, api::decode_token(kSimulate, input.at("Marker").get<std::string>()));
    at = state.is_number_unsigned() ? std::min(total, state.get<std::size_t>()) : total;
  }
  const std::size_t end = std::min(total, at + input.value("MaxItems", kPage));
  json results = json::array();
  for (; at < end; ++at) {
    results.push_back(allowed(actions[at / resources.size()], resources[at % resources.size()]));
  }
  json answer = {{"EvaluationResults", std::move(results)}, {"IsTruncated", end < total}};
  if (end < total) {
    answer["Marker"] = api::encode_token(kSimulate, end);
  }
  return answer;
}

}  // namespace

Result<json> call_iam(std::string_view operation, const json& input, const std::string& account) {
  if (operation == "GetRole") {
    return get_role(input.at("RoleName").get<std::string>(), account);
  }
  if (operation == kSimulate) {
    return simulate(input);
  }
  return Error{.code = Code::kUnimplemented,
               .message = fmt::format("The operation {} is not served by Trainyard.", operation),
               .subject = "operation"};
}

}  // namespace trainyard::control
