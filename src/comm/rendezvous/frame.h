// SPDX-License-Identifier: Apache-2.0
// Messages of the control connections and of the store: lists of byte strings, framed. Anyone may
// connect to a listening port, so a reader trusts nothing: not the first bytes, not a length.
//
//   0        3         4          8
//   +--------+---------+----------+---------------------------------+
//   | "TYC"  | version | length n | n bytes: (u32 length, bytes) ...|
//   +--------+---------+----------+---------------------------------+   integers little-endian
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::comm {

// Raised also when ranks would take other steps than before for the same operation.
inline constexpr std::uint8_t kProtocolVersion = 2;
inline constexpr std::size_t kMaxFrame = std::size_t{4} << 20;

using Fields = std::vector<std::string>;

std::string encode_frame(const Fields& fields, std::uint8_t version = kProtocolVersion);

class FrameReader {
 public:
  FrameReader() = default;
  // Longer messages than `most` are not ours.
  explicit FrameReader(std::size_t most) : most_(most) {}
  void allow(std::size_t most) { most_ = most; }

  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole message, if it is there. kCorrupt: this is not our protocol. kConflict: another
  // version of it; the message names both. After an error the connection is of no use.
  Result<std::optional<Fields>> next();

 private:
  std::size_t most_ = kMaxFrame;
  std::string buffer_;
  std::size_t start_ = 0;
};

}  // namespace trainyard::comm
