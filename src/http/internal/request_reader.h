// SPDX-License-Identifier: Apache-2.0
// Turns the bytes of one request into its head and, for chunked bodies, its payload. Pure: bytes
// come in, values go out. It refuses every head whose framing two parsers could read differently
// (RFC 9112, section 6). Bodies with a Content-Length need no parsing and do not pass through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace trainyard::http {

inline constexpr std::size_t kMaxHead = std::size_t{64} << 10;

// What the head says about the rest of the exchange.
struct Framing {
  std::optional<std::uint64_t> content_length = 0;  // empty: chunked
  bool keeps_alive = false;
  bool expects_continue = false;
  bool is_http10 = false;
};

class RequestReader {
 public:
  RequestReader();
  ~RequestReader();

  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };

  // Call until is_head_done(), each time with what has not been consumed. kExhausted when the head
  // is longer than kMaxHead, kUnimplemented for an unknown transfer coding, else kInvalidArgument.
  Result<std::size_t> read_head(std::string_view wire);
  bool is_head_done() const;
  // Once, when the head is done.
  Request take_request();
  const Framing& framing() const;

  // The payload of a chunked body; trailers are read and dropped. kCorrupt for a bad frame.
  Result<Step> read_chunked(std::string_view wire, std::span<std::byte> out);
  bool is_chunked_done() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The status that answers an error of read_head().
int status_of(const Error& error);

}  // namespace trainyard::http
