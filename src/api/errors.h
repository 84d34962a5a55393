// SPDX-License-Identifier: Apache-2.0
// The one place that knows AWS's error names: our Error codes in, what a client of a given service
// expects out, and the JSON body that carries it (query.h has the XML). S3 is not here: its errors
// belong to the store. An Error's message becomes the client's message, so
// it must not hold a secret.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard::api {

enum class Protocol { kJson, kQuery };

struct WireError {
  std::string code;  // "ValidationException"
  int http_status = 400;
  std::string message;
};

// Subjects that change the answer: "operation" (not served), "serialization" (a body or member of
// the wrong type), "body" (too long), "log_stream" (the group exists, the stream does not).
WireError to_wire(const Error& error, std::string_view service, std::string_view operation);

// For a request whose signature does not hold. `failure` is one of "missing", "malformed",
// "unknown-key", "bad-token", "expired-token", "skewed", "expired", "mismatch". JSON services
// answer 400, query services 403 and other names.
WireError to_wire_auth(std::string_view failure, std::string message, Protocol protocol);

// Content-Type: application/x-amz-json-1.1.
std::string json_error_body(const WireError& error);

}  // namespace trainyard::api
