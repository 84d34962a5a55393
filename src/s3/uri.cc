// SPDX-License-Identifier: Apache-2.0
#include "s3/object_store.h"

namespace trainyard::s3 {

Result<Uri> parse_uri(std::string_view text) {
  constexpr std::string_view kScheme = "s3://";
  if (!text.starts_with(kScheme)) {
    return Error{Code::kInvalidArgument, "'" + std::string(text) + "' is not an s3:// URI", "uri"};
  }
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  if (bucket.empty()) {
    return Error{Code::kInvalidArgument, "'" + std::string(text) + "' names no bucket", "uri"};
  }
  return Uri{.bucket = std::string(bucket),
             .key = slash == std::string_view::npos ? "" : std::string(rest.substr(slash + 1))};
}

std::string to_string(const Uri& uri) {
  return "s3://" + uri.bucket + "/" + uri.key;
}

}  // namespace trainyard::s3
