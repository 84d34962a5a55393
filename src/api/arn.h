// SPDX-License-Identifier: Apache-2.0
// Amazon resource names as values: arn:<partition>:<service>:<region>:<account>:<resource>.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::api {

struct Arn {
  std::string partition = "aws";
  std::string service;
  std::string region;    // empty for iam and s3
  std::string account;   // 12 digits; empty for s3
  std::string resource;  // "training-job/demo", "role/path/Name"

  bool operator==(const Arn&) const = default;
};

std::string to_string(const Arn& arn);
Result<Arn> parse_arn(std::string_view text);

// Job ARNs keep the case of the name.
std::string training_job_arn(std::string_view region, std::string_view account,
                             std::string_view job_name);
// kInvalidArgument for anything but a training job's ARN.
Result<std::string> job_name_of(std::string_view training_job_arn);

std::string role_arn(std::string_view account, std::string_view role_name);
// The last part of the role's path: "arn:aws:iam::1:role/team/Name" -> "Name".
Result<std::string> role_name_of(std::string_view role_arn);
// "arn:aws:sts::<account>:assumed-role/<role>/<session>": who signs with a role's temporary keys.
std::string assumed_role_arn(std::string_view account, std::string_view role_name,
                             std::string_view session);

}  // namespace trainyard::api
