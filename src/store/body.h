// SPDX-License-Identifier: Apache-2.0
// A request's body as the store takes it: decoded from aws-chunked where that is used, with all
// that the headers promise about it (length, MD5, SHA-256 of the signature, checksums in headers or
// trailers) as PutOptions, which the store checks before anything becomes visible.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/aws_chunked.h"
#include "s3/object_store.h"
#include "store/call.h"

namespace trainyard::store {

// The next bytes of a request's body, not decoded from aws-chunked. Chunks of HTTP that are broken
// are the client's fault: kInvalidArgument, subject "chunk".
Result<std::size_t> read_wire(http::Exchange& exchange, std::span<std::byte> out);

class Body {
 public:
  // x-amz-checksum-* headers speak of the body, except where an upload is completed: there they
  // speak of the object, and are left to the caller.
  enum class ChecksumsOf { kBody, kObject };

  // Borrows `call` for life. Nothing is read yet: a client that waits for "100 Continue" still
  // does.
  static Result<std::unique_ptr<Body>> open(Call& call, ChecksumsOf of = ChecksumsOf::kBody);

  s3::ByteSource source();
  // Adds what was promised. The options may not outlive the body.
  void promise(s3::PutOptions& options);

  // The whole body, checked; kExhausted, subject "body", when it is longer; kDenied when the key
  // that has signed the request was revoked while the body came.
  Result<std::string> read_text(std::size_t limit);

 private:
  explicit Body(Call& call) : call_(call) {}
  Result<void> read_headers(ChecksumsOf of);
  Result<void> read_chunked_headers();
  Result<std::size_t> read(std::span<std::byte> out);
  Result<std::size_t> read_chunked(std::span<std::byte> out);
  Result<std::vector<s3::Checksum>> trailing_checksums() const;

  Call& call_;
  s3::PutOptions promised_;
  std::vector<HashKind> announced_;  // checksums that the trailer must bring
  std::unique_ptr<http::AwsChunkedDecoder> decoder_;
  std::vector<std::byte> wire_;  // what the decoder has not taken yet is [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// The value of Content-Encoding without "aws-chunked", which is of the transfer, not of the object.
std::string without_aws_chunked(std::string_view content_encoding);

}  // namespace trainyard::store
