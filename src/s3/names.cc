// SPDX-License-Identifier: Apache-2.0
#include "s3/names.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kLongestKey = 1'024;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_address(std::string_view name) {
  const auto labels = split(name, '.');
  return labels.size() == 4 && std::ranges::all_of(labels, [](std::string_view label) {
           return !label.empty() && label.size() <= 3 &&
                  std::ranges::all_of(label, [](char c) { return c >= '0' && c <= '9'; });
         });
}

}  // namespace

Result<void> check_bucket_name(std::string_view name) {
  const bool fits =
      name.size() >= 3 && name.size() <= 63 && is_alphanumeric(name.front()) &&
      is_alphanumeric(name.back()) &&
      std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
  if (!fits || name.find("..") != std::string_view::npos || is_address(name)) {
    return Error{Code::kInvalidArgument,
                 "'" + std::string(name) + "' cannot name a bucket: 3 to 63 lower-case letters, " +
                     "digits, dots and hyphens, with a letter or digit at both ends",
                 "name"};
  }
  return {};
}

Result<void> check_key(std::string_view key) {
  if (key.empty()) {
    return Error{Code::kInvalidArgument, "a key has at least one character", "key"};
  }
  if (key.size() > kLongestKey) {
    return Error{Code::kInvalidArgument,
                 "the key has " + std::to_string(key.size()) + " bytes; at most 1024 are allowed",
                 "key-length"};
  }
  if (!is_utf8(key)) {
    return Error{Code::kInvalidArgument, "the key is not valid UTF-8", "key"};
  }
  return {};
}

std::string common_prefix_of(std::string_view key, std::string_view prefix,
                             std::string_view delimiter) {
  if (delimiter.empty() || !key.starts_with(prefix)) {
    return "";
  }
  const std::size_t at = key.find(delimiter, prefix.size());
  return at == std::string_view::npos ? "" : std::string(key.substr(0, at + delimiter.size()));
}

}  // namespace trainyard::s3
