// SPDX-License-Identifier: Apache-2.0
// The HTTP client on libcurl: blocking calls, connections kept and shared by all threads that use
// one Client. Bodies stream both ways, so memory does not grow with them. It neither retries nor
// signs: the callers that know what is safe to repeat do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "http/message.h"

namespace trainyard::http {

struct ClientRequest {
  std::string method = "GET";
  std::string url;  // http://host:port/path?query, already percent-encoded; sent exactly so
  Headers headers = {};
  std::string body = {};
  // Streams a body of exactly `upload_length` bytes instead of `body`; gives 0 only at the end.
  std::function<Result<std::size_t>(std::span<std::byte>)> upload = {};
  std::uint64_t upload_length = 0;
  // Takes the answer's body as it comes when its status is 2xx; an error aborts the transfer.
  std::function<Result<void>(std::span<const std::byte>)> download = {};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds timeout{0};             // whole call; 0: none
  std::chrono::milliseconds stall_timeout{60'000};  // no byte either way for this long
  std::stop_token stop = {};
  // False: on a new connection, which is closed afterwards. For requests that must reach whoever
  // has the address now, not who had it once.
  bool keep = true;
};

class Client {
 public:
  // Of https:// servers it trusts those whom a certificate in the file `ca_bundle` vouches for, or,
  // without one, the system's.
  static std::unique_ptr<Client> make(std::string ca_bundle = {});
  virtual ~Client() = default;
  // A Response for any status that the server sent; an error (kUnavailable, kDeadline, kCancelled,
  // or what a callback returned) when there was no complete answer.
  virtual Result<Response> send(const ClientRequest& request) = 0;
};

}  // namespace trainyard::http
