// SPDX-License-Identifier: Apache-2.0
// Mesh: an all-gather in which a part crosses between hosts once, straight from its owner to one
// rank of each other host (the agent: parallel rails), who hands it on inside while it receives the
// next piece. It is what SageMaker's data parallel library does over EFA and NVLink.
//
// At one time a rank sends to one other host and receives from one: the host d further gets piece k
// at time k (hosts - 1) + d. So no rank is hit by several at once, pieces for a peer are
// hosts - 1 times apart, and what needs room does not grow with the number of hosts. `window`
// bounds what is under way to one peer in the network itself.
#include <algorithm>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/layout.h"

namespace trainyard::comm {
namespace {

constexpr Region kOut = Region::kOutput;

// The most parts of one host that one rank of another is the agent of.
std::uint64_t most_handed_on(const HostLayout& layout) {
  std::size_t most = 1;
  std::size_t least = layout.hosts.front().size();
  for (const std::vector<std::int32_t>& host : layout.hosts) {
    most = std::max(most, host.size());
    least = std::min(least, host.size());
  }
  return (most + least - 1) / least;
}

// Of two neighbouring times: a message to another host and the parts handed on, at each; and this
// rank's own part to its host once in hosts - 1 times.
std::uint64_t in_flight_of(const HostLayout& layout) {
  const std::uint64_t own = layout.hosts.size() == 2 ? 2 : 1;
  return 2 * (1 + most_handed_on(layout)) + own;
}

void receive_from(Schedule& schedule, const HostLayout& layout, const std::vector<Slice>& parts,
                  std::size_t distance) {
  const std::size_t count = layout.hosts.size();
  const auto level = static_cast<std::int32_t>(distance) + 1;
  for (const std::int32_t owner : layout.hosts[(layout.here + count - distance) % count]) {
    Step step{.store = at(kOut, parts[static_cast<std::size_t>(owner)])};
    if (layout.is_agent(owner)) {
      step.from = {owner};
      step.to = layout.local_others();
      step.level = level;
    } else {
      step.from = {layout.agent(layout.here, owner)};
      step.level = level + 1;
    }
    add(schedule, step);
  }
}

}  // namespace

Schedule make_mesh(const Request& request, const World& world) {
  const HostLayout layout = layout_of(world);
  const std::vector<Slice> parts = parts_of(request, world);
  const Slice& mine = parts[static_cast<std::size_t>(world.rank)];
  const std::size_t count = layout.hosts.size();
  Schedule schedule{.algorithm = "mesh",
                    .longest = longest_of(parts),
                    .stride = static_cast<std::int32_t>(count) - 1,
                    .in_flight = in_flight_of(layout)};
  const Slice own = alone(Region::kInput, mine);
  // Stored before it is sent on, so that in place it need not be copied to be sent.
  add(schedule, {.own = own, .store = at(kOut, mine), .to = layout.local_others()});
  for (std::size_t d = 1; d < count; ++d) {
    const std::int32_t agent = layout.agent((layout.here + d) % count, world.rank);
    add(schedule, {.own = own, .to = {agent}, .level = static_cast<std::int32_t>(d)});
  }
  for (const std::int32_t peer : layout.local_others()) {
    add(schedule,
        {.from = {peer}, .store = at(kOut, parts[static_cast<std::size_t>(peer)]), .level = 1});
  }
  for (std::size_t d = 1; d < count; ++d) {
    receive_from(schedule, layout, parts, d);
  }
  return schedule;
}

}  // namespace trainyard::comm
