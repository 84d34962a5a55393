// SPDX-License-Identifier: Apache-2.0
// The signature of an HTML form that uploads to S3: it covers the form's policy document, and the
// policy says which other fields the form may have. Source: "Authenticating requests: browser-based
// uploads using POST (AWS Signature Version 4)", S3 API reference. Pure.
#pragma once

#include <string>
#include <variant>

#include "base/clock.h"
#include "http/sigv4.h"

namespace trainyard::http {

// Fields of the form as sent; empty where it has none.
struct SignedForm {
  std::string policy = {};      // base64, over which the signature is made
  std::string algorithm = {};   // x-amz-algorithm
  std::string credential = {};  // x-amz-credential
  std::string date = {};        // x-amz-date
  std::string signature = {};   // x-amz-signature
  std::string token = {};       // x-amz-security-token
};

// For how long at most after its date a form may be used, whatever its policy says: a key of a day
// is good for a week.
inline constexpr std::chrono::seconds kMaxForm{604'800};

// `Verified::payload_hash` is UNSIGNED-PAYLOAD: the file is not covered. The policy is not looked
// at.
std::variant<Verified, AuthError> verify_form(const SignedForm& form, const KeyLookup& keys,
                                              WallTime now);

}  // namespace trainyard::http
