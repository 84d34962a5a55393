// SPDX-License-Identifier: Apache-2.0
#include "s3/object_headers.h"

#include "base/text.h"
#include "s3/checksum.h"

namespace trainyard::s3 {
namespace {

constexpr std::string_view kKept[] = {
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Expires",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-website-redirect-location",
};
constexpr std::string_view kMetaPrefix = "x-amz-meta-";

}  // namespace

ObjectHeaders read_object_headers(const http::Headers& from) {
  ObjectHeaders found{.content_type = std::string(from.get("Content-Type")), .headers = {}};
  for (const std::string_view name : kKept) {
    if (const std::string* value = from.find(name)) {
      found.headers[std::string(name)] = *value;
    }
  }
  for (const auto& [name, value] : from.fields()) {
    std::string lowered = lower(name);
    if (!lowered.starts_with(kMetaPrefix)) {
      continue;
    }
    // A name that comes twice is one list.
    std::string& kept = found.headers[lowered];
    kept += (kept.empty() ? "" : ",") + value;
  }
  return found;
}

void write_object_headers(const std::string& content_type,
                          const std::map<std::string, std::string>& headers, http::Headers& to) {
  if (!content_type.empty()) {
    to.set("Content-Type", content_type);
  }
  for (const auto& [name, value] : headers) {
    to.set(name, value);
  }
}

std::vector<Checksum> read_checksums(const http::Headers& from) {
  std::vector<Checksum> found;
  for (const HashKind kind : kChecksumKinds) {
    if (const std::string* value = from.find(checksum_header(kind))) {
      found.push_back(
          {.kind = kind, .base64 = *value, .composite = value->find('-') != std::string::npos});
    }
  }
  return found;
}

void write_checksums(const std::vector<Checksum>& checksums, http::Headers& to) {
  for (const Checksum& checksum : checksums) {
    to.set(checksum_header(checksum.kind), checksum.base64);
  }
}

std::string quote_etag(std::string_view etag) {
  return "\"" + std::string(etag) + "\"";
}

std::string unquote_etag(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

}  // namespace trainyard::s3
