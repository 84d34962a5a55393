// SPDX-License-Identifier: Apache-2.0
// Tags of objects and buckets: their two forms on the wire, and what S3 allows of them. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::store {

using Tags = std::map<std::string, std::string>;

inline constexpr std::size_t kMostObjectTags = 10;
inline constexpr std::size_t kMostBucketTags = 50;

// "a=1&b=x%20y", as x-amz-tagging has it. kInvalidArgument, subject "tag": more than `most`, the
// same key twice, an empty key, one of more than 128 characters or a value of more than 256.
Result<Tags> parse_tag_header(std::string_view text, std::size_t most);
// A Tagging document; subject "xml" when it is not one.
Result<Tags> parse_tag_document(const std::string& text, std::size_t most);
std::string tag_document(const Tags& tags);

}  // namespace trainyard::store
