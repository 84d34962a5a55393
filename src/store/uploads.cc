// SPDX-License-Identifier: Apache-2.0
// ListMultipartUploads and ListParts.
#include <algorithm>

#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/handlers.h"
#include "store/listing_names.h"
#include "store/upload_pages.h"

namespace trainyard::store {
namespace {

void add_checksum_of(const s3::UploadInfo& upload, s3::XmlWriter& xml) {
  if (upload.checksum) {
    xml.add("ChecksumAlgorithm", s3::checksum_name(*upload.checksum));
    xml.add("ChecksumType", checksum_type(!upload.full_object_checksum));
  }
}

// What is listed behind what stands just before it: ids are hexadecimal, so few can come between.
Result<s3::UploadInfo> find_upload(const Call& call, const std::string& id) {
  YARD_TRY(const auto listed,
           call.store.list_uploads_after(call.target.bucket, {.prefix = call.target.key,
                                                              .key = call.target.key,
                                                              .id = id.substr(0, id.size() - 1),
                                                              .limit = 16}));
  const auto found = std::ranges::find(listed, id, &s3::UploadInfo::upload_id);
  return found == listed.end() ? s3::UploadInfo{} : *found;
}

void add_uploads(const Call& call, const UploadPage& page, const ListingNames& names,
                 s3::XmlWriter& xml) {
  for (const s3::UploadInfo& upload : page.uploads) {
    xml.open("Upload");
    names.add(xml, "Key", upload.key);
    xml.add("UploadId", upload.upload_id);
    xml.open("Initiator").add("ID", call.options.account_id).close();
    xml.open("Owner").add("ID", call.options.account_id).close();
    xml.add("StorageClass", "STANDARD").add("Initiated", xml_time(upload.started));
    add_checksum_of(upload, xml);
    xml.close();
  }
  names.add_prefixes(xml, page.common_prefixes);
}

}  // namespace

Result<void> list_uploads(Call& call) {
  YARD_TRY(const ListingNames names, ListingNames::asked_for_by(call));
  YARD_TRY(const std::size_t limit, call.target.count("max-uploads", kListingPage, kListingPage));
  const UploadQuery query{.prefix = std::string(call.target.get("prefix")),
                          .delimiter = std::string(call.target.get("delimiter")),
                          .key_marker = std::string(call.target.get("key-marker")),
                          .id_marker = std::string(call.target.get("upload-id-marker")),
                          .limit = limit};
  const UploadSource source = [&call](const s3::UploadsAfter& after) {
    return call.store.list_uploads_after(call.target.bucket, after);
  };
  YARD_TRY(const UploadPage page, page_uploads(source, query));
  s3::XmlWriter xml("ListMultipartUploadsResult");
  xml.add("Bucket", call.target.bucket);
  names.add(xml, "KeyMarker", query.key_marker);
  xml.add("UploadIdMarker", query.id_marker);
  names.add(xml, "Prefix", query.prefix);
  if (!query.delimiter.empty()) {
    names.add(xml, "Delimiter", query.delimiter);
  }
  if (page.truncated) {
    names.add(xml, "NextKeyMarker", page.next_key);
    xml.add("NextUploadIdMarker", page.next_id);
  }
  xml.add("MaxUploads", limit);
  names.add_type(xml);
  xml.add("IsTruncated", yes_or_no(page.truncated));
  add_uploads(call, page, names, xml);
  call.respond_xml(xml);
  return {};
}

Result<void> list_parts(Call& call) {
  YARD_TRY(const ListingNames names, ListingNames::asked_for_by(call));
  const std::string id(call.target.get("uploadId"));
  YARD_TRY(const std::size_t limit, call.target.count("max-parts", kListingPage, kListingPage));
  YARD_TRY(const std::size_t marker, call.target.count("part-number-marker", 0, 100'000));
  YARD_TRY(const auto parts, call.store.list_parts(call.target.bucket, call.target.key, id));
  YARD_TRY(const s3::UploadInfo upload, find_upload(call, id));
  const auto first = std::ranges::find_if(parts, [&](const s3::PartInfo& part) {
    return static_cast<std::size_t>(part.number) > marker;
  });
  const auto left = static_cast<std::size_t>(parts.end() - first);
  const auto last = first + static_cast<std::ptrdiff_t>(std::min(left, limit));
  const bool truncated = left > limit && limit > 0;

  s3::XmlWriter xml("ListPartsResult");
  xml.add("Bucket", call.target.bucket);
  names.add(xml, "Key", call.target.key);
  xml.add("UploadId", id).add("PartNumberMarker", marker);
  if (truncated) {
    xml.add("NextPartNumberMarker", static_cast<std::uint64_t>(std::prev(last)->number));
  }
  xml.add("MaxParts", limit).add("IsTruncated", yes_or_no(truncated));
  for (auto part = first; part != last; ++part) {
    xml.open("Part").add("PartNumber", static_cast<std::uint64_t>(part->number));
    xml.add("LastModified", xml_time(part->last_modified));
    xml.add("ETag", s3::quote_etag(part->etag)).add("Size", part->size);
    add_checksums(part->checksums, xml);
    xml.close();
  }
  xml.open("Initiator").add("ID", call.options.account_id).close();
  xml.open("Owner").add("ID", call.options.account_id).close();
  xml.add("StorageClass", "STANDARD");
  add_checksum_of(upload, xml);
  call.respond_xml(xml);
  return {};
}

}  // namespace trainyard::store
