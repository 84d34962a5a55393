// SPDX-License-Identifier: Apache-2.0
// Signature Version 2 as a query string, for S3 only: what aws CLI v1 makes when it presigns in
// us-east-1. Source: "Signing and authenticating REST requests", S3 API reference (2006-03-01). Its
// header form is not served.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"

namespace trainyard::http {

using QueryPairs = std::vector<std::pair<std::string, std::string>>;

// The base64 HMAC-SHA1 that the request ought to carry for `path`. `pairs` is its decoded query.
std::string sigv2_signature(const Request& request, const std::string& path,
                            const QueryPairs& pairs, std::string_view expires,
                            std::string_view secret);

}  // namespace trainyard::http
