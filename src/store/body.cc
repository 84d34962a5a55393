// SPDX-License-Identifier: Apache-2.0
#include "store/body.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kWireBuffer = std::size_t{256} << 10;

Error bad_request(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), "request"};
}

// Who reads the wire calls it corrupt; to the store that word says that its disk has failed.
Error fault_of_client(Error error) {
  return error.code == Code::kCorrupt
             ? Error{Code::kInvalidArgument, std::move(error.message), "chunk"}
             : error;
}

}  // namespace

Result<std::size_t> read_wire(http::Exchange& exchange, std::span<std::byte> out) {
  Result<std::size_t> got = exchange.read_body(out);
  return got ? got : Result<std::size_t>(fault_of_client(std::move(got).error()));
}

std::string without_aws_chunked(std::string_view content_encoding) {
  std::vector<std::string> kept;
  for (const std::string_view part : split(content_encoding, ',')) {
    if (!trim(part).empty() && !equal_ignoring_case(trim(part), "aws-chunked")) {
      kept.emplace_back(trim(part));
    }
  }
  return join(kept, ", ");
}

Result<std::unique_ptr<Body>> Body::open(Call& call, ChecksumsOf of) {
  std::unique_ptr<Body> body(new Body(call));
  YARD_TRY(body->read_headers(of));
  return body;
}

Result<void> Body::read_headers(ChecksumsOf of) {
  const http::Headers& headers = call_.headers();
  if (const std::string* md5 = headers.find("Content-MD5")) {
    const auto raw = from_base64(*md5);
    if (!raw || raw->size() != 16) {
      return Error{Code::kInvalidArgument, "Content-MD5 is not an MD5 in base64", "content-md5"};
    }
    promised_.expected_md5 = *raw;
  }
  if (of == ChecksumsOf::kBody) {
    promised_.expected = s3::read_checksums(headers);
  }
  for (const s3::Checksum& checksum : promised_.expected) {
    const auto raw = from_base64(checksum.base64);
    if (!raw || raw->size() != hash_of(checksum.kind, "").size()) {
      return bad_request("Value for " + s3::checksum_header(checksum.kind) + " header is invalid.");
    }
  }
  if (const auto kind = s3::checksum_kind(headers.get("x-amz-sdk-checksum-algorithm"))) {
    promised_.compute.push_back(*kind);
  }
  const std::string& payload = call_.verified.payload_hash;
  if (payload.starts_with("STREAMING-")) {
    return read_chunked_headers();
  }
  if (payload != http::kUnsignedPayload && !payload.empty()) {
    promised_.expected_sha256 = payload;
  }
  promised_.length = call_.exchange.body_length();
  return {};
}

Result<void> Body::read_chunked_headers() {
  const http::Headers& headers = call_.headers();
  const auto length = parse_int(headers.get("x-amz-decoded-content-length"));
  if (!length || *length < 0) {
    return Error{Code::kInvalidArgument, "x-amz-decoded-content-length is missing",
                 "missing-length"};
  }
  promised_.length = static_cast<std::uint64_t>(*length);
  for (const std::string_view part : split(headers.get("x-amz-trailer"), ',')) {
    if (trim(part).empty()) {
      continue;
    }
    const auto kind = s3::checksum_kind_of_header(trim(part));
    if (!kind) {
      return bad_request("x-amz-trailer names '" + std::string(trim(part)) +
                         "', which is not a checksum");
    }
    promised_.compute.push_back(*kind);
    announced_.push_back(*kind);
  }
  decoder_ = std::make_unique<http::AwsChunkedDecoder>(call_.verified);
  promised_.expected_at_end = [this] { return trailing_checksums(); };
  wire_.resize(kWireBuffer);
  return {};
}

void Body::promise(s3::PutOptions& options) {
  options.expected = promised_.expected;
  options.compute.insert(options.compute.end(), promised_.compute.begin(), promised_.compute.end());
  options.expected_md5 = promised_.expected_md5;
  options.expected_sha256 = promised_.expected_sha256;
  options.expected_at_end = promised_.expected_at_end;
  options.length = promised_.length;
}

s3::ByteSource Body::source() {
  return [this](std::span<std::byte> out) { return read(out); };
}

Result<std::size_t> Body::read(std::span<std::byte> out) {
  return decoder_ == nullptr ? read_wire(call_.exchange, out) : read_chunked(out);
}

Result<std::size_t> Body::read_chunked(std::span<std::byte> out) {
  while (!decoder_->is_done()) {
    if (begin_ == end_) {
      YARD_TRY(end_, read_wire(call_.exchange, wire_));
      begin_ = 0;
      if (end_ == 0) {
        return Error{Code::kInvalidArgument, "the body ends before its last chunk", "chunk"};
      }
    }
    const auto wire = std::span<const std::byte>(wire_).subspan(begin_, end_ - begin_);
    auto step = decoder_->decode(wire, out);
    if (!step) {
      return fault_of_client(std::move(step).error());
    }
    begin_ += step->consumed;
    if (step->produced > 0) {
      return step->produced;
    }
  }
  return std::size_t{0};
}

Result<std::vector<s3::Checksum>> Body::trailing_checksums() const {
  std::vector<s3::Checksum> found = s3::read_checksums(decoder_->trailer());
  for (const HashKind kind : announced_) {
    if (std::ranges::find(found, kind, &s3::Checksum::kind) == found.end()) {
      return Error{Code::kInvalidArgument,
                   "the trailer lacks " + s3::checksum_header(kind) + ", which x-amz-trailer names",
                   "trailer"};
    }
  }
  return found;
}

Result<std::string> Body::read_text(std::size_t limit) {
  s3::PutOptions options;
  promise(options);
  s3::Digester digester(options);
  std::string text;
  std::vector<std::byte> buffer(std::size_t{64} << 10);
  while (true) {
    YARD_TRY(const std::size_t got, read(buffer));
    if (got == 0) {
      break;
    }
    if (text.size() + got > limit) {
      return Error{Code::kExhausted, "the body is longer than " + human_bytes(limit), "body"};
    }
    const auto bytes = std::span<const std::byte>(buffer).first(got);
    digester.update(bytes);
    text.append(reinterpret_cast<const char*>(bytes.data()), got);
  }
  YARD_TRY(const auto digests, digester.finish());
  // What follows changes something, and the body may have taken long.
  YARD_TRY(call_.still_holds());
  return text;
}

}  // namespace trainyard::store
