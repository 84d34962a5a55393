// SPDX-License-Identifier: Apache-2.0
// One control connection between two ranks: framed messages both ways, over TCP or a local socket;
// the latter also carries file descriptors (the segment, buffers of allocate). Non-blocking; its
// owner polls. Used by join (rendezvous/join.h) and then by the watchdog. Children that this
// process forks have no part in it (forks.h).
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "comm/rendezvous/forks.h"
#include "comm/rendezvous/frame.h"

namespace trainyard::comm {

struct ControlMessage {
  Fields fields;
  Fd fd;  // open when one came along
};

class ControlLink {
 public:
  // From someone who may be anyone, messages of up to `most_bytes` are read, until trust().
  explicit ControlLink(Fd fd, std::size_t most_bytes = kMaxFrame)
      : fd_(std::move(fd)), reader_(most_bytes) {}
  ControlLink(ControlLink&&) noexcept = default;
  ControlLink& operator=(ControlLink&&) = delete;
  void trust() { reader_.allow(kMaxFrame); }

  int fd() const { return fd_.get(); }
  // The connection itself, for another protocol; nothing may have arrived after the last message.
  PrivateFd take_fd() { return std::move(fd_); }
  bool has_unsent() const { return !unsent_.empty(); }

  // Queues a message and sends what the connection takes; errors show when receiving. With `passed`
  // (not owned; a duplicate travels) only on a local socket.
  void send(const Fields& fields, int passed = -1);
  void flush();
  // Says that nothing more comes from this side. The other one's last words can still be read, and
  // are: closing with unread words would take back what was sent.
  void finish();

  // What has arrived; of much, a part. An error is the end: kUnavailable when the other side has
  // closed or is unreachable, kExhausted when this one has no descriptor left for one that was
  // sent; what came before it is in `out`.
  Result<void> receive(std::vector<ControlMessage>& out);
  // The next message, waiting for it: kDeadline after `time`.
  Result<ControlMessage> wait(std::chrono::milliseconds time);
  // The next message, if it is there after reading once.
  Result<std::optional<ControlMessage>> look();

 private:
  struct Unsent {
    std::string bytes;
    Fd passed;  // goes with the first byte
  };

  Result<bool> read_some();  // false: nothing there now

  PrivateFd fd_;
  FrameReader reader_;
  std::deque<Fd> arrived_fds_;
  std::deque<ControlMessage> arrived_;
  std::deque<Unsent> unsent_;
};

}  // namespace trainyard::comm
