// SPDX-License-Identifier: Apache-2.0
#include "server/gateways.h"

#include <fmt/format.h>

#include "server/api_face.h"

namespace trainyard::server {

std::string base_url(const std::string& address, std::uint16_t port, std::string_view scheme) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", scheme, is_ipv6 ? "[" : "", address, is_ipv6 ? "]" : "",
                     port);
}

Result<std::string> Gateways::open(const std::string& address, std::uint16_t port) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = ports_.find(address); known != ports_.end()) {
      return base_url(address, known->second);
    }
  }
  YARD_TRY(const std::uint16_t bound, http_.listen(address, port, std::string(kGatewayTag)));
  const MutexLock lock(mutex_);
  ports_[address] = bound;
  return base_url(address, bound);
}

void Gateways::close(const std::string& address) {
  std::uint16_t port = 0;
  {
    const MutexLock lock(mutex_);
    const auto known = ports_.find(address);
    if (known == ports_.end()) {
      return;
    }
    port = known->second;
    ports_.erase(known);
  }
  http_.unlisten(address, port);
}

}  // namespace trainyard::server
