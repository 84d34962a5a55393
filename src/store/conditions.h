// SPDX-License-Identifier: Apache-2.0
// Conditional requests and byte ranges (RFC 9110, sections 13 and 14) on an object's facts, and the
// ranges of its parts. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "http/message.h"
#include "s3/object_store.h"

namespace trainyard::store {

enum class Verdict { kGo, kNotModified, kPreconditionFailed };

// If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, with `prefix` before their names
// ("x-amz-copy-source-"). Dates that cannot be read are ignored.
Verdict judge(const http::Headers& headers, std::string_view prefix, const s3::ObjectInfo& info);

// If-Range (RFC 9110, section 13.1.5): whether a Range counts. Without one it does; with one only
// for the very ETag, or date, of the object as it is, so that nobody joins bytes of two versions.
bool may_be_partial(const http::Headers& headers, const s3::ObjectInfo& info);

// "bytes=0-9", "bytes=5-", "bytes=-3" as first and last byte, cut to `size`. Empty for no header,
// for a form that is not one range, and for other units: the whole object is meant.
// kInvalidArgument, subject "range", when no byte is left.
Result<std::optional<s3::ByteRange>> parse_range(std::string_view header, std::uint64_t size);

// The bytes of part `number`, counted from 1; an object of one piece is its own part 1. Empty when
// that is the whole of an empty object. kInvalidArgument, subject "part-range", when there is no
// such part, or no byte in it.
Result<std::optional<s3::ByteRange>> range_of_part(const s3::ObjectInfo& info, int number);

}  // namespace trainyard::store
