// SPDX-License-Identifier: Apache-2.0
#include "api/arn.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::api {
namespace {

constexpr std::string_view kJob = "training-job/";
constexpr std::string_view kRole = "role/";

Error not_an_arn(std::string_view text, std::string_view what) {
  return {.code = Code::kInvalidArgument,
          .message = "'" + std::string(text.substr(0, 256)) + "' is not " + std::string(what)};
}

bool is_account(std::string_view text) {
  return text.size() == 12 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string to_string(const Arn& arn) {
  return "arn:" + arn.partition + ":" + arn.service + ":" + arn.region + ":" + arn.account + ":" +
         arn.resource;
}

Result<Arn> parse_arn(std::string_view text) {
  constexpr std::size_t kParts = 6;
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < kParts || parts[0] != "arn" || parts[1].empty() || parts[2].empty() ||
      (!parts[4].empty() && !is_account(parts[4]))) {
    return not_an_arn(text, "an ARN");
  }
  // The resource may hold colons itself.
  const auto offset = static_cast<std::size_t>(parts[5].data() - text.data());
  if (offset >= text.size()) {
    return not_an_arn(text, "an ARN");
  }
  return Arn{.partition = std::string(parts[1]),
             .service = std::string(parts[2]),
             .region = std::string(parts[3]),
             .account = std::string(parts[4]),
             .resource = std::string(text.substr(offset))};
}

std::string training_job_arn(std::string_view region, std::string_view account,
                             std::string_view job_name) {
  return to_string({.service = "sagemaker",
                    .region = std::string(region),
                    .account = std::string(account),
                    .resource = std::string(kJob) + std::string(job_name)});
}

Result<std::string> job_name_of(std::string_view training_job_arn) {
  YARD_TRY(const Arn arn, parse_arn(training_job_arn));
  if (arn.service != "sagemaker" || !arn.resource.starts_with(kJob) ||
      arn.resource.size() == kJob.size()) {
    return not_an_arn(training_job_arn, "the ARN of a training job");
  }
  return arn.resource.substr(kJob.size());
}

std::string role_arn(std::string_view account, std::string_view role_name) {
  return to_string({.service = "iam",
                    .region = "",
                    .account = std::string(account),
                    .resource = std::string(kRole) + std::string(role_name)});
}

Result<std::string> role_name_of(std::string_view role_arn) {
  YARD_TRY(const Arn arn, parse_arn(role_arn));
  const std::size_t slash = arn.resource.rfind('/');
  if (arn.service != "iam" || !arn.resource.starts_with(kRole) ||
      slash + 1 == arn.resource.size()) {
    return not_an_arn(role_arn, "the ARN of a role");
  }
  return arn.resource.substr(slash + 1);
}

std::string assumed_role_arn(std::string_view account, std::string_view role_name,
                             std::string_view session) {
  return to_string(
      {.service = "sts",
       .region = "",
       .account = std::string(account),
       .resource = "assumed-role/" + std::string(role_name) + "/" + std::string(session)});
}

}  // namespace trainyard::api
