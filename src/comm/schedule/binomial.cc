// SPDX-License-Identifier: Apache-2.0
// Binomial trees for rooted operations: log2 n hops. Broadcast and reduce move the whole buffer;
// gather and scatter what a subtree has, which is one stretch of ranks, counted from the root.
#include <algorithm>
#include <bit>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/tree.h"

namespace trainyard::comm {
namespace {

// Ranks counted from the root are places. Place p hangs below p without its lowest bit, and has the
// places up to p + its lowest bit below it.
struct Places {
  std::uint32_t size = 1;
  std::uint32_t root = 0;
  std::uint32_t place = 0;  // of this rank

  std::int32_t rank_at(std::uint32_t p) const {
    return static_cast<std::int32_t>((root + p) % size);
  }
  static std::uint32_t parent(std::uint32_t p) { return p & (p - 1); }
  std::uint32_t reach(std::uint32_t p) const { return p == 0 ? std::bit_ceil(size) : p & (0 - p); }
  std::int32_t height(std::uint32_t p) const { return std::countr_zero(reach(p)); }
};

Places places_of(const Request& request, const World& world) {
  const auto size = static_cast<std::uint32_t>(world.size);
  const auto root = static_cast<std::uint32_t>(request.root);
  return {size, root, (static_cast<std::uint32_t>(world.rank) + size - root) % size};
}

// The parts of the places below `p`, itself among them: two slices when they go around the end.
std::vector<Slice> stretch_of(const Places& places, const std::vector<Slice>& parts, Region region,
                              std::uint32_t p) {
  const std::uint32_t last = std::min(p + places.reach(p), places.size) - 1;
  std::vector<Slice> slices;
  for (std::uint32_t q = p; q <= last; ++q) {
    const Slice& part = parts[static_cast<std::size_t>(places.rank_at(q))];
    if (q == p || part.offset == 0) {
      slices.push_back(at(region, part));
    } else {
      slices.back().length += part.length;
    }
  }
  return slices;
}

// A subtree's stretch as one message, by way of scratch. Place p sends at level height(p): the
// children's come one level after another.
void add_whole_gather(Schedule& schedule, const Places& places, const std::vector<Slice>& parts) {
  const bool is_root = places.place == 0;
  const bool is_leaf = places.height(places.place) == 0 || places.place + 1 >= places.size;
  const Region kept = is_root ? Region::kOutput : Region::kScratch;
  const Slice& mine = parts[static_cast<std::size_t>(places.rank_at(places.place))];
  const Slice in = alone(Region::kInput, mine);
  if (is_leaf) {
    add(schedule, {.own = in,
                   .to = {places.rank_at(Places::parent(places.place))},
                   .level = places.height(places.place)});
    return;
  }
  add(schedule, {.own = in, .store = at(kept, mine)});
  for (std::uint32_t bit = 1; bit < places.reach(places.place); bit *= 2) {
    const std::uint32_t child = places.place + bit;
    if (child < places.size) {
      for (const Slice& slice : stretch_of(places, parts, kept, child)) {
        add(schedule,
            {.from = {places.rank_at(child)}, .store = slice, .level = places.height(child) + 1});
      }
    }
  }
  if (!is_root) {
    for (const Slice& slice : stretch_of(places, parts, kept, places.place)) {
      add(schedule, {.own = slice,
                     .to = {places.rank_at(Places::parent(places.place))},
                     .level = places.height(places.place)});
    }
  }
}

// The mirror image: place p receives `top` - height(p) levels after the root's first message.
void add_whole_scatter(Schedule& schedule, const Places& places, const std::vector<Slice>& parts) {
  const bool is_root = places.place == 0;
  const std::int32_t top = places.height(0);
  const std::int32_t level = top - places.height(places.place);
  const Region kept = is_root ? Region::kInput : Region::kScratch;
  const Slice& mine = parts[static_cast<std::size_t>(places.rank_at(places.place))];
  if (!is_root) {
    for (const Slice& slice : stretch_of(places, parts, kept, places.place)) {
      add(schedule,
          {.from = {places.rank_at(Places::parent(places.place))}, .store = slice, .level = level});
    }
  }
  for (std::uint32_t bit = places.reach(places.place) / 2; bit > 0; bit /= 2) {
    const std::uint32_t child = places.place + bit;
    if (child < places.size) {
      for (const Slice& slice : stretch_of(places, parts, kept, child)) {
        add(schedule,
            {.own = slice, .to = {places.rank_at(child)}, .level = top - 1 - places.height(child)});
      }
    }
  }
  add(schedule, {.own = at(kept, mine), .store = alone(Region::kOutput, mine), .level = level});
}

// Each part by itself, from hand to hand: for buffers that must be cut into pieces.
void add_parts(Schedule& schedule, const Places& places, const std::vector<Slice>& parts,
               OpKind kind) {
  for (std::uint32_t p = 0; p < places.size; ++p) {
    const Slice& part = parts[static_cast<std::size_t>(places.rank_at(p))];
    std::vector<std::int32_t> way;  // from the owner to the root
    for (std::uint32_t q = p; q != 0; q = Places::parent(q)) {
      way.push_back(places.rank_at(q));
    }
    way.push_back(places.rank_at(0));
    const bool is_gather = kind == OpKind::kGather;
    if (!is_gather) {
      std::reverse(way.begin(), way.end());
    }
    const auto here = std::find(way.begin(), way.end(), places.rank_at(places.place));
    if (here == way.end()) {
      continue;
    }
    Step step{.length = part.length, .level = static_cast<std::int32_t>(here - way.begin())};
    if (here == way.begin()) {
      step.own = is_gather ? alone(Region::kInput, part) : part;
    } else {
      step.from = {*(here - 1)};
    }
    if (here + 1 == way.end()) {
      step.store = is_gather ? at(Region::kOutput, part) : alone(Region::kOutput, part);
    } else {
      step.to = {*(here + 1)};
    }
    add(schedule, step);
  }
}

Schedule make_tree(const Request& request, const World& world) {
  std::vector<std::int32_t> order = by_host(world);
  std::rotate(order.begin(), std::find(order.begin(), order.end(), request.root), order.end());
  const Tree tree = binomial(order, world.rank);
  const Ends whole{.own = {Region::kInput, 0, request.count},
                   .store = {Region::kOutput, 0, request.count}};
  Schedule schedule{.algorithm = "halving_doubling", .longest = request.count, .in_flight = 2};
  if (request.kind == OpKind::kBroadcast) {
    add_broadcast(schedule, tree, whole, 0);
  } else {
    add_reduce(schedule, tree, whole, 0);
  }
  return schedule;
}

}  // namespace

Schedule make_binomial(const Request& request, const World& world) {
  if (request.kind == OpKind::kBroadcast || request.kind == OpKind::kReduce) {
    return make_tree(request, world);
  }
  const Places places = places_of(request, world);
  const std::vector<Slice> parts = parts_of(request, world);
  Schedule schedule{.algorithm = "halving_doubling"};
  if (request.count > kUncutElements) {
    schedule.longest = longest_of(parts);
    schedule.in_flight = 2 * parts.size();
    add_parts(schedule, places, parts, request.kind);
    return schedule;
  }
  schedule.in_flight = 4 * static_cast<std::uint64_t>(places.height(0));
  if (request.kind == OpKind::kGather) {
    schedule.scratch = places.place == 0 ? 0 : request.count;
    add_whole_gather(schedule, places, parts);
  } else {
    schedule.scratch = places.place == 0 ? 0 : request.count;
    add_whole_scatter(schedule, places, parts);
  }
  return schedule;
}

}  // namespace trainyard::comm
