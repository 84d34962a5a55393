// SPDX-License-Identifier: Apache-2.0
// Checks the input of an AWS operation against AWS's own model and the rules beside it. One error
// lists every violation, in the service's words:
//   2 validation errors detected: Value 'a_b' at 'trainingJobName' failed to satisfy constraint:
//   Member must satisfy regular expression pattern: ...; Value null at 'roleArn' failed ...
// It changes nothing, and it asks nobody: whether a job or an object exists is control's question.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard::api {

// kInvalidArgument. Its subject is "serialization" when a JSON type is wrong (a number where a
// string belongs), which AWS reports under another name; the message lists the other violations
// too. An operation that is not served is kUnimplemented with subject "operation".
// null counts as absent. Unknown members are ignored.
Result<void> validate(std::string_view service, std::string_view operation,
                      const nlohmann::json& input);

// Members that the model does not know, as paths ("resourceConfig.nodeKind"), at most 20: the
// server logs one warning that names them.
std::vector<std::string> unknown_members(std::string_view service, std::string_view operation,
                                         const nlohmann::json& input);

// The same walk over an answer of ours: kInternal lists what a typed client would trip over. For
// tests; the server does not spend time on it.
Result<void> check_output(std::string_view service, std::string_view operation,
                          const nlohmann::json& output);

}  // namespace trainyard::api
