// SPDX-License-Identifier: Apache-2.0
// The part of a URL that decides about connections: whom it is for, and whether a proxy may see it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::http {

struct UrlHost {
  std::string origin;       // "http://127.0.0.1:9000"
  bool is_private = false;  // loopback, link-local or private address, or "localhost"
};

// kInvalidArgument for anything but http and https.
Result<UrlHost> host_of(std::string_view url);

}  // namespace trainyard::http
