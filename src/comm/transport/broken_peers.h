// SPDX-License-Identifier: Apache-2.0
// The peers that a transport cannot reach any more, and why. Such a peer is a fault only while it
// is needed: one that has left in order may be out of reach. And only after a moment: the watchdog
// sees the same death on its own connection, and says more. A value of one thread; the transport
// notes what it saw, looks now and then, and raises what is due.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace trainyard::comm {

class BrokenPeers {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Due {
    std::int32_t rank = 0;
    std::string why;
  };

  static constexpr std::chrono::milliseconds kLetOthersExplain{1200};
  static constexpr std::chrono::milliseconds kLook{50};  // now and then

  // The first reason stays.
  void note(std::int32_t rank, std::string why, Time now = std::chrono::steady_clock::now());
  bool has(std::int32_t rank) const { return peers_.contains(rank); }
  bool is_empty() const { return peers_.empty(); }
  // The lowest one whose moment has passed, of those that are needed.
  std::optional<Due> due(const std::function<bool(std::int32_t rank)>& is_needed,
                         Time now = std::chrono::steady_clock::now()) const;
  // How long to wait for news before the next look, of `most`.
  std::chrono::microseconds limit(std::chrono::microseconds most) const;

 private:
  struct Peer {
    std::string why;
    Time since;
  };
  std::map<std::int32_t, Peer> peers_;  // by rank
};

}  // namespace trainyard::comm
