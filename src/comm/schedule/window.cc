// SPDX-License-Identifier: Apache-2.0
// Window: one hop through memory that all ranks of a host map. Each rank does its share of the
// whole operation where the operands lie, and writes the result where it belongs: no staging. A
// part of a buffer in place is read by nobody but the rank that overwrites it. Single copy: the
// same where ranks only read each other's memory, which the kernel can do for them.
#include <algorithm>
#include <numeric>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

// Where this rank writes the share that it works on: to itself and to others.
void add_targets(Step& step, std::span<const std::int32_t> targets, std::int32_t rank,
                 const Slice& store) {
  for (const std::int32_t target : targets) {
    if (target == rank) {
      step.store = store;
    } else {
      step.write.push_back(target);
    }
  }
}

std::vector<std::int32_t> all_of(const World& world) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(world.size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// All-reduce, reduce-scatter, reduce: this rank combines its part of everybody's input.
void add_reduction(Schedule& schedule, const Request& request, const World& world) {
  const Slice part = parts_of(request, world)[static_cast<std::size_t>(world.rank)];
  Step step{.own = part, .read = others_of(world), .remote = part, .finish = true};
  if (request.kind == OpKind::kReduceScatter) {
    step.store = alone(Region::kOutput, part);
  } else if (request.kind == OpKind::kReduce) {
    add_targets(step, std::vector{request.root}, world.rank, at(Region::kOutput, part));
  } else {
    add_targets(step, all_of(world), world.rank, at(Region::kOutput, part));
  }
  add(schedule, step);
}

// Broadcast: this rank brings its part of the root's input to everyone.
void add_broadcast(Schedule& schedule, const Request& request, const World& world) {
  const Slice part = parts_of(request, world)[static_cast<std::size_t>(world.rank)];
  Step step{.remote = part};
  if (world.rank == request.root) {
    step.own = part;
  } else {
    step.read = {request.root};
  }
  std::vector<std::int32_t> targets = others_of(World{.rank = request.root, .size = world.size});
  add_targets(step, targets, world.rank, at(Region::kOutput, part));
  add(schedule, step);
}

// All-gather, gather: this rank brings its own part to everyone, or to the root.
void add_gather(Schedule& schedule, const Request& request, const World& world) {
  const Slice part = parts_of(request, world)[static_cast<std::size_t>(world.rank)];
  Step step{.own = alone(Region::kInput, part), .remote = part};
  add_targets(step, request.kind == OpKind::kGather ? std::vector{request.root} : all_of(world),
              world.rank, at(Region::kOutput, part));
  add(schedule, step);
}

// This rank takes a slice of the input of `peer`, which may be itself.
void take(Schedule& schedule, const World& world, std::int32_t peer, const Slice& there,
          const Slice& store) {
  Step step{.store = store};
  if (peer == world.rank) {
    step.own = there;
  } else {
    step.read = {peer};
    step.remote = there;
  }
  add(schedule, step);
}

// Itself first, then its right-hand neighbours, so that not all read the same memory at once.
template <typename Take>
void for_each_peer(const World& world, const Take& take_of) {
  for (std::int32_t d = 0; d < world.size; ++d) {
    take_of((world.rank + d) % world.size);
  }
}

// Scatter, all-to-all: this rank's part of the root's input, or of everybody's.
void add_fetch(Schedule& schedule, const Request& request, const World& world) {
  const std::vector<Slice> parts = parts_of(request, world);
  const Slice part = parts[static_cast<std::size_t>(world.rank)];
  if (request.kind == OpKind::kScatter) {
    take(schedule, world, request.root, part, alone(Region::kOutput, part));
    return;
  }
  for_each_peer(world, [&](std::int32_t peer) {
    take(schedule, world, peer, part, at(Region::kOutput, parts[static_cast<std::size_t>(peer)]));
  });
}

// All-gather, gather, broadcast: everybody's part, to everyone or to the root, or the root's whole
// input.
void add_pull(Schedule& schedule, const Request& request, const World& world) {
  const bool is_root = world.rank == request.root;
  if (request.kind == OpKind::kBroadcast) {
    if (!is_root) {
      const Slice whole{.region = Region::kInput, .length = request.count};
      take(schedule, world, request.root, whole, at(Region::kOutput, whole));
    }
    return;
  }
  if (request.kind == OpKind::kAllGather || is_root) {
    const std::vector<Slice> parts = parts_of(request, world);
    for_each_peer(world, [&](std::int32_t peer) {
      const Slice& part = parts[static_cast<std::size_t>(peer)];
      take(schedule, world, peer, alone(Region::kInput, part), at(Region::kOutput, part));
    });
  }
}

void add_meeting(Schedule& schedule, const World& world) {
  const std::vector<std::int32_t> others = others_of(world);
  add(schedule, {.to = others, .level = 1, .token = true});
  add(schedule, {.from = others, .level = 2, .token = true});
}

}  // namespace

Schedule make_window(const Request& request, const World& world) {
  Schedule schedule{.algorithm = "window", .in_flight = 2, .windows = true};
  switch (request.kind) {
    case OpKind::kBroadcast:
      add_broadcast(schedule, request, world);
      break;
    case OpKind::kAllGather:
    case OpKind::kGather:
      add_gather(schedule, request, world);
      break;
    case OpKind::kScatter:
    case OpKind::kAllToAll:
      add_fetch(schedule, request, world);
      break;
    default:
      add_reduction(schedule, request, world);
      break;
  }
  add_meeting(schedule, world);
  return schedule;
}

Schedule make_single_copy(const Request& request, const World& world) {
  Schedule schedule{.algorithm = "single_copy", .in_flight = 2, .windows = true};
  if (request.kind == OpKind::kScatter || request.kind == OpKind::kAllToAll) {
    add_fetch(schedule, request, world);
  } else {
    add_pull(schedule, request, world);
  }
  add_meeting(schedule, world);
  return schedule;
}

}  // namespace trainyard::comm
