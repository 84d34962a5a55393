// SPDX-License-Identifier: Apache-2.0
// The headers that writes and their answers have in common.
#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/body.h"
#include "store/handlers.h"
#include "store/tags.h"

namespace trainyard::store {
namespace {

constexpr std::string_view kEncryption = "x-amz-server-side-encryption";
// Accepting these would promise what nobody keeps.
constexpr std::string_view kRefused[] = {
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-retain-until-date",
    "x-amz-write-offset-bytes",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write-acp",
    "x-amz-grant-full-control",
};

// S3's limit on user metadata: the bytes of its names, without their prefix, and of its values.
constexpr std::size_t kMostMetadata = std::size_t{2} << 10;
constexpr std::string_view kMetadata = "x-amz-meta-";

std::size_t metadata_size(const std::map<std::string, std::string>& headers) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    bytes += name.starts_with(kMetadata) ? name.size() - kMetadata.size() + value.size() : 0;
  }
  return bytes;
}

Error unsupported(std::string_view header) {
  return Error{Code::kUnimplemented, "A header you provided implies functionality that is not " +
                                         std::string("implemented: ") + std::string(header)};
}

}  // namespace

Result<s3::PutOptions> read_write_headers(const http::Headers& headers) {
  for (const std::string_view name : kRefused) {
    if (headers.find(name) != nullptr) {
      return unsupported(name);
    }
  }
  const std::string_view acl = headers.get("x-amz-acl", "private");
  if (acl != "private" && acl != "bucket-owner-full-control") {
    return unsupported("x-amz-acl");
  }
  const std::string_view storage = headers.get("x-amz-storage-class", "STANDARD");
  if (storage != "STANDARD") {
    return Error{Code::kInvalidArgument, "The storage class you specified is not valid",
                 "storage-class"};
  }
  s3::ObjectHeaders own = s3::read_object_headers(headers);
  if (metadata_size(own.headers) > kMostMetadata) {
    return Error{Code::kInvalidArgument,
                 "Your metadata headers exceed the maximum allowed metadata size: 2048 bytes",
                 "metadata"};
  }
  s3::PutOptions options{.content_type = std::move(own.content_type),
                         .headers = std::move(own.headers)};
  if (const auto encoding = options.headers.find("Content-Encoding");
      encoding != options.headers.end()) {
    encoding->second = without_aws_chunked(encoding->second);
    if (encoding->second.empty()) {
      options.headers.erase(encoding);
    }
  }
  YARD_TRY(s3::CompleteOptions under, read_write_conditions(headers));
  options.only_if_absent = under.only_if_absent;
  options.only_if_match = std::move(under.only_if_match);
  if (const std::string* tags = headers.find("x-amz-tagging")) {
    YARD_TRY(options.tags, parse_tag_header(*tags, kMostObjectTags));
  }
  return options;
}

Result<s3::CompleteOptions> read_write_conditions(const http::Headers& headers) {
  s3::CompleteOptions under;
  if (const std::string* condition = headers.find("If-None-Match")) {
    if (*condition != "*") {
      return unsupported("If-None-Match with an ETag");
    }
    under.only_if_absent = true;
  }
  if (const std::string* condition = headers.find("If-Match")) {
    under.only_if_match = s3::unquote_etag(trim(*condition));
  }
  return under;
}

void echo_encryption(const s3::PutOptions& options, http::Headers& headers) {
  for (const auto& [name, value] : options.headers) {
    if (name.starts_with(kEncryption)) {
      headers.set(name, value);
    }
  }
}

void describe_checksums(const std::vector<s3::Checksum>& checksums, http::Headers& headers) {
  s3::write_checksums(checksums, headers);
  if (!checksums.empty()) {
    headers.set("x-amz-checksum-type", std::string(checksum_type(checksums.front().composite)));
  }
}

std::string_view checksum_type(bool is_composite) {
  return is_composite ? "COMPOSITE" : "FULL_OBJECT";
}

void add_checksums(const std::vector<s3::Checksum>& checksums, s3::XmlWriter& xml) {
  for (const s3::Checksum& checksum : checksums) {
    xml.add("Checksum" + std::string(s3::checksum_name(checksum.kind)), checksum.base64);
  }
}

Result<int> part_number(const Call& call) {
  const auto number = parse_int(call.target.get("partNumber"));
  if (!number || *number < 1 || *number > 10'000) {
    return Error{Code::kInvalidArgument,
                 "Part number must be an integer between 1 and 10000, inclusive", "part-number"};
  }
  return static_cast<int>(*number);
}

}  // namespace trainyard::store
