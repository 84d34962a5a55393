// SPDX-License-Identifier: Apache-2.0
// Whom a request counts for when the server shares out its workers, from its head alone: the key
// that it claims to be signed with, the network address of an instance, or, for a key that nobody
// has, the address as a whole, so that inventing keys gains nothing. Not verified: a request that
// borrows another's name is refused in its turn.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace trainyard::server {

std::string client_of(const http::Request& request,
                      const std::function<bool(std::string_view)>& is_known_key);

}  // namespace trainyard::server
