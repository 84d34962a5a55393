// SPDX-License-Identifier: Apache-2.0
// The policy document of an HTML form that uploads to S3: until when the form may be used and what
// its fields may be. Source: "POST policy", S3 API reference. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::store {

struct PostCondition {
  bool is_prefix = false;  // starts-with; otherwise eq
  std::string field;       // in lower case, without "$"
  std::string value;
};

struct PostPolicy {
  WallTime expires{};
  std::vector<PostCondition> conditions = {};
  // Bytes of the file.
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

// From base64. kInvalidArgument, subject "policy-document".
Result<PostPolicy> parse_post_policy(std::string_view base64);

// Whether a form may be sent: `fields` by names in lower case, as expanded (expand_file_name), to
// `bucket`. kDenied, subject "access", says which condition fails, or which field no condition
// speaks of. The length of the file is the caller's to look at.
Result<void> check_post_policy(const PostPolicy& policy,
                               const std::map<std::string, std::string>& fields,
                               const std::string& bucket, WallTime now);

// "user/${filename}" with the name of the file in it, everywhere.
std::string expand_file_name(std::string_view value, std::string_view file_name);
std::size_t expanded_size(std::string_view value, std::string_view file_name);  // in bytes

}  // namespace trainyard::store
