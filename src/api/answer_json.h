// SPDX-License-Identifier: Apache-2.0
// The JSON text of an operation's answer. JSON has no number that is not finite. By the protocol it
// is one of the strings of floats.h, which the SDKs of other languages turn into a number; botocore
// hands it on as the string that it is, and makes numbers of JavaScript's words NaN, Infinity and
// -Infinity alone. So each gets the form that its client reads as a number.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace trainyard::api {

enum class NonFinite {
  kStrings,
  kWords,  // no JSON in the strict sense: for Python's parser only
};

// By the User-Agent. The AWS command line prints what it gets as JSON, for any parser.
NonFinite non_finite_for(std::string_view user_agent);

// Only where the model has a floating-point number: text that a user has written stays text.
std::string write_answer(std::string_view service, std::string_view operation,
                         const nlohmann::json& answer, NonFinite form);

}  // namespace trainyard::api
