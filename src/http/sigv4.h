// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4: signing of requests that we send, verification of those that we receive.
// One canonical form serves both. Source: "Signature Version 4 signing process", AWS General
// Reference; the published vectors are its tests. Pure functions; time and keys are passed in.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"

namespace trainyard::http {

class SigningKeys;

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  // empty for long-lived keys
};

struct SigningScope {
  std::string region;
  std::string service;  // "s3" has its own path rule: encoded once, not normalised
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view kStreamingSigned = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
inline constexpr std::string_view kStreamingSignedTrailer =
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
inline constexpr std::string_view kStreamingUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

// Adds x-amz-date, x-amz-security-token (when there is one), for S3 x-amz-content-sha256, and
// Authorization. The request must already carry Host. `payload_hash` is hex SHA-256 or one of the
// words above.
void sign(Request& request, std::string_view payload_hash, const Credentials& credentials,
          const SigningScope& scope, WallTime now);

// The query string of a presigned request: the request's own query with X-Amz-* added.
std::string presign(const Request& request, const Credentials& credentials,
                    const SigningScope& scope, WallTime now, std::chrono::seconds valid_for);

enum class AuthFailure {
  kMissing,    // no signature at all
  kMalformed,  // a signature that cannot be parsed, or that leaves out Host
  kUnknownKey,
  kBadToken,  // session token absent, or not the key's
  kExpiredToken,
  kSkewed,    // the date is more than 15 minutes away
  kExpired,   // a presigned URL after its time
  kMismatch,  // the signature does not match
};

// What the server knows of an access key.
struct KnownKey {
  std::string secret_access_key;
  std::string session_token = {};  // required of the request when not empty
  std::optional<WallTime> expires = {};
};
using KeyLookup = std::function<std::optional<KnownKey>(std::string_view access_key_id)>;

// A request whose signature holds.
struct Verified {
  std::string access_key_id;
  SigningScope scope;
  // The payload hash that the signature covers: the body must be checked against it. Hex SHA-256,
  // or one of the words above. For services other than S3 it is the hash that was passed in.
  std::string payload_hash;
  // For streamed bodies (aws-chunked with signatures): the seed and what the chunk signatures need.
  std::string seed_signature;
  std::string signing_key;  // raw
  std::string date;         // "20261129T201205Z"
  bool presigned = false;
  bool version2 = false;  // of the host and of most of the query the signature says nothing
};

struct AuthError {
  AuthFailure failure = AuthFailure::kMissing;
  std::string message;  // for the client; never holds a secret
};

// Verifies header or query (presigned V4, and the V2 query form that aws CLI v1 sends in us-east-1)
// signatures. `body_hash` is the hex SHA-256 of the body where the caller has read it (every
// service but S3), and empty for S3, where x-amz-content-sha256 says it. With `derived` the signing
// keys of earlier requests are used again.
std::variant<Verified, AuthError> verify(const Request& request, std::string_view body_hash,
                                         const KeyLookup& keys, WallTime now,
                                         SigningKeys* derived = nullptr);

}  // namespace trainyard::http
