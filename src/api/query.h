// SPDX-License-Identifier: Apache-2.0
// The query protocol of STS and IAM: a form of dotted names in (ActionNames.member.1=s3:GetObject),
// XML out. The model says what is a list, a number or a time, so that an operation takes and gives
// the same JSON here as one of a JSON service. Errors have the form that the service's clients
// parse; none of them survives HTML or JSON in its place.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "api/errors.h"

namespace trainyard::api {

// The value of `name` in a form body or a query, decoded; empty when it is not there.
std::string form_value(std::string_view form, std::string_view name);

// The input of an operation as JSON. A scalar that does not parse stays text, for validate() to
// refuse by name; bytes that are not UTF-8 become U+FFFD. An operation that is not served gives an
// empty object.
nlohmann::json read_query(std::string_view service, std::string_view operation,
                          std::string_view form);

// Content-Type: text/xml, all three.
std::string query_result_xml(std::string_view service, std::string_view operation,
                             const nlohmann::json& result, std::string_view request_id);
std::string query_error_xml(const WireError& error, std::string_view service,
                            std::string_view request_id);

// For every operation that is not served: what an account without the right to call it would get.
// SDKs expect to meet that and go on.
WireError query_denied(std::string_view service, std::string_view operation,
                       std::string_view caller_arn);

}  // namespace trainyard::api
