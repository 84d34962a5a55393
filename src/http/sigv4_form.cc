// SPDX-License-Identifier: Apache-2.0
#include "http/sigv4_form.h"

#include "base/hash.h"
#include "http/internal/sigv4_canonical.h"
#include "http/internal/sigv4_claim.h"

namespace trainyard::http {
namespace {

constexpr std::chrono::minutes kMaxSkew{15};

Checked read_claim(const SignedForm& form, Claim& claim) {
  if (form.algorithm != kAlgorithm) {
    return malformed("x-amz-algorithm only supports \"AWS4-HMAC-SHA256\"");
  }
  if (auto error = read_credential(form.credential, claim)) {
    return error;
  }
  if (claim.scope.service != "s3") {
    return malformed("The x-amz-credential of a form belongs to \"s3\".");
  }
  const auto time = parse_basic_iso8601(form.date);
  if (!time || claim.scope_date != form.date.substr(0, 8)) {
    return malformed(
        "x-amz-date must be of the form YYYYMMDDTHHMMSSZ, and of the date in x-amz-credential");
  }
  claim.time = *time;
  claim.time_text = form.date;
  claim.signature = form.signature;
  claim.token = form.token;
  return {};
}

}  // namespace

std::variant<Verified, AuthError> verify_form(const SignedForm& form, const KeyLookup& keys,
                                              WallTime now) {
  Claim claim;
  if (auto error = read_claim(form, claim)) {
    return *error;
  }
  if (claim.time > now + kMaxSkew) {
    return AuthError{AuthFailure::kSkewed, "The x-amz-date of the form is in the future."};
  }
  if (now > claim.time + kMaxForm) {
    return AuthError{AuthFailure::kExpired, "The form has expired: it is older than a week."};
  }
  const std::optional<KnownKey> known = keys(claim.access_key_id);
  if (!known) {
    return unknown_key(claim.scope.service);
  }
  const std::string key = signing_key(known->secret_access_key, claim.time_text, claim.scope);
  if (!equal_in_constant_time(signature_of(key, form.policy), claim.signature)) {
    return mismatch(claim.scope.service);
  }
  if (auto error = check_token(claim, *known, now)) {
    return *error;
  }
  return Verified{.access_key_id = claim.access_key_id,
                  .scope = claim.scope,
                  .payload_hash = std::string(kUnsignedPayload),
                  .seed_signature = {},
                  .signing_key = {},
                  .date = claim.time_text,
                  .presigned = true};
}

}  // namespace trainyard::http
