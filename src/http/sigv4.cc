// SPDX-License-Identifier: Apache-2.0
#include "http/sigv4.h"

#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "base/text.h"
#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

// Fields that the client library, a proxy or the connection may change on the way.
bool may_be_signed(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kNever = {
      "authorization",     "connection", "expect",         "keep-alive", "te",
      "transfer-encoding", "user-agent", "x-amzn-trace-id"};
  return std::find(kNever.begin(), kNever.end(), name) == kNever.end();
}

std::vector<std::string> signed_names(const Headers& headers) {
  std::vector<std::string> names;
  for (const auto& [name, value] : headers.fields()) {
    std::string key = lower(name);
    if (may_be_signed(key)) {
      names.push_back(std::move(key));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string path_to_sign(const Request& request, const SigningScope& scope) {
  return is_s3(scope.service) ? request.path : canonical_path(request.path);
}

}  // namespace

void sign(Request& request, std::string_view payload_hash, const Credentials& credentials,
          const SigningScope& scope, WallTime now) {
  const std::string time = to_basic_iso8601(now);
  request.headers.remove("Authorization");
  request.headers.set("X-Amz-Date", time);
  if (!credentials.session_token.empty()) {
    request.headers.set("X-Amz-Security-Token", credentials.session_token);
  }
  if (is_s3(scope.service)) {
    request.headers.set("X-Amz-Content-SHA256", std::string(payload_hash));
  }
  const CanonicalParts parts{.path = path_to_sign(request, scope),
                             .query = canonical_query(request.query),
                             .signed_headers = signed_names(request.headers),
                             .payload_hash = std::string(payload_hash)};
  const std::string full_scope = scope_text(time, scope);
  const std::string to_sign = string_to_sign(time, full_scope, canonical_request(request, parts));
  const std::string key = signing_key(credentials.secret_access_key, time, scope);
  request.headers.add("Authorization",
                      std::string(kAlgorithm) + " Credential=" + credentials.access_key_id + "/" +
                          full_scope + ", SignedHeaders=" + join(parts.signed_headers, ";") +
                          ", Signature=" + signature_of(key, to_sign));
}

std::string presign(const Request& request, const Credentials& credentials,
                    const SigningScope& scope, WallTime now, std::chrono::seconds valid_for) {
  const std::string time = to_basic_iso8601(now);
  const std::string full_scope = scope_text(time, scope);
  const std::vector<std::string> names = signed_names(request.headers);
  const auto seconds = std::clamp(valid_for, std::chrono::seconds(1), kMaxPresign).count();

  std::string query = request.query;
  const auto add = [&query](std::string_view name, std::string_view value) {
    query += (query.empty() ? "" : "&") + std::string(name) + "=" + uri_encode(value);
  };
  add("X-Amz-Algorithm", kAlgorithm);
  add("X-Amz-Credential", credentials.access_key_id + "/" + full_scope);
  add("X-Amz-Date", time);
  add("X-Amz-Expires", std::to_string(seconds));
  add("X-Amz-SignedHeaders", join(names, ";"));
  if (!credentials.session_token.empty()) {
    add("X-Amz-Security-Token", credentials.session_token);
  }
  const CanonicalParts parts{
      .path = path_to_sign(request, scope),
      .query = canonical_query(query),
      .signed_headers = names,
      .payload_hash = std::string(is_s3(scope.service) ? kUnsignedPayload : kEmptyHash)};
  const std::string to_sign = string_to_sign(time, full_scope, canonical_request(request, parts));
  const std::string key = signing_key(credentials.secret_access_key, time, scope);
  add("X-Amz-Signature", signature_of(key, to_sign));
  return query;
}

}  // namespace trainyard::http
