// SPDX-License-Identifier: Apache-2.0
#include "server/client_of.h"

#include <algorithm>

namespace trainyard::server {
namespace {

// "127.0.0.1" of "127.0.0.1:41234", "[::1]" of "[::1]:41234".
std::string_view address_of(std::string_view peer) {
  return peer.substr(0, peer.rfind(':'));
}

// What stands behind `name` up to the first of `ends`; empty when the name is not there.
std::string_view value_behind(std::string_view text, std::string_view name, std::string_view ends) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = text.substr(at + name.size());
  return rest.substr(0, std::min(rest.size(), rest.find_first_of(ends)));
}

// The access key of version 4 in the header or the query, or of version 2 in the query.
std::string_view claimed_key(const http::Request& request) {
  const std::string_view header = request.headers.get("Authorization");
  if (!header.empty()) {
    return value_behind(header, "Credential=", "/, ");
  }
  const std::string_view key = value_behind(request.query, "X-Amz-Credential=", "/%&");
  return key.empty() ? value_behind(request.query, "AWSAccessKeyId=", "&") : key;
}

}  // namespace

std::string client_of(const http::Request& request, const Known& known) {
  constexpr const char* kStrangers = "strangers";  // no address
  const std::string address(address_of(request.peer));
  if (const std::string_view key = claimed_key(request); !key.empty() && known.key(key)) {
    return address + " " + std::string(key);
  }
  if (request.path.starts_with("/yard/")) {
    return (known.instance(request) ? address : kStrangers) + " yard";
  }
  return kStrangers;
}

}  // namespace trainyard::server
