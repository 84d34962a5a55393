// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/layout.h"

#include <algorithm>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {

std::int32_t HostLayout::agent(std::size_t host, std::int32_t owner) const {
  const std::vector<std::int32_t>& ranks = hosts[host];
  return ranks[local_of[static_cast<std::size_t>(owner)] % ranks.size()];
}

std::vector<std::int32_t> HostLayout::local_others() const {
  std::vector<std::int32_t> ranks = local();
  ranks.erase(std::find(ranks.begin(), ranks.end(), world.rank));
  return ranks;
}

std::vector<std::int32_t> HostLayout::counterparts() const {
  std::vector<std::int32_t> ranks = local_others();
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (host != here) {
      ranks.push_back(agent(host, world.rank));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<std::int32_t> HostLayout::order() const {
  std::vector<std::int32_t> ranks;
  for (std::size_t d = 0; d < hosts.size(); ++d) {
    const std::vector<std::int32_t>& host = hosts[(here + d) % hosts.size()];
    ranks.insert(ranks.end(), host.begin(), host.end());
  }
  return ranks;
}

HostLayout layout_of(const World& world) {
  HostLayout layout{.world = world, .hosts = hosts_of(world), .host_of = {}, .local_of = {}};
  layout.host_of.resize(static_cast<std::size_t>(world.size));
  layout.local_of.resize(static_cast<std::size_t>(world.size));
  for (std::size_t host = 0; host < layout.hosts.size(); ++host) {
    for (std::size_t local = 0; local < layout.hosts[host].size(); ++local) {
      const auto rank = static_cast<std::size_t>(layout.hosts[host][local]);
      layout.host_of[rank] = host;
      layout.local_of[rank] = local;
    }
  }
  layout.here = layout.host_of[static_cast<std::size_t>(world.rank)];
  return layout;
}

}  // namespace trainyard::comm
