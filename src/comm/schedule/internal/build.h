// SPDX-License-Identifier: Apache-2.0
// What the files of this folder build schedules with, one function per algorithm. Each of them is
// called with two ranks or more and for kinds that is_available names; algorithms.cc dispatches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/schedule.h"

namespace trainyard::comm {

Schedule make_ring(const Request& request, const World& world);
Schedule make_halving_doubling(const Request& request, const World& world);
Schedule make_double_tree(const Request& request, const World& world);
Schedule make_direct(const Request& request, const World& world);
Schedule make_direct_small(const Request& request, const World& world);
Schedule make_window(const Request& request, const World& world);
Schedule make_single_copy(const Request& request, const World& world);
Schedule make_two_level(const Request& request, const World& world);
Schedule make_balanced(const Request& request, const World& world);
Schedule make_mesh(const Request& request, const World& world);
// The rooted kinds of halving-doubling.
Schedule make_binomial(const Request& request, const World& world);

// Puts the length of its slices into `step` and appends it, unless it has nothing to do.
void add(Schedule& schedule, Step step);

// The same elements in another region.
Slice at(Region region, const Slice& slice);
// The first elements of `region`, as many as `part` has: where a rank keeps its own part alone.
Slice alone(Region region, const Slice& part);

// The parts of all ranks in the whole buffer, by `counts` or near-equal.
std::vector<Slice> parts_of(const Request& request, const World& world);
std::uint64_t total_of(const Request& request);  // elements of the whole buffer
std::uint64_t longest_of(std::span<const Slice> slices);

std::vector<std::int32_t> others_of(const World& world);  // all ranks but this one, ascending

// Ranks in the order of their hosts, hosts in the order of their first ranks: neighbours are near.
std::vector<std::int32_t> by_host(const World& world);
// The same, host by host.
std::vector<std::vector<std::int32_t>> hosts_of(const World& world);

}  // namespace trainyard::comm
