// SPDX-License-Identifier: Apache-2.0
// The listeners on the gateway addresses of jobs' networks, which an engine opens and closes. What
// comes in by them is tagged, so that the router serves less there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"
#include "http/server.h"

namespace trainyard::server {

// Thread-safe.
class Gateways {
 public:
  explicit Gateways(http::Server& http) : http_(http) {}  // borrowed for life

  // Listens there, on any port when it is 0, and gives the base URL. The same answer again for an
  // address that is open.
  Result<std::string> open(const std::string& address, std::uint16_t port);
  void close(const std::string& address);

 private:
  http::Server& http_;
  Mutex mutex_;
  std::map<std::string, std::uint16_t> ports_ GUARDED_BY(mutex_);
};

// "http://10.77.0.1:8321", with brackets where the address is IPv6.
std::string base_url(const std::string& address, std::uint16_t port,
                     std::string_view scheme = "http");

}  // namespace trainyard::server
