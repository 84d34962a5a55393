// SPDX-License-Identifier: Apache-2.0
// What somebody who signs says of the signature, and the refusals that all forms of it share: in
// headers, in a query, in an HTML form. Nothing here computes a signature.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "http/sigv4.h"

namespace trainyard::http {

struct Claim {
  std::string access_key_id;
  std::string scope_date;
  SigningScope scope = {};
  std::vector<std::string> signed_headers = {};
  std::string signature;
  std::string token = {};
  std::string payload_hash = {};
  std::string time_text;  // "20261129T201205Z"
  WallTime time = {};
  std::optional<std::chrono::seconds> valid_for = {};  // presigned only
};

using Checked = std::optional<AuthError>;  // empty: good

AuthError malformed(std::string message);
AuthError unknown_key(std::string_view service);
AuthError mismatch(std::string_view service);

// "<key id>/<date>/<region>/<service>/aws4_request". A key id may not hold a slash.
Checked read_credential(std::string_view text, Claim& claim);

// After the signature: only the holder of the secret learns anything about the token.
Checked check_token(const Claim& claim, const KnownKey& key, WallTime now);

}  // namespace trainyard::http
