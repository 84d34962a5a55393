// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/conditions.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

// The source may be replaced between the look at its facts and the copy.
constexpr int kLookUps = 20;

Result<Target> read_source(const Call& call) {
  YARD_TRY(Target source, parse_copy_source(call.headers().get("x-amz-copy-source")));
  const std::string_view owner = call.headers().get("x-amz-source-expected-bucket-owner");
  if (!owner.empty() && owner != call.options.account_id) {
    return Error{Code::kDenied, "Access Denied: the source bucket has another owner", "access"};
  }
  return source;
}

// Both of "not modified" and "failed" refuse a copy.
Result<void> check_source(const Call& call, const s3::ObjectInfo& info) {
  if (judge(call.headers(), "x-amz-copy-source-", info) == Verdict::kGo) {
    return {};
  }
  return Error{Code::kConflict, "At least one of the pre-conditions you specified did not hold",
               "precondition"};
}

// COPY, which nothing says, or REPLACE.
Result<bool> is_replaced(const Call& call, std::string_view header) {
  const std::string_view directive = call.headers().get(header, "COPY");
  if (directive != "REPLACE" && directive != "COPY") {
    return Error{Code::kInvalidArgument, std::string(header) + " is neither COPY nor REPLACE",
                 "argument"};
  }
  return directive == "REPLACE";
}

// A checksum that the copy is to have and that the source has not.
Result<std::vector<HashKind>> wanted_checksum(const Call& call, const s3::ObjectInfo& info) {
  const std::string* const algorithm = call.headers().find("x-amz-checksum-algorithm");
  if (algorithm == nullptr) {
    return std::vector<HashKind>();
  }
  const auto kind = s3::checksum_kind(*algorithm);
  if (!kind) {
    return Error{Code::kInvalidArgument, "Checksum algorithm provided is unsupported", "request"};
  }
  const bool has_it = std::ranges::any_of(info.checksums, [&](const s3::Checksum& checksum) {
    return checksum.kind == *kind && !checksum.composite;
  });
  return has_it ? std::vector<HashKind>() : std::vector<HashKind>{*kind};
}

Error source_replaced() {
  return Error{Code::kConflict, "the source was replaced while it was copied", "source"};
}

// Reads the source where its bytes must be hashed; otherwise the store copies by itself.
Result<s3::ObjectInfo> copy_source(Call& call, const Target& source,
                                   const s3::PutOptions& options) {
  if (options.compute.empty()) {
    return call.store.copy(source.bucket, source.key, call.target.bucket, call.target.key, options);
  }
  YARD_TRY(auto reader, call.store.get(source.bucket, source.key, {}));
  if (reader->info().etag != options.source_etag) {
    return source_replaced();
  }
  return call.store.put(
      call.target.bucket, call.target.key,
      [&reader](std::span<std::byte> out) { return reader->read(out); }, options);
}

// What the copy is to have: the source's headers and tags, or those of the request.
Result<s3::PutOptions> read_replacement(const Call& call, const Target& source,
                                        const s3::ObjectInfo& info) {
  YARD_TRY(s3::PutOptions options, read_write_headers(call));
  options.before_visible = [&call] { return call.still_holds(); };
  options.source_etag = info.etag;
  YARD_TRY(const bool new_tags, is_replaced(call, "x-amz-tagging-directive"));
  if (!new_tags) {
    options.tags = info.tags;
  }
  YARD_TRY(options.compute, wanted_checksum(call, info));
  YARD_TRY(const bool new_headers, is_replaced(call, "x-amz-metadata-directive"));
  if (new_headers) {
    return options;
  }
  http::Headers encryption;
  echo_encryption(options, encryption);
  const bool changes = !encryption.fields().empty() || new_tags || !options.compute.empty();
  if (!changes && source.bucket == call.target.bucket && source.key == call.target.key) {
    return Error{Code::kInvalidArgument,
                 "This copy request is illegal because it is trying to copy an object to itself "
                 "without changing the object's metadata, tags, checksum or encryption attributes",
                 "request"};
  }
  options.content_type = info.content_type;
  options.headers = info.headers;
  for (const auto& [name, value] : encryption.fields()) {
    options.headers[name] = value;
  }
  return options;
}

// kConflict, subject "source", when the source is another than that which was looked at.
Result<s3::ObjectInfo> copy_once(Call& call, const Target& source) {
  YARD_TRY(const s3::ObjectInfo info, call.store.head(source.bucket, source.key));
  YARD_TRY(check_source(call, info));
  YARD_TRY(const s3::PutOptions options, read_replacement(call, source, info));
  return copy_source(call, source, options);
}

// "bytes=first-last", both given, both inside the object.
Result<s3::ByteRange> read_source_range(std::string_view header, std::uint64_t size) {
  YARD_TRY(const auto range, parse_range(header, size));
  if (!range ||
      header != "bytes=" + std::to_string(range->first) + "-" + std::to_string(range->last)) {
    return Error{Code::kInvalidArgument,
                 "The x-amz-copy-source-range value must be of the form bytes=first-last where "
                 "first and last are the zero-based offsets of the first and last bytes to copy",
                 "argument"};
  }
  return *range;
}

void respond_copied(Call& call, std::string_view element, std::string_view etag, WallTime time,
                    const std::vector<s3::Checksum>& checksums) {
  s3::XmlWriter xml(element);
  xml.add("LastModified", xml_time(time)).add("ETag", s3::quote_etag(etag));
  add_checksums(checksums, xml);
  call.respond_xml(xml);
}

}  // namespace

Result<void> copy_object(Call& call) {
  YARD_TRY(const Target source, read_source(call));
  for (int i = 0; i < kLookUps; ++i) {
    const auto copied = copy_once(call, source);
    if (copied) {
      respond_copied(call, "CopyObjectResult", copied->etag, copied->last_modified,
                     copied->checksums);
      return {};
    }
    if (copied.error().subject != "source") {
      return copied.error();
    }
  }
  return source_replaced();
}

Result<void> upload_part_copy(Call& call) {
  YARD_TRY(const int number, part_number(call));
  YARD_TRY(const Target source, read_source(call));
  YARD_TRY(auto reader, call.store.get(source.bucket, source.key, {}));
  YARD_TRY(check_source(call, reader->info()));
  std::uint64_t length = reader->info().size;
  if (const std::string* header = call.headers().find("x-amz-copy-source-range")) {
    YARD_TRY(const s3::ByteRange range, read_source_range(*header, length));
    const std::string etag = reader->info().etag;
    YARD_TRY(reader, call.store.get(source.bucket, source.key, range));
    if (reader->info().etag != etag) {
      return source_replaced();
    }
    length = range.last - range.first + 1;
  }
  const s3::PutOptions options{.length = length};
  YARD_TRY(const s3::PartInfo part,
           call.store.put_part(
               call.target.bucket, call.target.key,
               {.upload_id = std::string(call.target.get("uploadId")), .number = number},
               [&reader](std::span<std::byte> out) { return reader->read(out); }, options));
  respond_copied(call, "CopyPartResult", part.etag, part.last_modified, part.checksums);
  return {};
}

}  // namespace trainyard::store
