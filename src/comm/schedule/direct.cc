// SPDX-License-Identifier: Apache-2.0
// Direct: every rank speaks with every other. Parts go to their owners, who combine them in one
// pass (reduce-scatter), and from their owners to all (all-gather): 2 (n - 1) / n of the buffer
// sent by each rank, in two hops. Everyone begins with its right-hand neighbour, so that nobody is
// hit by all at once.
#include <algorithm>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

struct Mesh {
  const Request& request;
  const World& world;
  std::vector<Slice> parts = {};
  std::vector<std::int32_t> others;
  Schedule schedule{.algorithm = "direct"};

  const Slice& part(std::int32_t rank) const { return parts[static_cast<std::size_t>(rank)]; }
  const Slice& mine() const { return part(world.rank); }
  bool is_root() const { return world.rank == request.root; }
  std::int32_t ahead(std::int32_t distance) const { return (world.rank + distance) % world.size; }
  std::int32_t behind(std::int32_t distance) const { return ahead(world.size - distance); }

  // Everyone's part of this rank's input, to its owner.
  void send_parts(std::int32_t level) {
    for (std::int32_t d = 1; d < world.size; ++d) {
      add(schedule, {.own = part(ahead(d)), .to = {ahead(d)}, .level = level});
    }
  }
  // The parts of all others, from their owners.
  void receive_parts(std::int32_t level) {
    for (std::int32_t d = 1; d < world.size; ++d) {
      add(schedule,
          {.from = {behind(d)}, .store = at(Region::kOutput, part(behind(d))), .level = level});
    }
  }
};

void add_all_reduce(Mesh& mesh) {
  mesh.send_parts(0);
  add(mesh.schedule, {.from = mesh.others,
                      .own = mesh.mine(),
                      .store = at(Region::kOutput, mesh.mine()),
                      .to = mesh.others,
                      .level = 1,
                      .finish = true});
  mesh.receive_parts(2);
}

void add_reduce_scatter(Mesh& mesh) {
  mesh.send_parts(0);
  add(mesh.schedule, {.from = mesh.others,
                      .own = mesh.mine(),
                      .store = alone(Region::kOutput, mesh.mine()),
                      .level = 1,
                      .finish = true});
}

void add_all_gather(Mesh& mesh) {
  add(mesh.schedule, {.own = alone(Region::kInput, mesh.mine()),
                      .store = at(Region::kOutput, mesh.mine()),
                      .to = mesh.others});
  mesh.receive_parts(1);
}

// The root scatters, then all gather from each other: 2 (n - 1) / n of the buffer through the
// root's link instead of n - 1 (van de Geijn 1994).
void add_broadcast(Mesh& mesh) {
  if (mesh.is_root()) {
    mesh.send_parts(0);
    add(mesh.schedule, {.own = mesh.mine(), .to = mesh.others, .level = 1});
    return;
  }
  Step step{.from = {mesh.request.root}, .store = at(Region::kOutput, mesh.mine()), .level = 1};
  std::copy_if(mesh.others.begin(), mesh.others.end(), std::back_inserter(step.to),
               [&](std::int32_t rank) { return rank != mesh.request.root; });
  add(mesh.schedule, step);
  mesh.receive_parts(2);
}

// The mirror image: the owners combine, the root gathers.
void add_reduce(Mesh& mesh) {
  mesh.send_parts(0);
  Step step{.from = mesh.others, .own = mesh.mine(), .level = 1, .finish = true};
  if (mesh.is_root()) {
    step.store = at(Region::kOutput, mesh.mine());
  } else {
    step.to = {mesh.request.root};
  }
  add(mesh.schedule, step);
  if (mesh.is_root()) {
    mesh.receive_parts(2);
  }
}

void add_gather(Mesh& mesh) {
  Step step{.own = alone(Region::kInput, mesh.mine())};
  if (!mesh.is_root()) {
    step.to = {mesh.request.root};
    add(mesh.schedule, step);
    return;
  }
  step.store = at(Region::kOutput, mesh.mine());
  add(mesh.schedule, step);
  mesh.receive_parts(1);
}

void add_scatter(Mesh& mesh) {
  Step step{.store = alone(Region::kOutput, mesh.mine())};
  if (mesh.is_root()) {
    mesh.send_parts(0);
    step.own = mesh.mine();
  } else {
    step.from = {mesh.request.root};
    step.level = 1;
  }
  add(mesh.schedule, step);
}

void add_all_to_all(Mesh& mesh) {
  add(mesh.schedule, {.own = mesh.mine(), .store = at(Region::kOutput, mesh.mine())});
  mesh.send_parts(0);
  mesh.receive_parts(1);
}

// Nobody knows the longest slice of all ranks, so slices are cut here: chunk c of each pair is sent
// at level 2 c, spaced further, so that the pieces of a chunk are done before the next one's begin.
// Of the longest elements a chunk has at most 64 pieces down to messages of 2 KiB. All pieces of
// the chunk that a slice ends in are sent, also where nothing is left for them: so of two ranks
// that expect different lengths, the receiver meets a message of another size, whatever the lengths
// are.
constexpr std::uint64_t kChunk = std::uint64_t{1} << 14;
constexpr std::int32_t kChunkLevels = 64;

Slice chunk_of(Region region, const Slice& slice, std::uint64_t chunk) {
  const std::uint64_t begin = std::min(slice.length, chunk * kChunk);
  return {region, slice.offset + begin, std::min(slice.length - begin, kChunk)};
}

bool ends_in(const Slice& slice, std::uint64_t chunk) {
  return slice.length / kChunk == chunk;
}

std::vector<Slice> slices_of(const std::vector<std::uint64_t>& counts) {
  std::vector<Slice> slices;
  std::uint64_t offset = 0;
  for (const std::uint64_t count : counts) {
    slices.push_back({Region::kInput, offset, count});
    offset += count;
  }
  return slices;
}

void add_uneven_all_to_all(Mesh& mesh) {
  const std::vector<Slice> out = slices_of(mesh.request.counts);
  const std::vector<Slice> in = slices_of(mesh.request.receive_counts);
  const std::uint64_t longest = std::max(longest_of(out), longest_of(in));
  const auto of = [](const std::vector<Slice>& slices, std::int32_t rank) {
    return slices[static_cast<std::size_t>(rank)];
  };
  for (std::uint64_t c = 0; c * kChunk <= longest; ++c) {
    const auto level = static_cast<std::int32_t>(c) * kChunkLevels;
    add(mesh.schedule, {.own = chunk_of(Region::kInput, of(out, mesh.world.rank), c),
                        .store = chunk_of(Region::kOutput, of(in, mesh.world.rank), c),
                        .level = level});
    for (std::int32_t d = 1; d < mesh.world.size; ++d) {
      add(mesh.schedule, {.own = chunk_of(Region::kInput, of(out, mesh.ahead(d)), c),
                          .to = {mesh.ahead(d)},
                          .level = level,
                          .always = ends_in(of(out, mesh.ahead(d)), c)});
    }
    for (std::int32_t d = 1; d < mesh.world.size; ++d) {
      add(mesh.schedule, {.from = {mesh.behind(d)},
                          .store = chunk_of(Region::kOutput, of(in, mesh.behind(d)), c),
                          .level = level + 1,
                          .always = ends_in(of(in, mesh.behind(d)), c)});
    }
  }
}

void add_barrier(Mesh& mesh) {
  add(mesh.schedule, {.to = mesh.others, .token = true});
  add(mesh.schedule, {.from = mesh.others, .level = 1, .token = true});
}

}  // namespace

Schedule make_direct(const Request& request, const World& world) {
  const bool is_uneven_exchange = request.kind == OpKind::kAllToAll && !request.counts.empty();
  Mesh mesh{.request = request, .world = world, .others = others_of(world)};
  const auto ranks = static_cast<std::uint64_t>(world.size);
  mesh.schedule.in_flight = 2 * (ranks - 1);
  if (is_uneven_exchange) {
    mesh.schedule.longest = kChunk;
    add_uneven_all_to_all(mesh);
    return std::move(mesh.schedule);
  }
  mesh.parts = parts_of(request, world);
  mesh.schedule.longest = longest_of(mesh.parts);
  switch (request.kind) {
    case OpKind::kAllReduce:
      mesh.schedule.in_flight = 2 * ranks;
      add_all_reduce(mesh);
      break;
    case OpKind::kReduceScatter:
      add_reduce_scatter(mesh);
      break;
    case OpKind::kAllGather:
      mesh.schedule.in_flight = 2;
      add_all_gather(mesh);
      break;
    case OpKind::kBroadcast:
      mesh.schedule.in_flight = 2 * ranks;
      add_broadcast(mesh);
      break;
    case OpKind::kReduce:
      mesh.schedule.in_flight = 2 * ranks;
      add_reduce(mesh);
      break;
    case OpKind::kGather:
      mesh.schedule.in_flight = 2;
      add_gather(mesh);
      break;
    case OpKind::kScatter:
      add_scatter(mesh);
      break;
    case OpKind::kAllToAll:
      add_all_to_all(mesh);
      break;
    default:
      add_barrier(mesh);
      break;
  }
  return std::move(mesh.schedule);
}

}  // namespace trainyard::comm
