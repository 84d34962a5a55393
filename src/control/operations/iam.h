// SPDX-License-Identifier: Apache-2.0
// What SDKs ask IAM before they start a job: is there such a role, does it trust SageMaker, may it
// do its work. There are no policies yet, so every role of a legal name exists, trusts SageMaker
// and is allowed everything; a role's ARN and its name stand for each other. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard::control {

// After validation. kInvalidArgument, subject "principal", for a PolicySourceArn that is none of
// IAM's. kUnimplemented, subject "operation", for a name that is not served.
Result<nlohmann::json> call_iam(std::string_view operation, const nlohmann::json& input,
                                const std::string& account);

}  // namespace trainyard::control
