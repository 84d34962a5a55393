// SPDX-License-Identifier: Apache-2.0
#include "http/internal/sigv4_claim.h"

#include "base/hash.h"
#include "base/text.h"
#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {

AuthError malformed(std::string message) {
  return {AuthFailure::kMalformed, std::move(message)};
}

AuthError unknown_key(std::string_view service) {
  return {AuthFailure::kUnknownKey,
          is_s3(service) ? "The AWS Access Key Id you provided does not exist in our records."
                         : "The security token included in the request is invalid."};
}

AuthError mismatch(std::string_view service) {
  return {AuthFailure::kMismatch,
          is_s3(service) ? "The request signature we calculated does not match the signature you "
                           "provided. Check your key and signing method."
                         : "The request signature we calculated does not match the signature you "
                           "provided. Check your AWS Secret Access Key and signing method. Consult "
                           "the service documentation for details."};
}

Checked read_credential(std::string_view text, Claim& claim) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() != 5 || parts[0].empty() || parts[4] != "aws4_request") {
    return malformed("Credential must be <access key id>/<date>/<region>/<service>/aws4_request.");
  }
  claim.access_key_id = parts[0];
  claim.scope_date = parts[1];
  claim.scope = {.region = std::string(parts[2]), .service = std::string(parts[3])};
  return {};
}

Checked check_token(const Claim& claim, const KnownKey& key, WallTime now) {
  const bool s3 = is_s3(claim.scope.service);
  if (!equal_in_constant_time(claim.token, key.session_token)) {
    return AuthError{AuthFailure::kBadToken,
                     s3 ? "The provided token is malformed or otherwise invalid."
                        : "The security token included in the request is invalid."};
  }
  if (key.expires && now >= *key.expires) {
    return AuthError{AuthFailure::kExpiredToken,
                     s3 ? "The provided token has expired."
                        : "The security token included in the request is expired"};
  }
  return {};
}

}  // namespace trainyard::http
