// SPDX-License-Identifier: Apache-2.0
// What is on its way to one peer: messages in order, over one or several connections. Message m
// goes over connection m % n, whole; the peer reads them in the same turn. Payloads lie in the
// user's memory or in a shared staging buffer, and stay there until the kernel has them, or, when
// they went without a copy (MSG_ZEROCOPY), until it gives them back.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <poll.h>

#include "base/result.h"
#include "comm/rendezvous/forks.h"
#include "comm/rendezvous/sockets.h"
#include "comm/transport/tcp/header.h"

namespace trainyard::comm {

// One payload for several peers; goes back to its pool with the last of them.
using Staging = std::shared_ptr<std::vector<std::byte>>;

class Outlet {
 public:
  // Of so many connections: what is pushed waits until they are there.
  explicit Outlet(std::size_t connections) : lines_(connections) {}
  void attach(std::vector<PrivateFd> connections);
  // True when a host has acknowledged nothing of what was sent to it for kSilence.
  bool is_silent(std::chrono::steady_clock::time_point now);

  // For pump() to send, in order; what is not `is_needed` may be dropped.
  void push(const Label& label, std::span<const std::byte> bytes, Staging staging, bool is_needed);
  // Once nothing can be sent any more: what nobody needs counts as done.
  void drop_unneeded();
  // Goes on sending; an error is the end of the connection.
  Result<void> pump();
  // The payloads are their owners' again: a connection that still has some to give back is reset,
  // so that what they become does not arrive in place of what they were. Nothing is sent after it.
  void give_up();
  bool is_idle() const { return waiting_ == 0; }
  // How many messages have been sent and given back, in order.
  std::uint64_t done() const;
  std::uint64_t pushed() const { return pushed_; }

  // For poll: connections that have something to send, or to give back (which shows as an error).
  void list(std::vector<pollfd>& entries) const;

 private:
  struct Message {
    std::array<std::byte, kHeaderBytes> header;
    std::span<const std::byte> bytes;
    Staging staging;
    std::uint64_t number = 0;
    bool is_needed = true;
    std::size_t sent = 0;             // header included
    std::uint32_t last_copyless = 0;  // number after its last zero-copy send
    bool is_copyless = false;
  };
  struct Line {
    PrivateFd fd;
    SilenceWatch silence;
    bool may_go_without_copy = false;
    std::uint32_t copyless = 0;  // zero-copy sends so far, and given back
    std::uint32_t returned = 0;  // all before it are given back
    std::map<std::uint32_t, std::uint32_t> returned_early;  // ranges after a gap: first, end
    std::deque<Message> queue;                              // not wholly sent
    std::deque<Message> borrowed;                           // sent, not given back
  };

  Result<void> pump(Line& line);
  Result<bool> send_some(Line& line, Message& message);
  void take_back(Line& line);
  void finish(std::uint64_t number);

  std::vector<Line> lines_;
  bool has_given_up_ = false;
  std::uint64_t pushed_ = 0;
  std::size_t waiting_ = 0;
  std::deque<bool> finished_;  // of the messages after done_
  std::uint64_t done_ = 0;
};

}  // namespace trainyard::comm
