// SPDX-License-Identifier: Apache-2.0
// Those who have connected and have not said yet who they are. Anyone may connect to a listening
// port, so they get little: one message of a few bytes, within kGreetingTime, and one of
// kMaxStrangers places, of which the one who has said nothing for longest loses his when all are
// taken. Used by the threads that accept (join.h, store_server.h, transport/tcp/acceptor.h): they
// poll, and decide whom they let in.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include <poll.h>

#include "comm/rendezvous/control_link.h"

namespace trainyard::comm {

inline constexpr std::chrono::milliseconds kGreetingTime{10'000};
inline constexpr std::size_t kMaxGreeting = 1024;  // bytes
inline constexpr std::size_t kMaxStrangers = 256;

class Doorstep {
 public:
  struct Guest {
    ControlLink link;  // reads short messages only, until trust()
    Fields greeting;
  };

  // `listener` must outlive it.
  explicit Doorstep(int listener, std::size_t most_bytes = kMaxGreeting)
      : listener_(listener), most_bytes_(most_bytes) {}

  // What to poll for: as many entries as size() says.
  void list(std::vector<pollfd>& entries) const;
  std::size_t size() const { return 1 + strangers_.size(); }
  // How long poll may wait on behalf of it; negative: for ever.
  std::chrono::milliseconds patience() const;

  // After the poll, with the same entries: who has greeted. Accepts, and closes whom it has no more
  // patience with.
  std::vector<Guest> look(std::span<const pollfd> entries);

 private:
  using Clock = std::chrono::steady_clock;
  struct Stranger {
    ControlLink link;
    Clock::time_point end;
  };

  // Whether he stays.
  bool hear(Stranger& stranger, std::vector<Guest>& guests);
  Clock::time_point opens_at() const;  // for the next stranger; long ago when there is room
  void accept_some();
  void complain(const Error& error);

  int listener_;
  std::size_t most_bytes_;
  std::list<Stranger> strangers_;  // the oldest first
  Clock::time_point rests_until_;
  bool has_complained_ = false;
};

}  // namespace trainyard::comm
