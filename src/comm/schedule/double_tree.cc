// SPDX-License-Identifier: Apache-2.0
// Double tree (Sanders, Speck, Träff 2009): two binary trees, each for half of the buffer, in which
// no rank is inner in both: all links are busy both ways, and the depth is logarithmic. With a
// root, the trees are of the other ranks and the root speaks with the tops of both.
#include <algorithm>

#include "comm/schedule/internal/build.h"
#include "comm/schedule/internal/tree.h"

namespace trainyard::comm {
namespace {

// The second order: leaves, which are at odd positions (from 1), change places with inner ranks.
void complement(std::vector<std::int32_t>& order) {
  if (order.size() % 2 == 0) {
    std::reverse(order.begin(), order.end());
  } else {
    std::rotate(order.begin(), order.end() - 1, order.end());
  }
}

// `root` above the binary tree of `order`.
Tree below_root(const std::vector<std::int32_t>& order, std::int32_t root, std::int32_t rank) {
  if (rank != root) {
    Tree tree = binary(order, rank);
    if (!tree.parent) {
      tree.parent = root;
    }
    ++tree.depth;
    ++tree.height;
    return tree;
  }
  const auto is_top = [&](std::int32_t other) { return !binary(order, other).parent; };
  const std::int32_t top = *std::find_if(order.begin(), order.end(), is_top);
  return {.children = {top}, .height = binary(order, top).height + 1};
}

}  // namespace

Schedule make_double_tree(const Request& request, const World& world) {
  Schedule schedule{.algorithm = "double_tree", .in_flight = 6};
  schedule.longest = part_of(Region::kInput, request.count, 2, 0).length;
  std::vector<std::int32_t> order = by_host(world);
  if (request.kind != OpKind::kAllReduce) {
    order.erase(std::find(order.begin(), order.end(), request.root));
  }
  for (std::uint64_t half = 0; half < 2; ++half) {
    const Ends ends{.own = part_of(Region::kInput, request.count, 2, half),
                    .store = part_of(Region::kOutput, request.count, 2, half)};
    if (request.kind == OpKind::kAllReduce) {
      add_all_reduce(schedule, binary(order, world.rank), ends);
    } else if (request.kind == OpKind::kBroadcast) {
      add_broadcast(schedule, below_root(order, request.root, world.rank), ends, 0);
    } else {
      add_reduce(schedule, below_root(order, request.root, world.rank), ends, 0);
    }
    complement(order);
  }
  return schedule;
}

}  // namespace trainyard::comm
