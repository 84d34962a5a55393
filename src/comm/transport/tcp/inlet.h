// SPDX-License-Identifier: Apache-2.0
// What comes from one peer: its messages in order, read from its connections in turn. One message
// at a time is read, when it is asked for: what follows waits in the kernel, which slows the sender
// down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/forks.h"
#include "comm/transport/tcp/header.h"

namespace trainyard::comm {

class Inlet {
 public:
  explicit Inlet(std::size_t max_message) : max_message_(max_message) {}

  // A connection from the peer, of `count` that it opens.
  void add(std::uint32_t index, std::uint32_t count, PrivateFd fd);
  // Reads what is there of the next message, into `into` when that has its size. True when it is
  // whole. kUnavailable: the connection is at its end. kCorrupt: not our bytes, or too long.
  Result<bool> read(std::span<std::byte> into);
  const Inbound& message() const { return inbound_; }
  void release();

  // The descriptor that the next message comes from, or -1.
  int fd() const;

 private:
  Result<bool> read_header();

  std::size_t max_message_;
  std::vector<PrivateFd> lines_;
  std::uint64_t turn_ = 0;

  std::array<std::byte, kHeaderBytes> header_ = {};
  std::size_t header_read_ = 0;
  std::size_t payload_read_ = 0;
  std::vector<std::byte> buffer_;
  std::span<std::byte> target_;
  Inbound inbound_;
  bool is_whole_ = false;
};

}  // namespace trainyard::comm
