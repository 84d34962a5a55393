// SPDX-License-Identifier: Apache-2.0
// One rank's place in a tree of ranks, and the steps that move a slice up or down a tree. A rank at
// depth d sends d levels before or after the root, so that all children of a rank speak at one
// level and are combined in one pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/schedule/schedule.h"

namespace trainyard::comm {

struct Tree {
  std::optional<std::int32_t> parent = {};
  std::vector<std::int32_t> children = {};  // ascending
  std::int32_t depth = 0;
  std::int32_t height = 0;  // the depth of the deepest rank
};

// `order` has all ranks of the tree, among them `rank`; order[0] is the root of the first two.
Tree chain(std::span<const std::int32_t> order, std::int32_t rank);
// Position x hangs below x without its lowest bit.
Tree binomial(std::span<const std::int32_t> order, std::int32_t rank);
// Of every stretch of positions (counted from 1), the one with the most trailing zeros is above the
// stretches at its sides: odd positions are leaves.
Tree binary(std::span<const std::int32_t> order, std::int32_t rank);

// What a rank has and what it gets, of the slice that moves.
struct Ends {
  Slice own;
  Slice store;
};

// To the root's `store`, from everyone's `own`; from `level` on, `height` levels.
void add_reduce(Schedule& schedule, const Tree& tree, const Ends& ends, std::int32_t level);
// From the root's `own`, to the `store` of all others.
void add_broadcast(Schedule& schedule, const Tree& tree, const Ends& ends, std::int32_t level);
// Up and down again, 2 * height levels.
void add_all_reduce(Schedule& schedule, const Tree& tree, const Ends& ends);

}  // namespace trainyard::comm
