// SPDX-License-Identifier: Apache-2.0
// What a request is about: bucket, key and query of an S3 URL, decoded. The bucket is the first
// segment of the path, or what stands before one of `domains` in the host's name. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/message.h"

namespace trainyard::store {

struct Target {
  std::string bucket;  // empty: the service itself
  std::string key;     // empty: the bucket itself ("/b" and "/b/")
  std::vector<std::pair<std::string, std::string>> query = {};
  bool is_of_host = false;  // the bucket stands in the host's name

  bool has(std::string_view name) const;
  // The first value of that name, or empty.
  std::string_view get(std::string_view name) const;
  // As parse_count() has it.
  Result<std::size_t> count(std::string_view name, std::size_t otherwise, std::size_t most) const;
};

// A count in a query or a header called `name`; `otherwise` when `text` is empty, cut to `most`.
// kInvalidArgument when it is not a number >= 0.
Result<std::size_t> parse_count(std::string_view name, std::string_view text, std::size_t otherwise,
                                std::size_t most);

// kInvalidArgument, subject "uri", for a broken escape.
Result<Target> parse_target(const http::Request& request,
                            const std::vector<std::string>& domains = {});

// x-amz-copy-source: "/bucket/key", percent-encoded, in which "+" is itself; "?versionId=null" may
// follow. Only bucket and key are filled in.
Result<Target> parse_copy_source(std::string_view header);

}  // namespace trainyard::store
