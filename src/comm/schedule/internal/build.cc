// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/internal/build.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace trainyard::comm {

void add(Schedule& schedule, Step step) {
  for (const std::optional<Slice>& slice : {step.own, step.store, step.remote}) {
    if (slice) {
      step.length = slice->length;
    }
  }
  if (step.length > 0 || step.token || step.always) {
    schedule.steps.push_back(std::move(step));
  }
}

Slice at(Region region, const Slice& slice) {
  return {region, slice.offset, slice.length};
}

Slice alone(Region region, const Slice& part) {
  return {region, 0, part.length};
}

std::vector<Slice> parts_of(const Request& request, const World& world) {
  const auto size = static_cast<std::uint64_t>(world.size);
  std::vector<Slice> parts;
  parts.reserve(size);
  std::uint64_t offset = 0;
  for (std::uint64_t r = 0; r < size; ++r) {
    if (request.counts.empty()) {
      parts.push_back(part_of(Region::kInput, request.count, size, r));
    } else {
      parts.push_back({Region::kInput, offset, request.counts[r]});
      offset += request.counts[r];
    }
  }
  return parts;
}

std::uint64_t total_of(const Request& request) {
  return request.counts.empty()
             ? request.count
             : std::accumulate(request.counts.begin(), request.counts.end(), std::uint64_t{0});
}

std::uint64_t longest_of(std::span<const Slice> slices) {
  std::uint64_t longest = 0;
  for (const Slice& slice : slices) {
    longest = std::max(longest, slice.length);
  }
  return longest;
}

std::vector<std::int32_t> others_of(const World& world) {
  std::vector<std::int32_t> others;
  for (std::int32_t r = 0; r < world.size; ++r) {
    if (r != world.rank) {
      others.push_back(r);
    }
  }
  return others;
}

std::vector<std::vector<std::int32_t>> hosts_of(const World& world) {
  std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>> hosts;
  for (std::int32_t r = 0; r < world.size; ++r) {
    const std::int32_t number = world.host[static_cast<std::size_t>(r)];
    auto host = std::find_if(hosts.begin(), hosts.end(),
                             [&](const auto& known) { return known.first == number; });
    if (host == hosts.end()) {
      host = hosts.insert(hosts.end(), {number, {}});
    }
    host->second.push_back(r);
  }
  std::vector<std::vector<std::int32_t>> ranks;
  ranks.reserve(hosts.size());
  for (auto& [number, members] : hosts) {
    ranks.push_back(std::move(members));
  }
  return ranks;
}

std::vector<std::int32_t> by_host(const World& world) {
  std::vector<std::int32_t> order;
  for (const std::vector<std::int32_t>& members : hosts_of(world)) {
    order.insert(order.end(), members.begin(), members.end());
  }
  return order;
}

}  // namespace trainyard::comm
