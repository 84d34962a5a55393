// SPDX-License-Identifier: Apache-2.0
// Text encodings of bytes: hex, base64, percent-encoding, and UTF-8 checks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard {

std::string to_hex(std::string_view bytes);  // lower case
Result<std::string> from_hex(std::string_view text);
std::string to_base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text);  // strict: padding required

// RFC 3986: everything but A-Z a-z 0-9 - . _ ~ becomes %XX; '/' stays when `keep_slash`.
std::string uri_encode(std::string_view text, bool keep_slash = false);
// "+" stays "+". A malformed escape is kInvalidArgument.
Result<std::string> uri_decode(std::string_view text);
// As uri_decode, and "+" is a blank: HTML form bodies.
Result<std::string> form_decode(std::string_view text);

bool is_utf8(std::string_view text);             // no surrogates, no overlong forms
std::size_t utf8_length(std::string_view text);  // code points; `text` must be valid
// Invalid bytes become U+FFFD, NUL becomes U+FFFD; the result is valid UTF-8.
std::string to_valid_utf8(std::string_view text);
// The longest prefix of at most `max_code_points` characters.
std::string_view utf8_prefix(std::string_view text, std::size_t max_code_points);

}  // namespace trainyard
