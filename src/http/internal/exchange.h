// SPDX-License-Identifier: Apache-2.0
// The server's Exchange: the answer's grammar (once, whole or in pieces, nothing for HEAD) over a
// connection that does the I/O.
#pragma once

#include <memory>

#include "http/message.h"
#include "http/server.h"

namespace trainyard::http {

class Connection;

std::unique_ptr<Exchange> make_exchange(std::shared_ptr<Connection> connection, Request request);

}  // namespace trainyard::http
