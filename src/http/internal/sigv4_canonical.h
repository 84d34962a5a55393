// SPDX-License-Identifier: Apache-2.0
// The canonical form of a request and what is computed from it, shared by signing, verification and
// chunk signatures. Source: "Create a signed AWS API request", IAM User Guide. Nothing here decides
// whether a request is good.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "http/message.h"
#include "http/sigv4.h"

namespace trainyard::http {

inline constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
inline constexpr std::string_view kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
// A presigned URL lives for at most seven days.
inline constexpr std::chrono::seconds kMaxPresign{604'800};

// S3 and its relatives sign the path once encoded and never normalised.
bool is_s3(std::string_view service);

// "20261129/us-east-1/s3/aws4_request" from the request's time, "20261129T201205Z".
std::string scope_text(std::string_view time, const SigningScope& scope);

// The path for services other than S3: dot segments and double slashes removed, encoded again.
std::string canonical_path(std::string_view wire_path);
// The path decoded and encoded by the strict rule, for S3 clients that sign another spelling of the
// path than they send. Unchanged when an escape is malformed.
std::string reencoded_path(std::string_view wire_path);
// Decoded, encoded by the strict rule and sorted, without the pair named `leave_out`.
std::string canonical_query(std::string_view wire_query, std::string_view leave_out = {});
// Values of all fields of that name, trimmed, runs of blanks made one, joined by commas.
std::string canonical_value(const Headers& headers, std::string_view name);

struct CanonicalParts {
  std::string path;
  std::string query;
  std::vector<std::string> signed_headers;  // lower case, in the order of the list
  std::string payload_hash;
};
std::string canonical_request(const Request& request, const CanonicalParts& parts);

std::string string_to_sign(std::string_view time, std::string_view scope,
                           std::string_view canonical);
// The raw key of one day, region and service.
std::string signing_key(std::string_view secret, std::string_view time, const SigningScope& scope);
std::string signature_of(std::string_view key, std::string_view to_sign);  // hex

}  // namespace trainyard::http
