// SPDX-License-Identifier: Apache-2.0
// ListObjectVersions of buckets that never had versioning: each object is its only version, whose
// id is "null". Tools that empty a bucket ask for this list.
#include "s3/object_headers.h"
#include "store/handlers.h"
#include "store/listing_names.h"

namespace trainyard::store {

Result<void> list_object_versions(Call& call) {
  YARD_TRY(const ListingNames names, ListingNames::asked_for_by(call));
  YARD_TRY(const std::size_t limit, call.target.count("max-keys", kListingPage, kListingPage));
  const s3::ListQuery query{.prefix = std::string(call.target.get("prefix")),
                            .delimiter = std::string(call.target.get("delimiter")),
                            .after = std::string(call.target.get("key-marker")),
                            .limit = limit};
  YARD_TRY(const s3::ListPage page, call.store.list(call.target.bucket, query));
  s3::XmlWriter xml("ListVersionsResult");
  xml.add("Name", call.target.bucket);
  names.add(xml, "Prefix", query.prefix);
  names.add(xml, "KeyMarker", query.after);
  xml.add("VersionIdMarker", call.target.get("version-id-marker"));
  if (page.truncated) {
    names.add(xml, "NextKeyMarker", page.next_after);
    xml.add("NextVersionIdMarker", "null");
  }
  if (!query.delimiter.empty()) {
    names.add(xml, "Delimiter", query.delimiter);
  }
  xml.add("MaxKeys", limit);
  names.add_type(xml);
  xml.add("IsTruncated", yes_or_no(page.truncated));
  for (const s3::ObjectInfo& object : page.objects) {
    xml.open("Version");
    names.add(xml, "Key", object.key);
    xml.add("VersionId", "null").add("IsLatest", "true");
    xml.add("LastModified", xml_time(object.last_modified));
    xml.add("ETag", s3::quote_etag(object.etag)).add("Size", object.size);
    xml.open("Owner").add("ID", call.options.account_id).close();
    xml.add("StorageClass", "STANDARD").close();
  }
  names.add_prefixes(xml, page.common_prefixes);
  call.respond_xml(xml);
  return {};
}

}  // namespace trainyard::store
