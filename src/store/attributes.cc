// SPDX-License-Identifier: Apache-2.0
// GetObjectAttributes: what is known of an object, in one answer without its bytes.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kPage = 1'000;
constexpr std::array<std::string_view, 5> kAttributes = {"ETag", "Checksum", "ObjectParts",
                                                         "StorageClass", "ObjectSize"};

class Wanted {
 public:
  static Result<Wanted> read(const http::Headers& headers) {
    Wanted wanted;
    for (const auto& [name, value] : headers.fields()) {
      if (!equal_ignoring_case(name, "x-amz-object-attributes")) {
        continue;
      }
      for (const std::string_view word : split(value, ',')) {
        const std::string_view attribute = trim(word);
        if (std::ranges::find(kAttributes, attribute) == kAttributes.end()) {
          return Error{Code::kInvalidArgument, "Invalid attribute name specified.", "argument"};
        }
        wanted.names_.emplace_back(attribute);
      }
    }
    if (wanted.names_.empty()) {
      return Error{Code::kInvalidArgument,
                   "The x-amz-object-attributes header specifying the attributes to be retrieved "
                   "is either missing or empty",
                   "request"};
    }
    return wanted;
  }

  bool has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

 private:
  std::vector<std::string> names_;
};

void add_checksum(const s3::ObjectInfo& info, s3::XmlWriter& xml) {
  if (info.checksums.empty()) {
    return;
  }
  xml.open("Checksum");
  add_checksums(info.checksums, xml);
  xml.add("ChecksumType", checksum_type(info.checksums.front().composite)).close();
}

// S3 lists the parts one by one only where they have checksums; their number it always says.
Result<void> add_parts(const Call& call, const s3::ObjectInfo& info, s3::XmlWriter& xml) {
  const auto count_of = [&](std::string_view header, std::size_t otherwise, std::size_t most) {
    return parse_count(header, call.headers().get(header), otherwise, most);
  };
  YARD_TRY(const std::size_t limit, count_of("x-amz-max-parts", kPage, kPage));
  YARD_TRY(const std::size_t marker, count_of("x-amz-part-number-marker", 0, info.parts.size()));
  if (info.parts.empty()) {
    return {};
  }
  xml.open("ObjectParts").add("PartsCount", info.parts.size());
  if (!info.parts.front().checksums.empty()) {
    const std::size_t end = std::min(info.parts.size(), marker + limit);
    xml.add("PartNumberMarker", marker).add("NextPartNumberMarker", end);
    xml.add("MaxParts", limit).add("IsTruncated", yes_or_no(end < info.parts.size()));
    for (std::size_t i = marker; i < end; ++i) {
      xml.open("Part").add("PartNumber", i + 1).add("Size", info.parts[i].size);
      add_checksums(info.parts[i].checksums, xml);
      xml.close();
    }
  }
  xml.close();
  return {};
}

}  // namespace

Result<void> get_object_attributes(Call& call) {
  YARD_TRY(const Wanted wanted, Wanted::read(call.headers()));
  YARD_TRY(const s3::ObjectInfo info,
           call.store.head_with_parts(call.target.bucket, call.target.key));
  s3::XmlWriter xml("GetObjectAttributesResponse");
  if (wanted.has("ETag")) {
    xml.add("ETag", info.etag);
  }
  if (wanted.has("Checksum")) {
    add_checksum(info, xml);
  }
  if (wanted.has("ObjectParts")) {
    YARD_TRY(add_parts(call, info, xml));
  }
  if (wanted.has("StorageClass")) {
    xml.add("StorageClass", "STANDARD");
  }
  if (wanted.has("ObjectSize")) {
    xml.add("ObjectSize", info.size);
  }
  http::Headers headers;
  headers.set("Last-Modified", to_http_date(info.last_modified));
  call.respond_xml(xml, std::move(headers));
  return {};
}

}  // namespace trainyard::store
