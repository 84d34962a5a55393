// SPDX-License-Identifier: Apache-2.0
#include "s3/client/s3_answers.h"

#include "base/encoding.h"
#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "s3/xml.h"

namespace trainyard::s3 {
namespace {

Result<XmlNode> read_root(const std::string& body, std::string_view name) {
  auto root = parse_xml(body);
  if (!root || (!name.empty() && root->name != name)) {
    return Error{Code::kCorrupt,
                 "the store's answer is not " + (name.empty() ? "XML" : "a " + std::string(name))};
  }
  return root;
}

// S3 writes a blank as "+" in url-encoded listings.
Result<std::string> decoded(std::string_view text) {
  return form_decode(text);
}

std::uint64_t number(std::string_view text) {
  return static_cast<std::uint64_t>(parse_int(text).value_or(0));
}

WallTime time_of(std::string_view text) {
  return parse_iso8601(text).value_or(WallTime{});
}

}  // namespace

ObjectInfo read_object_info(const std::string& key, const http::Response& response) {
  const http::Headers& headers = response.headers;
  ObjectHeaders own = read_object_headers(headers);
  ObjectInfo info{
      .key = key,
      .size = number(headers.get("Content-Length")),
      .etag = unquote_etag(headers.get("ETag")),
      .last_modified = parse_http_date(headers.get("Last-Modified")).value_or(WallTime{}),
      .content_type = std::move(own.content_type),
      .headers = std::move(own.headers),
      .checksums = read_checksums(headers)};
  // "bytes 0-9/1234"
  if (const std::string_view range = headers.get("Content-Range"); !range.empty()) {
    info.size = number(range.substr(range.rfind('/') + 1));
  }
  return info;
}

Result<std::vector<BucketInfo>> read_bucket_list(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, "ListAllMyBucketsResult"));
  std::vector<BucketInfo> buckets;
  if (const XmlNode* list = root.child("Buckets")) {
    for (const XmlNode& bucket : list->children) {
      buckets.push_back({.name = std::string(bucket.get("Name")),
                         .created = time_of(bucket.get("CreationDate"))});
    }
  }
  return buckets;
}

Result<ListPage> read_object_list(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, "ListBucketResult"));
  ListPage page;
  page.truncated = root.get("IsTruncated") == "true";
  for (const XmlNode& child : root.children) {
    if (child.name == "Contents") {
      YARD_TRY(std::string key, decoded(child.get("Key")));
      page.objects.push_back({.key = std::move(key),
                              .size = number(child.get("Size")),
                              .etag = unquote_etag(child.get("ETag")),
                              .last_modified = time_of(child.get("LastModified"))});
    } else if (child.name == "CommonPrefixes") {
      YARD_TRY(page.common_prefixes.emplace_back(), decoded(child.get("Prefix")));
    }
  }
  page.next_after = root.get("NextContinuationToken");
  if (page.truncated && page.next_after.empty()) {
    return Error{Code::kCorrupt, "the store's list is cut without saying where it goes on"};
  }
  return page;
}

Result<std::string> read_upload_id(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, "InitiateMultipartUploadResult"));
  return std::string(root.get("UploadId"));
}

Result<PartPage> read_part_list(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, "ListPartsResult"));
  PartPage page;
  for (const XmlNode& child : root.children) {
    if (child.name != "Part") {
      continue;
    }
    PartInfo& part = page.parts.emplace_back();
    part.number = static_cast<int>(number(child.get("PartNumber")));
    part.size = number(child.get("Size"));
    part.etag = unquote_etag(child.get("ETag"));
    part.last_modified = time_of(child.get("LastModified"));
    for (const HashKind kind : kChecksumKinds) {
      const std::string_view value = child.get("Checksum" + std::string(checksum_name(kind)));
      if (!value.empty()) {
        part.checksums.push_back({.kind = kind, .base64 = std::string(value)});
      }
    }
  }
  if (root.get("IsTruncated") == "true") {
    page.next = root.get("NextPartNumberMarker");
  }
  return page;
}

Result<UploadPage> read_upload_list(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, "ListMultipartUploadsResult"));
  UploadPage page;
  for (const XmlNode& child : root.children) {
    if (child.name == "Upload") {
      YARD_TRY(std::string key, decoded(child.get("Key")));
      page.uploads.push_back({.key = std::move(key),
                              .upload_id = std::string(child.get("UploadId")),
                              .started = time_of(child.get("Initiated"))});
    }
  }
  if (root.get("IsTruncated") == "true") {
    YARD_TRY(page.next_key, decoded(root.get("NextKeyMarker")));
    page.next_id = root.get("NextUploadIdMarker");
  }
  return page;
}

Result<Made> read_made(const std::string& body) {
  YARD_TRY(const XmlNode root, read_root(body, ""));
  return Made{.etag = unquote_etag(root.get("ETag")),
              .last_modified = time_of(root.get("LastModified"))};
}

std::string write_part_list(const std::vector<PartInfo>& parts) {
  XmlWriter xml("CompleteMultipartUpload");
  for (const PartInfo& part : parts) {
    xml.open("Part").add("PartNumber", static_cast<std::uint64_t>(part.number));
    xml.add("ETag", quote_etag(part.etag));
    for (const Checksum& checksum : part.checksums) {
      xml.add("Checksum" + std::string(checksum_name(checksum.kind)), checksum.base64);
    }
    xml.close();
  }
  return xml.finish();
}

}  // namespace trainyard::s3
