// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/body.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kCompleteBody = std::size_t{4} << 20;

std::string upload_id(const Call& call) {
  return std::string(call.target.get("uploadId"));
}

Result<std::vector<s3::PartInfo>> read_parts(const std::string& text) {
  YARD_TRY(const s3::XmlNode root, s3::parse_xml(text));
  std::vector<s3::PartInfo> parts;
  for (const s3::XmlNode& child : root.children) {
    if (child.name != "Part") {
      continue;
    }
    const auto number = parse_int(trim(child.get("PartNumber")));
    if (!number || *number < 1 || *number > 10'000) {
      return Error{Code::kInvalidArgument, "a part has no proper PartNumber", "xml"};
    }
    s3::PartInfo& part = parts.emplace_back();
    part.number = static_cast<int>(*number);
    part.etag = s3::unquote_etag(trim(child.get("ETag")));
    for (const HashKind kind : s3::kChecksumKinds) {
      const auto value = child.get("Checksum" + std::string(s3::checksum_name(kind)));
      if (!value.empty()) {
        part.checksums.push_back({.kind = kind, .base64 = std::string(value)});
      }
    }
  }
  if (root.name != "CompleteMultipartUpload" || parts.empty()) {
    return Error{Code::kInvalidArgument, "the body names no parts", "xml"};
  }
  return parts;
}

// Composite or of the whole object: clients do not always say which, nor add "-<parts>".
bool is_checksum_of(const std::vector<s3::PartInfo>& parts, const s3::Checksum& promised) {
  for (const bool full_object : {false, true}) {
    if (full_object && !s3::is_crc(promised.kind)) {
      continue;
    }
    const auto found = s3::multipart_checksum(promised.kind, full_object, parts);
    if (found && found->base64.substr(0, found->base64.find('-')) ==
                     promised.base64.substr(0, promised.base64.find('-'))) {
      return true;
    }
  }
  return false;
}

// What the client says that the whole object will hash to, against what the parts' checksums give.
Result<void> check_whole(Call& call, const std::vector<s3::PartInfo>& named) {
  const auto promised = s3::read_checksums(call.headers());
  if (promised.empty()) {
    return {};
  }
  const auto stored = call.store.list_parts(call.target.bucket, call.target.key, upload_id(call));
  if (!stored && stored.error().subject == "upload") {
    // Asked again after it succeeded, perhaps: the store knows.
    return {};
  }
  if (!stored) {
    return stored.error();
  }
  std::vector<s3::PartInfo> chosen;
  for (const s3::PartInfo& part : named) {
    const auto it = std::ranges::find(*stored, part.number, &s3::PartInfo::number);
    if (it != stored->end()) {
      chosen.push_back(*it);
    }
  }
  for (const s3::Checksum& checksum : promised) {
    if (!is_checksum_of(chosen, checksum)) {
      return Error{Code::kInvalidArgument,
                   "The " + std::string(s3::checksum_name(checksum.kind)) +
                       " you specified did not match the calculated checksum",
                   "digest"};
    }
  }
  return {};
}

}  // namespace

Result<void> create_upload(Call& call) {
  YARD_TRY(s3::PutOptions options, read_write_headers(call));
  options.owner = call.verified.access_key_id;
  http::Headers echoed;
  const std::string_view type = call.headers().get("x-amz-checksum-type");
  if (const std::string* algorithm = call.headers().find("x-amz-checksum-algorithm")) {
    const auto kind = s3::checksum_kind(*algorithm);
    if (!kind || !(type.empty() || type == "COMPOSITE" || type == "FULL_OBJECT")) {
      return Error{Code::kInvalidArgument, "Checksum algorithm or type provided is unsupported",
                   "request"};
    }
    options.compute = {*kind};
    // CRC64NVME exists for whole objects only.
    options.full_object_checksum = type == "FULL_OBJECT" || *kind == HashKind::kCrc64Nvme;
    echoed.set("x-amz-checksum-algorithm", std::string(s3::checksum_name(*kind)));
    echoed.set("x-amz-checksum-type", options.full_object_checksum ? "FULL_OBJECT" : "COMPOSITE");
  }
  YARD_TRY(const std::string id,
           call.store.create_upload(call.target.bucket, call.target.key, options));
  echo_encryption(options, echoed);
  s3::XmlWriter xml("InitiateMultipartUploadResult");
  xml.add("Bucket", call.target.bucket).add("Key", call.target.key).add("UploadId", id);
  call.respond_xml(xml, std::move(echoed));
  return {};
}

Result<void> upload_part(Call& call) {
  YARD_TRY(const int number, part_number(call));
  YARD_TRY(const auto body, Body::open(call));
  s3::PutOptions options;
  body->promise(options);
  YARD_TRY(const s3::PartInfo part,
           call.store.put_part(call.target.bucket, call.target.key,
                               {.upload_id = upload_id(call), .number = number}, body->source(),
                               options));
  http::Response response;
  response.headers.set("ETag", s3::quote_etag(part.etag));
  s3::write_checksums(part.checksums, response.headers);
  call.respond(std::move(response));
  return {};
}

Result<void> complete_upload(Call& call) {
  YARD_TRY(const auto body, Body::open(call, Body::ChecksumsOf::kObject));
  YARD_TRY(const std::string text, body->read_text(kCompleteBody));
  YARD_TRY(const auto parts, read_parts(text));
  YARD_TRY(check_whole(call, parts));
  YARD_TRY(s3::CompleteOptions under, read_write_conditions(call));
  under.before_visible = [&call] { return call.still_holds(); };
  YARD_TRY(const s3::ObjectInfo info,
           call.store.complete_upload_if(call.target.bucket, call.target.key, upload_id(call),
                                         parts, under));
  s3::XmlWriter xml("CompleteMultipartUploadResult");
  const http::Request& request = call.exchange.request();
  const bool is_tls = !request.listener.empty() && request.listener == call.options.tls_listener;
  xml.add("Location", (is_tls ? "https://" : "http://") + std::string(call.headers().get("Host")) +
                          request.path);
  xml.add("Bucket", call.target.bucket).add("Key", call.target.key);
  xml.add("ETag", s3::quote_etag(info.etag));
  add_checksums(info.checksums, xml);
  if (!info.checksums.empty()) {
    xml.add("ChecksumType", checksum_type(info.checksums.front().composite));
  }
  http::Headers echoed;
  echo_encryption({.headers = info.headers}, echoed);
  call.respond_xml(xml, std::move(echoed));
  return {};
}

Result<void> abort_upload(Call& call) {
  YARD_TRY(call.store.abort_upload(call.target.bucket, call.target.key, upload_id(call)));
  call.respond({.status = 204, .headers = {}, .body = {}});
  return {};
}

}  // namespace trainyard::store
