// SPDX-License-Identifier: Apache-2.0
// What stands before the payload of a message on a data connection. A connection carries messages
// one way, from the rank that opened it; it begins with the greeting of acceptor.h.
//
//   0          4             8            16              32
//   +----------+-------------+------------+---------------+--------------------+
//   | "TYm" 1  | payload n   | sequence   | signature     | n bytes of payload |
//   +----------+-------------+------------+---------------+--------------------+   little-endian
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "comm/transport/transport.h"

namespace trainyard::comm {

inline constexpr std::size_t kHeaderBytes = 32;

struct MessageHeader {
  Label label;
  std::size_t bytes = 0;
};

std::array<std::byte, kHeaderBytes> encode(const MessageHeader& header);
// Nothing when this is no header.
std::optional<MessageHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace trainyard::comm
