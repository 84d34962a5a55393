// SPDX-License-Identifier: Apache-2.0
// What S3 allows as the name of a bucket and as a key.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::s3 {

// 3 to 63 characters: lower-case letters, digits, dots, hyphens; a letter or digit at both ends; no
// "..", no form of an IPv4 address. kInvalidArgument, subject "name".
Result<void> check_bucket_name(std::string_view name);

// 1 to 1,024 bytes of UTF-8. kInvalidArgument, subject "key" ("key-length" for a long one).
Result<void> check_key(std::string_view key);

// What a listing says in place of all keys that begin with it: "a/b/" of "a/b/c" when the prefix is
// "a/" and the delimiter "/". Empty when there is no such thing.
std::string common_prefix_of(std::string_view key, std::string_view prefix,
                             std::string_view delimiter);

}  // namespace trainyard::s3
