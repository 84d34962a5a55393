// SPDX-License-Identifier: Apache-2.0
// How the bytes of one connection travel: over the socket as they are, or sealed
// (tls_transport.cc). Every call does what can be done at once and never waits; the connection
// waits, for what the step says. One owner at a time, like the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace trainyard::http {

// Under TLS either direction may have to wait for the other.
enum class Io { kDone, kNeedsInput, kNeedsRoom, kClosed };

struct IoStep {
  Io io = Io::kDone;
  std::size_t count = 0;
};

// A part of an open file. Borrowed.
struct FilePart {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Whether open() has to be done before anything else.
  virtual bool is_handshaking() const { return false; }
  virtual IoStep open() { return {}; }
  virtual IoStep receive(std::span<char> out) = 0;
  // Some of `head` followed by `body`.
  virtual IoStep transmit(std::string_view head, std::string_view body) = 0;
  // Some of the part's beginning. An error is the file's: kCorrupt when it ends before the part
  // does.
  virtual Result<IoStep> transmit_file(const FilePart& part) = 0;
  // Whether `out` of another receive() could be had although the socket has nothing to read.
  virtual bool has_received_more() const { return false; }
  // Tells the peer, where there is a way, that nothing more will be sent.
  virtual void end() {}
};

// Over `socket`, a non-blocking descriptor that outlives it.
std::unique_ptr<Transport> plain_transport(int socket);

// transmit_file() by reading and transmitting up to 16 KiB, where nothing better works.
Result<IoStep> copy_file_part(Transport& to, const FilePart& part);

}  // namespace trainyard::http
