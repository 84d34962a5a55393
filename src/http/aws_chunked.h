// SPDX-License-Identifier: Apache-2.0
// The aws-chunked content encoding: S3 bodies cut into chunks with, each, a size, an optional
// signature that continues the request's, and optional trailing headers (checksums). A push
// parser: it is given wire bytes and hands on payload bytes; it does no I/O.
//
//   <hex size>[;chunk-signature=<64 hex>]\r\n <size bytes> \r\n ... 0[;...]\r\n [name:value\r\n...]
//   \r\n
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "http/message.h"
#include "http/sigv4.h"

namespace trainyard::http {

class AwsChunkedDecoder {
 public:
  // `verified.payload_hash` says whether chunks are signed and whether a trailer follows.
  explicit AwsChunkedDecoder(const Verified& verified);
  AwsChunkedDecoder(AwsChunkedDecoder&&) noexcept;
  ~AwsChunkedDecoder();

  struct Step {
    std::size_t consumed = 0;  // of `wire`
    std::size_t produced = 0;  // into `out`
  };
  // Takes some of `wire`, gives some payload. kCorrupt for a bad frame, kDenied (subject
  // "signature") for a chunk or trailer whose signature does not match.
  Result<Step> decode(std::span<const std::byte> wire, std::span<std::byte> out);

  bool is_done() const;            // the final chunk and its trailer have been seen
  const Headers& trailer() const;  // valid once is_done()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::http
