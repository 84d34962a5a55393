// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/broken_peers.h"

#include <algorithm>
#include <utility>

namespace trainyard::comm {

void BrokenPeers::note(std::int32_t rank, std::string why, Time now) {
  peers_.try_emplace(rank, Peer{.why = std::move(why), .since = now});
}

std::optional<BrokenPeers::Due> BrokenPeers::due(
    const std::function<bool(std::int32_t rank)>& is_needed, Time now) const {
  for (const auto& [rank, peer] : peers_) {
    if (now >= peer.since + kLetOthersExplain && is_needed(rank)) {
      return Due{.rank = rank, .why = peer.why};
    }
  }
  return std::nullopt;
}

std::chrono::microseconds BrokenPeers::limit(std::chrono::microseconds most) const {
  return is_empty() ? most : std::min<std::chrono::microseconds>(most, kLook);
}

}  // namespace trainyard::comm
