// SPDX-License-Identifier: Apache-2.0
// Who is where, as schedules between hosts see it: the ranks of each host, and for every part of a
// buffer the agent who speaks for a host with the part's owner. Agents are spread over the ranks of
// a host, so that all of them drive the network at once (rails).
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule/algorithms.h"

namespace trainyard::comm {

struct HostLayout {
  const World& world;
  std::vector<std::vector<std::int32_t>> hosts;
  std::vector<std::size_t> host_of;   // by rank
  std::vector<std::size_t> local_of;  // by rank: its position in its host
  std::size_t here = 0;

  const std::vector<std::int32_t>& local() const { return hosts[here]; }
  bool is_local(std::int32_t rank) const { return host_of[static_cast<std::size_t>(rank)] == here; }
  std::int32_t agent(std::size_t host, std::int32_t owner) const;
  bool is_agent(std::int32_t owner) const { return agent(here, owner) == world.rank; }
  std::vector<std::int32_t> local_others() const;
  // All others of this host, and of every other host the agent for this rank; ascending.
  std::vector<std::int32_t> counterparts() const;
  // All ranks, beginning with this host and going on to the next, so that nobody is hit by all at
  // once. The same for all ranks of a host.
  std::vector<std::int32_t> order() const;
};

HostLayout layout_of(const World& world);  // which it refers to

}  // namespace trainyard::comm
