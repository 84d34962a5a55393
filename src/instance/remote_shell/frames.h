// SPDX-License-Identifier: Apache-2.0
// What travels between the instances of an MPI job, over one TCP connection per conversation:
//
//   byte 0       kind (FrameKind)
//   bytes 1-4    length of the payload, big-endian, at most kMaxPayload
//   bytes 5-...  payload
//
// Pure: bytes in, frames out, however the bytes were cut into pieces. docs/wire.md has the
// conversations; handshake.h says who may have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::instance {

enum class FrameKind : std::uint8_t {
  // Either side is who it says: handshake.h.
  kHello = 1,
  kProof = 2,
  kWelcome = 3,
  // A remote shell.
  kCommand = 10,   // JSON list of words
  kInput = 11,     // bytes for the command's standard input; none: it ends
  kOutput = 12,    // of its standard output
  kErrors = 13,    // of its standard error
  kSignal = 14,    // a number, for the command's process group
  kFinished = 15,  // JSON {"code", "signal"}; the last one
  // The leader watches a worker.
  kWatch = 20,
  kVerdict = 21,  // how the launch has ended: a line of init.h
  // A rank and the leader.
  kRank = 30,   // JSON {"rank", "host"}
  kStart = 31,  // JSON list: the program and its arguments
  kTold = 32,   // the leader has heard how the rank ended
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::string payload;
};

inline constexpr std::size_t kMaxPayload = std::size_t{16} << 20;

std::string encode_frame(FrameKind kind, std::string_view payload);

class FrameReader {
 public:
  void push(std::string_view bytes) { bytes_ += bytes; }
  // The next whole frame, if there is one. kCorrupt: these are not frames.
  Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
};

}  // namespace trainyard::instance
