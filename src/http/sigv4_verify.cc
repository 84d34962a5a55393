// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"
#include "http/internal/sigv2.h"
#include "http/internal/sigv4_canonical.h"
#include "http/internal/sigv4_claim.h"
#include "http/signing_keys.h"
#include "http/sigv4.h"

namespace trainyard::http {
namespace {

constexpr std::chrono::minutes kMaxSkew{15};
// S3 verifies V2 signatures without a scope: they were only ever made for this one.
constexpr std::string_view kSigV2Region = "us-east-1";
constexpr std::int64_t kLastSecond = 253'402'300'799;  // of the year 9999

std::string value_of(const QueryPairs& pairs, std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) {
      return value;
    }
  }
  return {};
}

bool has(const QueryPairs& pairs, std::string_view name) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const auto& p) { return p.first == name; });
}

void read_signed_headers(std::string_view text, Claim& claim) {
  for (const std::string_view name : split(text, ';')) {
    claim.signed_headers.push_back(lower(name));
  }
}

// "Credential=..., SignedHeaders=..., Signature=...", blanks after the commas optional.
Checked read_authorization(std::string_view text, Claim& claim) {
  std::string_view credential;
  std::string_view headers;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view item = trim(part);
    if (item.starts_with("Credential=")) {
      credential = item.substr(11);
    } else if (item.starts_with("SignedHeaders=")) {
      headers = item.substr(14);
    } else if (item.starts_with("Signature=")) {
      claim.signature = item.substr(10);
    }
  }
  std::string missing;
  const auto require = [&](std::string_view value, const std::string& name) {
    if (value.empty()) {
      missing += "Authorization header requires '" + name + "' parameter. ";
    }
  };
  require(credential, "Credential");
  require(claim.signature, "Signature");
  require(headers, "SignedHeaders");
  if (!missing.empty()) {
    return malformed(std::string(trim(missing)));
  }
  read_signed_headers(headers, claim);
  return read_credential(credential, claim);
}

Checked read_header_time(const Request& request, Claim& claim) {
  claim.time_text = request.headers.get("X-Amz-Date");
  if (auto time = parse_basic_iso8601(claim.time_text)) {
    claim.time = *time;
    return {};
  }
  const std::string_view date = request.headers.get("Date");
  if (!claim.time_text.empty() || date.empty()) {
    return malformed(
        "Authorization header requires existence of a 'X-Amz-Date' header of the form "
        "YYYYMMDDTHHMMSSZ, or of a 'Date' header.");
  }
  auto time = parse_http_date(date);
  if (!time) {
    time = parse_basic_iso8601(date);
  }
  if (!time) {
    return malformed("Date must be a date as in RFC 7231 or of the form YYYYMMDDTHHMMSSZ.");
  }
  claim.time = *time;
  claim.time_text = to_basic_iso8601(*time);
  return {};
}

Checked read_header_claim(const Request& request, Claim& claim) {
  const std::string_view authorization = request.headers.get("Authorization");
  if (!authorization.starts_with(kAlgorithm) ||
      !authorization.substr(kAlgorithm.size()).starts_with(' ')) {
    return malformed("Unsupported Authorization type: the request must be signed with " +
                     std::string(kAlgorithm) + ".");
  }
  if (auto error = read_authorization(authorization.substr(kAlgorithm.size()), claim)) {
    return error;
  }
  claim.token = request.headers.get("X-Amz-Security-Token");
  claim.payload_hash = request.headers.get("X-Amz-Content-SHA256");
  return read_header_time(request, claim);
}

Checked read_query_claim(const Request& request, const QueryPairs& pairs, Claim& claim) {
  for (const std::string_view name : {"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date",
                                      "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"}) {
    const auto count = std::count_if(pairs.begin(), pairs.end(),
                                     [&](const auto& pair) { return pair.first == name; });
    if (count != 1) {
      return malformed(
          "Query-string authentication requires the X-Amz-Algorithm, "
          "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and "
          "X-Amz-Expires parameters, once each.");
    }
  }
  if (value_of(pairs, "X-Amz-Algorithm") != kAlgorithm) {
    return malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
  }
  if (auto error = read_credential(value_of(pairs, "X-Amz-Credential"), claim)) {
    return error;
  }
  claim.time_text = value_of(pairs, "X-Amz-Date");
  const auto time = parse_basic_iso8601(claim.time_text);
  if (!time) {
    return malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
  }
  claim.time = *time;
  const auto expires = parse_int(value_of(pairs, "X-Amz-Expires"));
  if (!expires || *expires < 1 || *expires > kMaxPresign.count()) {
    return malformed("X-Amz-Expires must be a number from 1 to 604800 (seconds, a week).");
  }
  claim.valid_for = std::chrono::seconds(*expires);
  read_signed_headers(value_of(pairs, "X-Amz-SignedHeaders"), claim);
  claim.signature = value_of(pairs, "X-Amz-Signature");
  claim.token = value_of(pairs, "X-Amz-Security-Token");
  const std::string* hash = request.headers.find("X-Amz-Content-SHA256");
  claim.payload_hash = hash != nullptr ? *hash : value_of(pairs, "X-Amz-Content-Sha256");
  return {};
}

bool is_payload_word(std::string_view text) {
  const std::array<std::string_view, 4> words = {
      kUnsignedPayload, kStreamingSigned, kStreamingSignedTrailer, kStreamingUnsignedTrailer};
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::find(words.begin(), words.end(), text) != words.end() ||
         (text.size() == 64 && std::all_of(text.begin(), text.end(), is_hex));
}

// Decides which payload hash the signature covers, and refuses a request that cannot say it.
Checked settle_payload_hash(std::string_view body_hash, Claim& claim) {
  if (!body_hash.empty()) {
    claim.payload_hash = body_hash;
  } else if (claim.payload_hash.empty() && claim.valid_for) {
    claim.payload_hash = kUnsignedPayload;
  } else if (claim.payload_hash.empty()) {
    return malformed("Missing required header for this request: x-amz-content-sha256");
  } else if (!is_payload_word(claim.payload_hash)) {
    return malformed(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, "
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.");
  }
  return {};
}

// Host binds the request to this server; x-amz-* fields change what it does. These three are
// covered otherwise: by the string to sign, by the canonical request, by comparison with the key's.
Checked check_signed_headers(const Request& request, const Claim& claim) {
  const auto is_signed = [&](std::string_view name) {
    return std::find(claim.signed_headers.begin(), claim.signed_headers.end(), name) !=
           claim.signed_headers.end();
  };
  if (!is_signed("host")) {
    return malformed("'Host' must be a 'SignedHeader' in the AWS Authorization.");
  }
  for (const auto& [name, value] : request.headers.fields()) {
    const std::string key = lower(name);
    const bool is_covered = key == "x-amz-date" || key == "x-amz-content-sha256" ||
                            key == "x-amz-security-token" || is_signed(key);
    if (key.starts_with("x-amz-") && !is_covered) {
      return malformed("There were headers present in the request which were not signed: " + key);
    }
  }
  return {};
}

Checked check_skew(const Claim& claim, WallTime now) {
  const std::string advice = claim.scope.service.empty() || is_s3(claim.scope.service)
                                 ? "The difference between the request time and the current time "
                                   "is too large. "
                                 : "";
  const std::string server = to_basic_iso8601(now);
  if (!claim.valid_for && claim.time < now - kMaxSkew) {
    return AuthError{AuthFailure::kSkewed,
                     advice + "Signature expired: " + claim.time_text + " is now earlier than " +
                         to_basic_iso8601(now - kMaxSkew) + " (" + server + " - 15 min.)"};
  }
  if (claim.time > now + kMaxSkew) {
    return AuthError{AuthFailure::kSkewed,
                     advice + "Signature not yet current: " + claim.time_text +
                         " is still later than " + to_basic_iso8601(now + kMaxSkew) + " (" +
                         server + " + 15 min.)"};
  }
  if (claim.valid_for && now > claim.time + *claim.valid_for) {
    return AuthError{AuthFailure::kExpired, "Request has expired: it was valid until " +
                                                to_basic_iso8601(claim.time + *claim.valid_for) +
                                                ", and it is now " + server};
  }
  if (claim.scope_date != claim.time_text.substr(0, 8)) {
    return malformed(
        "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of "
        "date from HTTP: '" +
        claim.scope_date + "' != '" + claim.time_text.substr(0, 8) + "', from '" + claim.time_text +
        "'.");
  }
  return {};
}

// S3 clients agree on the bytes of a path but not on how many of them are escaped, and some sign
// another spelling than they send: both name the same object.
std::vector<std::string> paths_to_try(const Request& request, const Claim& claim) {
  if (!is_s3(claim.scope.service)) {
    return {canonical_path(request.path)};
  }
  std::string strict = reencoded_path(request.path);
  if (strict == request.path) {
    return {request.path};
  }
  return {request.path, std::move(strict)};
}

bool is_signature_right(const Request& request, const Claim& claim, std::string_view key) {
  CanonicalParts parts{.path = {},
                       .query = canonical_query(request.query, "X-Amz-Signature"),
                       .signed_headers = claim.signed_headers,
                       .payload_hash = claim.payload_hash};
  if (!claim.valid_for) {
    parts.query = canonical_query(request.query);
  }
  const std::string scope = scope_text(claim.time_text, claim.scope);
  for (std::string& path : paths_to_try(request, claim)) {
    parts.path = std::move(path);
    const std::string to_sign =
        string_to_sign(claim.time_text, scope, canonical_request(request, parts));
    if (equal_in_constant_time(signature_of(key, to_sign), claim.signature)) {
      return true;
    }
  }
  return false;
}

std::string key_of(const KnownKey& known, const Claim& claim, SigningKeys* derived) {
  return derived == nullptr ? signing_key(known.secret_access_key, claim.time_text, claim.scope)
                            : derived->of({.access_key_id = claim.access_key_id,
                                           .secret_access_key = known.secret_access_key},
                                          claim.time_text, claim.scope);
}

// The claim's payload hash is settled.
std::variant<Verified, AuthError> verify_v4(const Request& request, const Claim& claim,
                                            const KeyLookup& keys, WallTime now,
                                            SigningKeys* derived) {
  for (const Checked& error : {check_signed_headers(request, claim), check_skew(claim, now)}) {
    if (error) {
      return *error;
    }
  }
  const std::optional<KnownKey> known = keys(claim.access_key_id);
  if (!known) {
    return unknown_key(claim.scope.service);
  }
  const std::string key = key_of(*known, claim, derived);
  if (!is_signature_right(request, claim, key)) {
    return mismatch(claim.scope.service);
  }
  if (auto error = check_token(claim, *known, now)) {
    return *error;
  }
  return Verified{.access_key_id = claim.access_key_id,
                  .scope = claim.scope,
                  .payload_hash = claim.payload_hash,
                  .seed_signature = claim.signature,
                  .signing_key = key,
                  .date = claim.time_text,
                  .presigned = claim.valid_for.has_value()};
}

std::variant<Verified, AuthError> verify_v2(const Request& request, const QueryPairs& pairs,
                                            const KeyLookup& keys, WallTime now) {
  const std::string expires_text = value_of(pairs, "Expires");
  const auto expires = parse_int(expires_text);
  if (!expires || *expires < 0 || *expires > kLastSecond || !has(pairs, "Signature")) {
    return malformed(
        "Query-string authentication version 2 requires the Signature, Expires and "
        "AWSAccessKeyId parameters; Expires counts seconds since 1970.");
  }
  const SigningScope scope{.region = std::string(kSigV2Region), .service = "s3"};
  const Claim claim{.access_key_id = value_of(pairs, "AWSAccessKeyId"),
                    .scope_date = {},
                    .scope = scope,
                    .signature = value_of(pairs, "Signature"),
                    .token = value_of(pairs, "x-amz-security-token"),
                    .time_text = {}};
  const std::optional<KnownKey> known = keys(claim.access_key_id);
  if (!known) {
    return unknown_key(scope.service);
  }
  if (now.time_since_epoch() > std::chrono::seconds(*expires)) {
    return AuthError{AuthFailure::kExpired,
                     "Request has expired: it was valid until " +
                         to_basic_iso8601(WallTime(std::chrono::seconds(*expires))) +
                         ", and it is now " + to_basic_iso8601(now)};
  }
  const auto is_right = [&](const std::string& path) {
    return equal_in_constant_time(
        sigv2_signature(request, path, pairs, expires_text, known->secret_access_key),
        claim.signature);
  };
  // Of a bucket alone clients sign "/bucket/", whichever way they write it.
  const bool is_bucket = request.path.size() > 1 && request.path.find('/', 1) == std::string::npos;
  if (!is_right(request.path) && !(is_bucket && is_right(request.path + "/"))) {
    return mismatch(scope.service);
  }
  if (auto error = check_token(claim, *known, now)) {
    return *error;
  }
  return Verified{.access_key_id = claim.access_key_id,
                  .scope = scope,
                  .payload_hash = std::string(kUnsignedPayload),
                  .seed_signature = {},
                  .signing_key = {},
                  .date = {},
                  .presigned = true,
                  .version2 = true};
}

}  // namespace

std::variant<Verified, AuthError> verify(const Request& request, std::string_view body_hash,
                                         const KeyLookup& keys, WallTime now,
                                         SigningKeys* derived) {
  auto parsed = parse_query(request.query);
  if (!parsed) {
    return malformed("The query string is malformed: " + parsed.error().message);
  }
  const QueryPairs& pairs = *parsed;
  const bool by_header = request.headers.find("Authorization") != nullptr;
  const bool by_query = has(pairs, "X-Amz-Signature") || has(pairs, "X-Amz-Algorithm");
  const bool by_v2 = has(pairs, "AWSAccessKeyId");
  const int mechanisms = int{by_header} + int{by_query} + int{by_v2};
  if (mechanisms == 0) {
    return AuthError{AuthFailure::kMissing, "Missing Authentication Token"};
  }
  if (mechanisms > 1) {
    return malformed(
        "Only one auth mechanism allowed; only one of the X-Amz-Algorithm query "
        "parameter, the AWSAccessKeyId query parameter or the Authorization header "
        "should be specified.");
  }
  if (by_v2) {
    return verify_v2(request, pairs, keys, now);
  }
  Claim claim;
  Checked error =
      by_header ? read_header_claim(request, claim) : read_query_claim(request, pairs, claim);
  if (!error) {
    error = settle_payload_hash(body_hash, claim);
  }
  return error ? *error : verify_v4(request, claim, keys, now, derived);
}

}  // namespace trainyard::http
