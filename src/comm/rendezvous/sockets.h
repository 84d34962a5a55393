// SPDX-License-Identifier: Apache-2.0
// Stream sockets of the module: TCP addresses as values, local sockets without a name in the file
// system, non-blocking, closed on exec. Listeners are bound once, to a port that the kernel picks
// unless one is asked for, and kept: no port is tried out, closed and used later.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::comm {

struct Endpoint {
  std::string host;  // an address, or a name to resolve; "" for any address of this machine
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};

std::string to_string(const Endpoint& endpoint);         // "10.0.0.5:29500", "[fe80::1]:29500"
Result<Endpoint> parse_endpoint(std::string_view text);  // of the same forms

struct TcpListener {
  Fd fd;
  std::uint16_t port = 0;
};

// kAlreadyExists when the port is taken.
Result<TcpListener> listen_tcp(const Endpoint& endpoint);
// Tries every address of the name until `time` is over. Refused connections are tried again while
// `is_patient`: the other side may not listen yet. kDeadline: its host is out of reach.
Result<Fd> connect_tcp(const Endpoint& endpoint, std::chrono::milliseconds time, bool is_patient);

// Small messages at once.
Result<void> tune_tcp(int fd);
// Probes a connection that is idle once a second.
Result<void> watch_idle(int fd);

// After so long without an acknowledgement a host is gone. Asked twice a second, the answer comes
// 3.5 s after the first beat that is missed, or 4 s where this host has no way any more and has to
// probe first; that beat was due within half a second, so that all is told within 5 s of a cut.
// Above 3 s, when TCP has sent for the fourth time.
inline constexpr std::chrono::milliseconds kSilence{3250};

// Tells a host that is out of reach from a process that is stopped, or reads nothing: the host of
// the latter still acknowledges, until its buffers are full, and then lets nothing be sent.
// TCP_USER_TIMEOUT breaks both. Asked twice a second or so, of a connection that has something to
// send at such times.
class SilenceWatch {
 public:
  bool is_silent(int fd, std::chrono::steady_clock::time_point now);

 private:
  std::uint64_t acknowledged_ = 0;
  std::chrono::steady_clock::time_point since_;  // when nothing was missing, last
  std::chrono::steady_clock::time_point asked_;
};

// `name` of an abstract socket ("@..."), which goes with its listener and is seen by all processes
// of one network namespace, or a path.
Result<Fd> listen_local(const std::string& name);
Result<Fd> connect_local(const std::string& name);
// Asked once: a listener that is there may be too busy to take the connection.
bool nobody_listens(const std::string& name);

// The next connection, or an Fd that is not open when there is none at the moment.
Result<Fd> accept_one(int listener);

enum class Ready : std::uint8_t { kRead, kWrite };
// False when the time is over.
Result<bool> wait_ready(int fd, Ready what, std::chrono::milliseconds time);

}  // namespace trainyard::comm
