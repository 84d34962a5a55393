// SPDX-License-Identifier: Apache-2.0
// Whom a request counts for when the server shares out its workers, from its head alone: the key
// that it claims to be signed with, or the network address of an instance. All who name neither are
// strangers, and together one client (those under /yard/ another): inventing keys or having many
// addresses gains nothing. Not verified: a request that borrows another's name is refused in its
// turn.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace trainyard::server {

// Whether the server knows what a request names, before anything is proven. All threads.
struct Known {
  std::function<bool(std::string_view access_key_id)> key;
  std::function<bool(const http::Request&)> instance;
};

std::string client_of(const http::Request& request, const Known& known);

}  // namespace trainyard::server
