// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/tree.h"

#include <algorithm>
#include <bit>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

std::size_t position_of(std::span<const std::int32_t> order, std::int32_t rank) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin());
}

// A stretch of positions, both ends included; empty when first > last.
struct Stretch {
  std::uint32_t first = 1;
  std::uint32_t last = 0;
  bool is_empty() const { return first > last; }
  // The position with the most trailing zeros: `last` without the bits below the highest one in
  // which first - 1 and last differ.
  std::uint32_t top() const { return last & ~(std::bit_floor((first - 1) ^ last) - 1); }
  Stretch left() const { return {first, top() - 1}; }
  Stretch right() const { return {top() + 1, last}; }
};

std::int32_t height_of(Stretch stretch) {
  if (stretch.is_empty()) {
    return -1;
  }
  return 1 + std::max(height_of(stretch.left()), height_of(stretch.right()));
}

}  // namespace

Tree chain(std::span<const std::int32_t> order, std::int32_t rank) {
  const std::size_t position = position_of(order, rank);
  Tree tree{.depth = static_cast<std::int32_t>(position),
            .height = static_cast<std::int32_t>(order.size()) - 1};
  if (position > 0) {
    tree.parent = order[position - 1];
  }
  if (position + 1 < order.size()) {
    tree.children = {order[position + 1]};
  }
  return tree;
}

Tree binomial(std::span<const std::int32_t> order, std::int32_t rank) {
  const std::size_t position = position_of(order, rank);
  Tree tree{.depth = std::popcount(position)};
  if (position > 0) {
    tree.parent = order[position & (position - 1)];
  }
  const std::size_t lowest = position == 0 ? std::bit_ceil(order.size()) : position & -position;
  for (std::size_t bit = 1; bit < lowest && position + bit < order.size(); bit *= 2) {
    tree.children.push_back(order[position + bit]);
  }
  std::sort(tree.children.begin(), tree.children.end());
  // The position with the most bits below size is all ones, or `last` with its lowest one moved.
  for (std::size_t at = 0; at < order.size(); ++at) {
    tree.height = std::max(tree.height, std::popcount(at));
  }
  return tree;
}

Tree binary(std::span<const std::int32_t> order, std::int32_t rank) {
  const auto wanted = static_cast<std::uint32_t>(position_of(order, rank)) + 1;
  Stretch stretch{1, static_cast<std::uint32_t>(order.size())};
  Tree tree{.height = height_of(stretch)};
  while (stretch.top() != wanted) {
    tree.parent = order[stretch.top() - 1];
    stretch = wanted < stretch.top() ? stretch.left() : stretch.right();
    ++tree.depth;
  }
  for (const Stretch& side : {stretch.left(), stretch.right()}) {
    if (!side.is_empty()) {
      tree.children.push_back(order[side.top() - 1]);
    }
  }
  std::sort(tree.children.begin(), tree.children.end());
  return tree;
}

void add_reduce(Schedule& schedule, const Tree& tree, const Ends& ends, std::int32_t level) {
  Step step{.from = tree.children, .own = ends.own, .level = level + tree.height - tree.depth};
  if (tree.parent) {
    step.to = {*tree.parent};
  } else {
    step.store = ends.store;
    step.finish = true;
  }
  add(schedule, step);
}

void add_broadcast(Schedule& schedule, const Tree& tree, const Ends& ends, std::int32_t level) {
  Step step{.to = tree.children, .level = level + tree.depth};
  if (tree.parent) {
    step.from = {*tree.parent};
    step.store = ends.store;
  } else {
    step.own = ends.own;
  }
  add(schedule, step);
}

void add_all_reduce(Schedule& schedule, const Tree& tree, const Ends& ends) {
  add_reduce(schedule, tree, ends, 0);
  if (tree.parent) {
    add_broadcast(schedule, tree, ends, tree.height);
  } else if (ends.own.length > 0) {
    schedule.steps.back().to = tree.children;
  }
}

}  // namespace trainyard::comm
