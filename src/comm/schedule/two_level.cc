// SPDX-License-Identifier: Apache-2.0
// Two levels: what a host has is combined inside it before it leaves, and what comes in is spread
// inside. For every part of the buffer, each host has an agent, who speaks with the part's owner;
// agents are spread over the ranks of the host, so that all of them drive the network at once
// (rails). An all-reduce sends (n - g) / n of the buffer per host each way, g ranks in the host.
// Small ones go through the first rank of each host.
//
// Balanced is the all-reduce whose parts make equal shares of hosts, not of ranks: hosts with fewer
// ranks then send, combine and receive as much as the others. It is how SageMaker's data parallel
// library cuts its fusion buffers over the hosts' reducers.
#include <algorithm>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/layout.h"

namespace trainyard::comm {
namespace {

// A part of the buffer, and the rank that it belongs to.
struct Owned {
  std::int32_t owner = 0;
  Slice part = {};
};

// Level 0: the host's shares of remote parts, to their agents. Level 1: agents combine and send to
// the owner; local parts go to their owners, who have everything then.
void send_to_owners(Schedule& schedule, const HostLayout& layout, const std::vector<Owned>& parts) {
  for (const Owned& owned : parts) {
    const bool is_local = layout.is_local(owned.owner);
    if (is_local && owned.owner != layout.world.rank) {
      add(schedule, {.own = owned.part, .to = {owned.owner}, .level = 1});
    } else if (!is_local && layout.is_agent(owned.owner)) {
      add(schedule,
          {.from = layout.local_others(), .own = owned.part, .to = {owned.owner}, .level = 1});
    } else if (!is_local) {
      add(schedule, {.own = owned.part, .to = {layout.agent(layout.here, owned.owner)}});
    }
  }
}

// The owners have sent their parts at `level`, to their hosts and to their agents, who spread them.
void receive_from_owners(Schedule& schedule, const HostLayout& layout,
                         const std::vector<Owned>& parts, std::int32_t level) {
  for (const Owned& owned : parts) {
    if (owned.owner == layout.world.rank) {
      continue;
    }
    Step step{.from = {owned.owner}, .store = at(Region::kOutput, owned.part), .level = level + 1};
    if (!layout.is_local(owned.owner)) {
      if (layout.is_agent(owned.owner)) {
        step.to = layout.local_others();
      } else {
        step.from = {layout.agent(layout.here, owned.owner)};
        step.level = level + 2;
      }
    }
    add(schedule, step);
  }
}

// The most remote parts that one rank is the agent of.
std::uint64_t most_parts(const HostLayout& layout) {
  std::uint64_t most = 0;
  for (std::size_t host = 0; host < layout.hosts.size(); ++host) {
    std::vector<std::uint64_t> parts(static_cast<std::size_t>(layout.world.size));
    for (std::int32_t owner = 0; owner < layout.world.size; ++owner) {
      if (layout.host_of[static_cast<std::size_t>(owner)] != host) {
        most = std::max(most, ++parts[static_cast<std::size_t>(layout.agent(host, owner))]);
      }
    }
  }
  return most;
}

// The same share for every host, whatever its ranks are, and near-equal parts of it for those.
std::vector<Slice> balanced_parts(const Request& request, const HostLayout& layout) {
  std::vector<Slice> parts(static_cast<std::size_t>(layout.world.size));
  for (std::size_t h = 0; h < layout.hosts.size(); ++h) {
    const Slice share = part_of(Region::kInput, request.count, layout.hosts.size(), h);
    const std::vector<std::int32_t>& ranks = layout.hosts[h];
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      Slice& part = parts[static_cast<std::size_t>(ranks[i])];
      part = part_of(Region::kInput, share.length, ranks.size(), i);
      part.offset += share.offset;
    }
  }
  return parts;
}

// All-reduce, reduce-scatter, all-gather: every rank owns a part.
Schedule make_parts(const Request& request, const HostLayout& layout,
                    const std::vector<Slice>& slices) {
  const Slice& mine = slices[static_cast<std::size_t>(layout.world.rank)];
  std::vector<Owned> parts;
  for (const std::int32_t owner : layout.order()) {
    parts.push_back({owner, slices[static_cast<std::size_t>(owner)]});
  }
  const bool reduces = request.kind != OpKind::kAllGather;
  const bool gathers = request.kind != OpKind::kReduceScatter;
  Schedule schedule{.algorithm = "two_level", .longest = longest_of(slices)};
  Step step{.own = alone(Region::kInput, mine), .store = at(Region::kOutput, mine)};
  if (reduces) {
    send_to_owners(schedule, layout, parts);
    schedule.in_flight += 2 * static_cast<std::uint64_t>(layout.world.size - 1);
    step.from = layout.counterparts();
    step.own = mine;
    step.level = 2;
    step.finish = true;
  }
  if (gathers) {
    step.to = layout.counterparts();
    schedule.in_flight += 2 * (1 + most_parts(layout));
  } else {
    step.store = alone(Region::kOutput, mine);
  }
  add(schedule, step);
  if (gathers) {
    receive_from_owners(schedule, layout, parts, step.level);
  }
  return schedule;
}

// Broadcast, reduce: the root owns everything.
Schedule make_rooted(const Request& request, const HostLayout& layout) {
  Schedule schedule{.algorithm = "two_level", .longest = request.count, .in_flight = 2};
  const Slice whole{Region::kInput, 0, request.count};
  const std::vector<Owned> parts = {{request.root, whole}};
  const bool is_root = layout.world.rank == request.root;
  if (request.kind == OpKind::kBroadcast) {
    if (is_root) {
      add(schedule, {.own = whole, .to = layout.counterparts()});
    }
    receive_from_owners(schedule, layout, parts, 0);
    return schedule;
  }
  send_to_owners(schedule, layout, parts);
  if (is_root) {
    add(schedule, {.from = layout.counterparts(),
                   .own = whole,
                   .store = at(Region::kOutput, whole),
                   .level = 2,
                   .finish = true});
  }
  return schedule;
}

// The first rank of each host.
std::vector<std::int32_t> leaders_of(const HostLayout& layout) {
  std::vector<std::int32_t> leaders;
  leaders.reserve(layout.hosts.size());
  for (const std::vector<std::int32_t>& host : layout.hosts) {
    leaders.push_back(host.front());
  }
  return leaders;  // ascending, because hosts are in the order of their first ranks
}

// Up to the leader, across, where every leader combines for itself in the same order, and down.
// Without slices for a barrier: tokens.
Schedule make_small(const Request& request, const HostLayout& layout) {
  Schedule schedule{.algorithm = "two_level", .longest = request.count, .in_flight = 4};
  const bool is_barrier = request.kind == OpKind::kBarrier;
  std::optional<Slice> in;
  std::optional<Slice> out;
  if (!is_barrier) {
    in = {Region::kInput, 0, request.count};
    out = {Region::kOutput, 0, request.count};
  }
  const std::int32_t leader = layout.local().front();
  if (layout.world.rank != leader) {
    add(schedule, {.own = in, .to = {leader}, .token = is_barrier});
    add(schedule, {.from = {leader}, .store = out, .level = 3, .token = is_barrier});
    return schedule;
  }
  std::vector<std::int32_t> leaders = leaders_of(layout);
  leaders.erase(std::find(leaders.begin(), leaders.end(), leader));
  add(schedule, {.from = layout.local_others(),
                 .own = in,
                 .store = out,
                 .to = leaders,
                 .level = 1,
                 .token = is_barrier});
  add(schedule, {.from = leaders,
                 .own = out,
                 .store = out,
                 .to = layout.local_others(),
                 .level = 2,
                 .token = is_barrier,
                 .finish = !is_barrier});
  return schedule;
}

}  // namespace

Schedule make_two_level(const Request& request, const World& world) {
  const HostLayout layout = layout_of(world);
  const bool is_small = request.kind == OpKind::kAllReduce && request.count <= kUncutElements;
  if (is_small || request.kind == OpKind::kBarrier) {
    return make_small(request, layout);
  }
  const bool is_rooted = request.kind == OpKind::kBroadcast || request.kind == OpKind::kReduce;
  return is_rooted ? make_rooted(request, layout)
                   : make_parts(request, layout, parts_of(request, world));
}

Schedule make_balanced(const Request& request, const World& world) {
  const HostLayout layout = layout_of(world);
  Schedule schedule = make_parts(request, layout, balanced_parts(request, layout));
  schedule.algorithm = "balanced";
  return schedule;
}

}  // namespace trainyard::comm
