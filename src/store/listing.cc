// SPDX-License-Identifier: Apache-2.0
#include "base/encoding.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/handlers.h"
#include "store/listing_names.h"

namespace trainyard::store {
namespace {

void add_entries(const Call& call, const s3::ListPage& page, const ListingNames& names,
                 bool with_owner, s3::XmlWriter& xml) {
  for (const s3::ObjectInfo& object : page.objects) {
    xml.open("Contents");
    names.add(xml, "Key", object.key);
    xml.add("LastModified", xml_time(object.last_modified));
    xml.add("ETag", s3::quote_etag(object.etag));
    for (const s3::Checksum& checksum : object.checksums) {
      xml.add("ChecksumAlgorithm", s3::checksum_name(checksum.kind));
    }
    if (!object.checksums.empty()) {
      xml.add("ChecksumType", checksum_type(object.checksums.front().composite));
    }
    xml.add("Size", object.size);
    if (with_owner) {
      xml.open("Owner").add("ID", call.options.account_id).close();
    }
    xml.add("StorageClass", "STANDARD").close();
  }
  names.add_prefixes(xml, page.common_prefixes);
}

struct Asked {
  s3::ListQuery query;
  ListingNames names;
};

Result<Asked> read_query(const Call& call) {
  YARD_TRY(const ListingNames names, ListingNames::asked_for_by(call));
  YARD_TRY(const std::size_t limit, call.target.count("max-keys", kListingPage, kListingPage));
  return Asked{.query = {.prefix = std::string(call.target.get("prefix")),
                         .delimiter = std::string(call.target.get("delimiter")),
                         .after = {},
                         .limit = limit},
               .names = names};
}

void add_query(const Call& call, const Asked& asked, const s3::ListPage& page, s3::XmlWriter& xml) {
  xml.add("Name", call.target.bucket);
  asked.names.add(xml, "Prefix", asked.query.prefix);
  if (!asked.query.delimiter.empty()) {
    asked.names.add(xml, "Delimiter", asked.query.delimiter);
  }
  xml.add("MaxKeys", asked.query.limit);
  asked.names.add_type(xml);
  xml.add("IsTruncated", yes_or_no(page.truncated));
}

}  // namespace

Result<void> list_objects_v1(Call& call) {
  YARD_TRY(Asked asked, read_query(call));
  asked.query.after = call.target.get("marker");
  YARD_TRY(const s3::ListPage page, call.store.list(call.target.bucket, asked.query));
  s3::XmlWriter xml("ListBucketResult");
  add_query(call, asked, page, xml);
  asked.names.add(xml, "Marker", asked.query.after);
  if (page.truncated) {
    asked.names.add(xml, "NextMarker", page.next_after);
  }
  add_entries(call, page, asked.names, true, xml);
  call.respond_xml(xml);
  return {};
}

Result<void> list_objects_v2(Call& call) {
  if (call.target.get("list-type") != "2") {
    return Error{Code::kInvalidArgument, "list-type is not 2", "argument"};
  }
  YARD_TRY(Asked asked, read_query(call));
  asked.query.after = call.target.get("start-after");
  if (call.target.has("continuation-token")) {
    const auto token = from_hex(call.target.get("continuation-token"));
    if (!token || token->empty()) {
      return Error{Code::kInvalidArgument, "The continuation token provided is incorrect",
                   "argument"};
    }
    asked.query.after = *token;
  }
  YARD_TRY(const s3::ListPage page, call.store.list(call.target.bucket, asked.query));
  s3::XmlWriter xml("ListBucketResult");
  add_query(call, asked, page, xml);
  xml.add("KeyCount", page.objects.size() + page.common_prefixes.size());
  if (call.target.has("start-after")) {
    asked.names.add(xml, "StartAfter", call.target.get("start-after"));
  }
  if (call.target.has("continuation-token")) {
    xml.add("ContinuationToken", call.target.get("continuation-token"));
  }
  if (page.truncated) {
    xml.add("NextContinuationToken", to_hex(page.next_after));
  }
  add_entries(call, page, asked.names, call.target.get("fetch-owner") == "true", xml);
  call.respond_xml(xml);
  return {};
}

}  // namespace trainyard::store
