// SPDX-License-Identifier: Apache-2.0
// Everything that happens to the session from outside, in one queue that the session's thread
// reads: commands of the server (a long poll on its own thread), signals, the end of the attempt,
// and how processes of the container end. A stop of any kind also sets the stop token at once, so
// that downloads and set-up steps end early. It lives as long as one attempt.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "base/thread.h"
#include "instance/link/server_link.h"
#include "instance/run/init.h"
#include "wire/messages.h"

namespace trainyard::instance {

struct Terminated {};       // SIGTERM or SIGINT: stop and leave
struct Denied {};           // the server knows this attempt no longer
struct ContainerClosed {};  // every pipe of the container has ended: nothing of it is alive
struct Forwarded {          // SIGUSR1 or SIGUSR2: meant for the user's processes
  int signal = 0;
};

using Event =
    std::variant<wire::Command, ProcessEnd, Terminated, Denied, ContainerClosed, Forwarded>;

class Inbox {
 public:
  // Call block_signals() first, in a process that has one thread.
  explicit Inbox(ServerLink& link);
  ~Inbox();

  static void block_signals();
  // Sleeps while there is no inbox to hear signals. True when SIGTERM or SIGINT has come.
  static bool is_terminated_within(Duration time);

  void push(Event event);
  std::optional<Event> next(Duration time) { return events_.pop_for(time); }
  // Requested by kStop, kAbort, kRelease, kRestart, Terminated and Denied: nothing more is to be
  // started.
  std::stop_token stopped() const { return stop_.get_token(); }
  // Requested by kRelease, kRestart, Terminated and Denied: nothing more is to be sent, either.
  std::stop_token left() const { return leave_.get_token(); }

 private:
  void poll_commands(const std::stop_token& stop);
  void watch_signals(const std::stop_token& stop);

  ServerLink& link_;
  BoundedQueue<Event> events_{4096};
  std::stop_source stop_;
  std::stop_source leave_;
  std::jthread signals_;
  std::jthread commands_;
};

}  // namespace trainyard::instance
