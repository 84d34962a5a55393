// SPDX-License-Identifier: Apache-2.0
// The head of an answer as bytes. Pure; the connection sends them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/message.h"

namespace trainyard::http {

// How the body that follows is delimited.
struct BodyForm {
  std::optional<std::uint64_t> length;  // Content-Length, when it is known
  bool is_chunked = false;
  bool keeps_alive = true;
  bool is_http10 = false;
};

// Status line and headers with the empty line. Content-Length, Transfer-Encoding, Connection, Date
// and Server are ours: such fields of `headers` are left out. Control characters in values become
// blanks, so that no value can end its line.
std::string response_head(int status, const Headers& headers, const BodyForm& form, WallTime now);

// 1xx, 204 and 304 never have a body.
bool has_no_body(int status);

}  // namespace trainyard::http
