// SPDX-License-Identifier: Apache-2.0
// One authenticated conversation in frames, and the two ways to begin one. One thread uses it.
// After an error it is dead. A peer whose machine has vanished is noticed within kPeerSilence.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "instance/remote_shell/frames.h"

namespace trainyard::instance {

inline constexpr Duration kPeerSilence{10'000};
inline constexpr Duration kHandshakePatience{5'000};

class Connection {
 public:
  explicit Connection(Fd socket);

  int fd() const { return socket_.get(); }
  Result<void> send(FrameKind kind, std::string_view payload = {});
  // Waits for the next frame: kDeadline when the time is over, kCancelled on `stop`, kUnavailable
  // when the peer has gone.
  Result<Frame> next(Duration time, const std::stop_token& stop = {});

  // For a poll loop. fill() takes what has arrived without waiting; false: the peer has gone.
  // take() gives frames one by one.
  Result<bool> fill();
  Result<std::optional<Frame>> take() { return reader_.next(); }

 private:
  Fd socket_;
  FrameReader reader_;
};

struct Endpoint {
  std::string address;  // IPv4
  std::uint16_t port = 0;
};

// A connected socket, before anything is proven. kUnavailable: nobody listens there yet.
Result<Fd> connect_to(const Endpoint& endpoint);
// Connects and proves itself. kUnavailable: nobody listens there yet; kDenied: wrong secret.
Result<Connection> dial(const Endpoint& endpoint, std::string_view secret);
// The same for the side that has accepted `socket`.
Result<Connection> receive(Fd socket, std::string_view secret, const std::stop_token& stop);

// A listening socket. Port 0: any, told in `endpoint`.
Result<Fd> listen_at(Endpoint& endpoint);

}  // namespace trainyard::instance
