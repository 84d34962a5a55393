// SPDX-License-Identifier: Apache-2.0
#include "store/target.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::store {
namespace {

Error bad_uri() {
  return Error{Code::kInvalidArgument, "the URI holds an escape that cannot be decoded", "uri"};
}

// "/bucket/any/key": split before decoding, so that an escaped slash stays in the key.
Result<Target> split_path(std::string_view path) {
  if (path.starts_with('/')) {
    path.remove_prefix(1);
  }
  const std::size_t slash = std::min(path.find('/'), path.size());
  auto bucket = uri_decode(path.substr(0, slash));
  auto key = uri_decode(path.substr(std::min(slash + 1, path.size())));
  if (!bucket || !key) {
    return bad_uri();
  }
  return Target{.bucket = std::move(*bucket), .key = std::move(*key)};
}

// "bucket" of "bucket.s3.example.com:8321"; empty for a domain itself, and for other hosts.
std::string bucket_of_host(std::string_view host, const std::vector<std::string>& domains) {
  const std::string name = lower(host.substr(0, host.rfind(':')));
  std::string bucket;
  for (const std::string& domain : domains) {
    if (name == domain) {
      return "";
    }
    // Of domains inside one another the longest counts.
    const std::string_view label =
        std::string_view(name).substr(0, name.size() - std::min(name.size(), domain.size() + 1));
    if (!label.empty() && name.ends_with("." + domain) &&
        (bucket.empty() || label.size() < bucket.size())) {
      bucket = label;
    }
  }
  return bucket;
}

Result<Target> split_host_and_path(const http::Request& request,
                                   const std::vector<std::string>& domains) {
  std::string bucket = bucket_of_host(request.headers.get("Host"), domains);
  if (bucket.empty()) {
    return split_path(request.path);
  }
  std::string_view path = request.path;
  path.remove_prefix(path.starts_with('/') ? 1 : 0);
  auto key = uri_decode(path);
  if (!key) {
    return bad_uri();
  }
  return Target{.bucket = std::move(bucket), .key = std::move(*key), .is_of_host = true};
}

}  // namespace

bool Target::has(std::string_view name) const {
  return std::ranges::find(query, name, [](const auto& pair) { return pair.first; }) != query.end();
}

std::string_view Target::get(std::string_view name) const {
  for (const auto& [present, value] : query) {
    if (present == name) {
      return value;
    }
  }
  return {};
}

Result<std::size_t> Target::count(std::string_view name, std::size_t otherwise,
                                  std::size_t most) const {
  return parse_count(name, get(name), otherwise, most);
}

Result<std::size_t> parse_count(std::string_view name, std::string_view text, std::size_t otherwise,
                                std::size_t most) {
  if (text.empty()) {
    return otherwise;
  }
  const auto number = parse_int(text);
  if (!number || *number < 0) {
    return Error{Code::kInvalidArgument, std::string(name) + " is not a number", "argument"};
  }
  return std::min(static_cast<std::size_t>(*number), most);
}

Result<Target> parse_target(const http::Request& request, const std::vector<std::string>& domains) {
  YARD_TRY(Target target, split_host_and_path(request, domains));
  if (target.bucket.empty() && request.path != "/") {
    return Error{Code::kInvalidArgument, "the path names no bucket", "name"};
  }
  auto query = http::parse_query(request.query);
  if (!query) {
    return bad_uri();
  }
  target.query = std::move(*query);
  return target;
}

Result<Target> parse_copy_source(std::string_view header) {
  const std::size_t question = std::min(header.find('?'), header.size());
  const std::string_view version = header.substr(question);
  if (!version.empty() && version != "?versionId=null") {
    return Error{Code::kNotFound, "there is no such version of the source", "version"};
  }
  auto source = split_path(header.substr(0, question));
  if (!source || source->bucket.empty() || source->key.empty()) {
    return Error{Code::kInvalidArgument, "x-amz-copy-source is not '/bucket/key'", "argument"};
  }
  return source;
}

}  // namespace trainyard::store
