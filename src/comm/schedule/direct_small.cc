// SPDX-License-Identifier: Apache-2.0
// Direct, for small buffers: one hop. In an all-reduce everyone sends all it has to all and
// combines everything in the order of ranks: n - 1 times the bytes, but one latency, and the same
// bits everywhere.
#include "comm/schedule/internal/build.h"

namespace trainyard::comm {

Schedule make_direct_small(const Request& request, const World& world) {
  Schedule schedule{.algorithm = "direct_small", .longest = request.count, .in_flight = 2};
  const Slice in{Region::kInput, 0, request.count};
  const Slice out{Region::kOutput, 0, request.count};
  const std::vector<std::int32_t> others = others_of(world);
  const bool is_root = world.rank == request.root;
  if (request.kind == OpKind::kBroadcast) {
    add(schedule, is_root ? Step{.own = in, .to = others}
                          : Step{.from = {request.root}, .store = out, .level = 1});
    return schedule;
  }
  const bool is_for_all = request.kind == OpKind::kAllReduce;
  if (is_for_all) {
    add(schedule, {.own = in, .to = others});
  } else if (!is_root) {
    add(schedule, {.own = in, .to = {request.root}});
  }
  if (is_for_all || is_root) {
    add(schedule, {.from = others, .own = in, .store = out, .level = 1, .finish = true});
  }
  return schedule;
}

}  // namespace trainyard::comm
