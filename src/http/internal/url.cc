// SPDX-License-Identifier: Apache-2.0
#include "http/internal/url.h"

#include <algorithm>
#include <cstdint>

#include <arpa/inet.h>

#include "base/text.h"

namespace trainyard::http {
namespace {

bool is_private_v4(const in_addr& address) {
  const std::uint32_t ip = ntohl(address.s_addr);
  const std::uint32_t first = ip >> 24;
  const std::uint32_t first_two = ip >> 16;
  return first == 127 || first == 10 || (ip >> 20) == 0xAC1 ||  // 172.16.0.0/12
         first_two == 0xC0A8 || first_two == 0xA9FE;            // 192.168/16, 169.254/16
}

bool is_private_v6(const in6_addr& address) {
  const std::uint8_t first = address.s6_addr[0];
  const bool is_link_local = first == 0xFE && (address.s6_addr[1] & 0xC0) == 0x80;
  return IN6_IS_ADDR_LOOPBACK(&address) || is_link_local || (first & 0xFE) == 0xFC;
}

bool is_private(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return is_private_v4(v4);
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return is_private_v6(v6);
  }
  return host == "localhost" || host.ends_with(".localhost");
}

}  // namespace

Result<UrlHost> host_of(std::string_view url) {
  const std::size_t scheme_end = url.find("://");
  const std::string scheme = lower(url.substr(0, std::min(scheme_end, url.size())));
  if (scheme_end == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return Error{Code::kInvalidArgument, "not an http or https URL"};
  }
  const std::string_view rest = url.substr(scheme_end + 3);
  const std::string authority =
      lower(rest.substr(0, std::min(rest.find_first_of("/?#"), rest.size())));
  std::string_view host = authority;
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    host.remove_prefix(at + 1);
  }
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host.empty()) {
    return Error{Code::kInvalidArgument, "a URL without a host"};
  }
  return UrlHost{.origin = scheme + "://" + authority, .is_private = is_private(std::string(host))};
}

}  // namespace trainyard::http
