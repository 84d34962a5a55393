// SPDX-License-Identifier: Apache-2.0
// Ring (Patarasuk, Yuan 2009): a part travels once around and grows to its sum, then once around as
// it is: 2 (n - 1) / n of the buffer sent by each rank, to one neighbour only. A chain from or to
// the root for broadcast and reduce: the whole buffer once through each rank, in pieces.
#include <algorithm>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/tree.h"

namespace trainyard::comm {
namespace {

struct Ring {
  std::vector<std::int32_t> order;
  std::size_t position = 0;

  // The rank `distance` places further on, or back where it is negative.
  std::int32_t at(std::int64_t distance) const {
    const auto size = static_cast<std::int64_t>(order.size());
    const std::int64_t there = (static_cast<std::int64_t>(position) + distance) % size;
    return order[static_cast<std::size_t>((there + size) % size)];
  }
};

Ring ring_of(const World& world) {
  Ring ring{.order = by_host(world)};
  const auto here = std::find(ring.order.begin(), ring.order.end(), world.rank);
  ring.position = static_cast<std::size_t>(here - ring.order.begin());
  return ring;
}

// At level j the part of the rank j + 1 places back passes here; the own part comes last, complete.
void add_reduce_scatter(Schedule& schedule, const Ring& ring, const std::vector<Slice>& parts,
                        bool goes_on) {
  const auto last = static_cast<std::int32_t>(parts.size()) - 1;
  for (std::int32_t level = 0; level <= last; ++level) {
    const Slice& part = parts[static_cast<std::size_t>(ring.at(-1 - level))];
    Step step{.own = part, .level = level};
    if (level > 0) {
      step.from = {ring.at(-1)};
    }
    if (level == last) {
      step.store = goes_on ? at(Region::kOutput, part) : alone(Region::kOutput, part);
      step.finish = true;
    }
    if (level < last || goes_on) {
      step.to = {ring.at(1)};
    }
    add(schedule, step);
  }
}

// The part of the rank j places back comes here j levels after `level`, when it left that rank.
void add_all_gather(Schedule& schedule, const Ring& ring, const std::vector<Slice>& parts,
                    std::int32_t level) {
  const auto last = static_cast<std::int32_t>(parts.size()) - 1;
  for (std::int32_t j = 1; j <= last; ++j) {
    Step step{.from = {ring.at(-1)},
              .store = at(Region::kOutput, parts[static_cast<std::size_t>(ring.at(-j))]),
              .level = level + j};
    if (j < last) {
      step.to = {ring.at(1)};
    }
    add(schedule, step);
  }
}

Schedule make_circle(const Request& request, const World& world) {
  const Ring ring = ring_of(world);
  const std::vector<Slice> parts = parts_of(request, world);
  const bool reduces = request.kind != OpKind::kAllGather;
  const bool gathers = request.kind != OpKind::kReduceScatter;
  Schedule schedule{.algorithm = "ring", .longest = longest_of(parts)};
  std::int32_t level = 0;
  if (reduces) {
    add_reduce_scatter(schedule, ring, parts, gathers);
    level = world.size - 1;
  } else {
    const Slice& part = parts[static_cast<std::size_t>(world.rank)];
    add(schedule, {.own = alone(Region::kInput, part),
                   .store = at(Region::kOutput, part),
                   .to = {ring.at(1)}});
  }
  if (gathers) {
    add_all_gather(schedule, ring, parts, level);
  }
  // Two messages under way on each channel hide the latency.
  const std::int32_t messages = (reduces && gathers ? 2 : 1) * (world.size - 1);
  schedule.stride = (messages + 1) / 2;
  schedule.in_flight = 4;
  return schedule;
}

Schedule make_chain(const Request& request, const World& world) {
  Ring ring = ring_of(world);
  const auto root = std::find(ring.order.begin(), ring.order.end(), request.root);
  std::rotate(ring.order.begin(), root, ring.order.end());
  Schedule schedule{.algorithm = "ring", .longest = request.count, .in_flight = 2};
  const Ends whole{.own = {Region::kInput, 0, request.count},
                   .store = {Region::kOutput, 0, request.count}};
  const Tree tree = chain(ring.order, world.rank);
  if (request.kind == OpKind::kBroadcast) {
    add_broadcast(schedule, tree, whole, 0);
  } else {
    add_reduce(schedule, tree, whole, 0);
  }
  return schedule;
}

}  // namespace

Schedule make_ring(const Request& request, const World& world) {
  const bool is_rooted = request.kind == OpKind::kBroadcast || request.kind == OpKind::kReduce;
  return is_rooted ? make_chain(request, world) : make_circle(request, world);
}

}  // namespace trainyard::comm
