// SPDX-License-Identifier: Apache-2.0
// GetObject and HeadObject: conditions and ranges are judged on the very version whose bytes are
// sent.
#include <memory>
#include <vector>

#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/conditions.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
// An object may be replaced between the look at its facts and its opening.
constexpr int kOpenings = 20;

constexpr std::pair<std::string_view, std::string_view> kOverrides[] = {
    {"response-content-type", "Content-Type"},
    {"response-content-language", "Content-Language"},
    {"response-expires", "Expires"},
    {"response-cache-control", "Cache-Control"},
    {"response-content-disposition", "Content-Disposition"},
    {"response-content-encoding", "Content-Encoding"},
};

struct Opened {
  s3::ObjectInfo info = {};
  std::optional<s3::ByteRange> range = {};
  std::unique_ptr<s3::ObjectReader> reader = {};  // none for HEAD, and when `verdict` says no
  Verdict verdict = Verdict::kGo;
};

bool is_same(const s3::ObjectInfo& a, const s3::ObjectInfo& b) {
  return a.etag == b.etag && a.last_modified == b.last_modified && a.size == b.size;
}

void respond_unsatisfiable(Call& call, const Error& error, std::uint64_t size) {
  http::Response response =
      S3Service::error_response(error, call.exchange.request().path, call.request_id);
  response.headers.set("Content-Range", "bytes */" + std::to_string(size));
  call.respond(std::move(response));
}

// The bytes that a Range header or a partNumber asks for; empty for all of them.
Result<std::optional<s3::ByteRange>> asked_range(const Call& call, const s3::ObjectInfo& info) {
  const std::string_view header = call.headers().get("Range");
  if (!call.target.has("partNumber")) {
    return may_be_partial(call.headers(), info) ? parse_range(header, info.size)
                                                : std::optional<s3::ByteRange>();
  }
  if (!header.empty()) {
    return Error{Code::kInvalidArgument,
                 "Cannot specify both Range header and partNumber query parameter", "request"};
  }
  YARD_TRY(const int number, part_number(call));
  return range_of_part(info, number);
}

// Empty when the object was replaced meanwhile.
Result<std::optional<Opened>> look_up(Call& call) {
  const std::string& bucket = call.target.bucket;
  const std::string& key = call.target.key;
  const bool by_part = call.target.has("partNumber");
  Opened opened;
  if (call.is_head() || by_part) {
    YARD_TRY(opened.info,
             by_part ? call.store.head_with_parts(bucket, key) : call.store.head(bucket, key));
  }
  if (call.is_head()) {
    return std::optional(std::move(opened));
  }
  YARD_TRY(opened.reader, call.store.get(bucket, key, {}));
  if (!by_part) {
    opened.info = opened.reader->info();
  }
  return is_same(opened.reader->info(), opened.info) ? std::optional(std::move(opened))
                                                     : std::optional<Opened>();
}

// False when the object was replaced since it was looked up. A reader of a file can begin anywhere.
Result<bool> narrow(Call& call, Opened& opened) {
  if (!opened.range || opened.reader == nullptr || opened.reader->local()) {
    return true;
  }
  auto reader = call.store.get(call.target.bucket, call.target.key, opened.range);
  if (!reader) {
    return reader.error().subject == "range" ? Result<bool>(false)
                                             : Result<bool>(std::move(reader).error());
  }
  opened.reader = *std::move(reader);
  return is_same(opened.reader->info(), opened.info);
}

// Judges conditions and range on the same version of the object that is then read. Empty when the
// request has been answered.
Result<std::optional<Opened>> open_object(Call& call) {
  for (int i = 0; i < kOpenings; ++i) {
    YARD_TRY(auto found, look_up(call));
    if (!found) {
      continue;
    }
    Opened opened = *std::move(found);
    opened.verdict = judge(call.headers(), "", opened.info);
    if (opened.verdict != Verdict::kGo) {
      return std::optional(std::move(opened));
    }
    auto range = asked_range(call, opened.info);
    if (!range && range.error().subject == "range") {
      respond_unsatisfiable(call, range.error(), opened.info.size);
      return std::optional<Opened>();
    }
    if (!range) {
      return std::move(range).error();
    }
    opened.range = *range;
    YARD_TRY(const bool is_ready, narrow(call, opened));
    if (is_ready) {
      return std::optional(std::move(opened));
    }
  }
  return Error{Code::kUnavailable, "the object is being replaced all the time"};
}

http::Response describe(const Call& call, const Opened& opened) {
  const s3::ObjectInfo& info = opened.info;
  http::Response head;
  head.headers.set("Content-Type", "binary/octet-stream");
  s3::write_object_headers(info.content_type, info.headers, head.headers);
  head.headers.set("ETag", s3::quote_etag(info.etag));
  head.headers.set("Last-Modified", to_http_date(info.last_modified));
  head.headers.set("Accept-Ranges", "bytes");
  for (const auto& [parameter, header] : kOverrides) {
    if (call.target.has(parameter)) {
      head.headers.set(header, std::string(call.target.get(parameter)));
    }
  }
  const bool is_whole = !opened.range || opened.range->last - opened.range->first + 1 == info.size;
  // Clients hold any body against these, even the absent one of a 304.
  const bool is_sent = is_whole && opened.verdict == Verdict::kGo;
  if (call.headers().get("x-amz-checksum-mode") == "ENABLED" && is_sent) {
    describe_checksums(info.checksums, head.headers);
  }
  if (!info.tags.empty()) {
    head.headers.set("x-amz-tagging-count", std::to_string(info.tags.size()));
  }
  if (call.target.has("versionId")) {
    head.headers.set("x-amz-version-id", "null");
  }
  if (call.target.has("partNumber") && !info.parts.empty()) {
    head.headers.set("x-amz-mp-parts-count", std::to_string(info.parts.size()));
  }
  if (opened.range) {
    head.status = 206;
    head.headers.set("Content-Range", "bytes " + std::to_string(opened.range->first) + "-" +
                                          std::to_string(opened.range->last) + "/" +
                                          std::to_string(info.size));
  }
  return head;
}

Result<void> send_all(Call& call, std::uint64_t length, s3::ObjectReader& reader) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kBuffer, length));
  while (length > 0) {
    YARD_TRY(const std::size_t got, reader.read(buffer));
    if (got == 0) {
      return Error{Code::kCorrupt, "the object is shorter than announced"};
    }
    YARD_TRY(call.exchange.write(std::span(buffer).first(got)));
    length -= got;
  }
  return {};
}

Result<void> send(Call& call, http::Response head, std::uint64_t length, const Opened& opened) {
  YARD_TRY(call.start(std::move(head), length));
  if (const auto local = opened.reader->local(); local) {
    const std::uint64_t first = opened.range ? opened.range->first : 0;
    YARD_TRY(call.exchange.send_file(local->fd, local->offset + first, length));
  } else {
    YARD_TRY(send_all(call, length, *opened.reader));
  }
  return call.exchange.finish();
}

}  // namespace

Result<void> get_object(Call& call) {
  YARD_TRY(auto opened, open_object(call));
  if (!opened) {
    return {};
  }
  if (opened->verdict == Verdict::kPreconditionFailed) {
    return Error{Code::kConflict, "At least one of the pre-conditions you specified did not hold",
                 "precondition"};
  }
  http::Response head = describe(call, *opened);
  if (opened->verdict == Verdict::kNotModified) {
    head.status = 304;
    head.headers.remove("Content-Type");
    call.respond(std::move(head));
    return {};
  }
  const std::uint64_t length =
      opened->range ? opened->range->last - opened->range->first + 1 : opened->info.size;
  if (call.is_head()) {
    head.headers.set("Content-Length", std::to_string(length));
    call.respond(std::move(head));
    return {};
  }
  return send(call, std::move(head), length, *opened);
}

}  // namespace trainyard::store
