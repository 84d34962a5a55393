// SPDX-License-Identifier: Apache-2.0
// Which pages of other origins a browser may let talk to a bucket: the CORSConfiguration document
// as values, and what it says to one request. Pure. Source: the Fetch standard, section 3.2, and
// "Elements of a CORS configuration", Amazon S3 User Guide.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/message.h"

namespace trainyard::store {

struct CorsRule {
  std::string id = {};
  std::vector<std::string> origins = {};  // one "*" each, at most
  std::vector<std::string> methods = {};  // GET, PUT, POST, DELETE, HEAD
  std::vector<std::string> headers = {};  // one "*" each, at most
  std::vector<std::string> exposed = {};
  std::optional<std::int64_t> max_age = {};  // seconds
};

using CorsRules = std::vector<CorsRule>;

// kInvalidArgument, subject "xml" or "request", saying what S3 would not take: no rule or more than
// 100, a rule without origin or method, another method, two "*" in one pattern.
Result<CorsRules> parse_cors(const std::string& document);
std::string cors_document(const CorsRules& rules);

// The headers of an answer to a request of `origin`; empty when no rule allows it.
std::optional<http::Headers> allow_request(const CorsRules& rules, std::string_view origin,
                                           std::string_view method);

// The answer to the question before a request; `wanted` is Access-Control-Request-Headers.
std::optional<http::Headers> allow_preflight(const CorsRules& rules, std::string_view origin,
                                             std::string_view method, std::string_view wanted);

}  // namespace trainyard::store
