// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/algorithms.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

using Make = Schedule (*)(const Request& request, const World& world);

// The kinds of an algorithm as bits.
constexpr std::uint32_t kinds(std::initializer_list<OpKind> list) {
  std::uint32_t bits = 0;
  for (const OpKind kind : list) {
    bits |= 1U << static_cast<unsigned>(kind);
  }
  return bits;
}

struct Entry {
  Algorithm algorithm;
  std::string_view name;
  std::uint32_t kinds;
  Make make;
};

constexpr std::uint32_t kTrees = kinds({OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce});
constexpr std::uint32_t kParts = kTrees | kinds({OpKind::kReduceScatter, OpKind::kAllGather});
constexpr std::uint32_t kExchanges =
    kParts | kinds({OpKind::kGather, OpKind::kScatter, OpKind::kAllToAll});
constexpr std::uint32_t kCopies = kinds(
    {OpKind::kBroadcast, OpKind::kAllGather, OpKind::kGather, OpKind::kScatter, OpKind::kAllToAll});

constexpr std::array kEntries = {
    Entry{Algorithm::kRing, "ring", kParts, make_ring},
    Entry{Algorithm::kHalvingDoubling, "halving_doubling",
          kParts | kinds({OpKind::kGather, OpKind::kScatter, OpKind::kBarrier}),
          make_halving_doubling},
    Entry{Algorithm::kDoubleTree, "double_tree", kTrees, make_double_tree},
    Entry{Algorithm::kDirect, "direct", kExchanges | kinds({OpKind::kBarrier}), make_direct},
    Entry{Algorithm::kDirectSmall, "direct_small", kTrees, make_direct_small},
    Entry{Algorithm::kWindow, "window", kExchanges, make_window},
    Entry{Algorithm::kSingleCopy, "single_copy", kCopies, make_single_copy},
    Entry{Algorithm::kTwoLevel, "two_level", kParts | kinds({OpKind::kBarrier}), make_two_level},
    Entry{Algorithm::kBalanced, "balanced", kinds({OpKind::kAllReduce}), make_balanced},
    Entry{Algorithm::kMesh, "mesh", kinds({OpKind::kAllGather}), make_mesh},
};

const Entry* find(Algorithm algorithm) {
  const auto entry = std::find_if(kEntries.begin(), kEntries.end(),
                                  [&](const Entry& known) { return known.algorithm == algorithm; });
  return entry == kEntries.end() ? nullptr : &*entry;
}

std::size_t count_hosts(const World& world) {
  std::vector<std::int32_t> hosts = world.host;
  std::sort(hosts.begin(), hosts.end());
  return static_cast<std::size_t>(std::unique(hosts.begin(), hosts.end()) - hosts.begin());
}

// A world of one has nobody to speak with.
Schedule copy_alone(Algorithm algorithm, const Request& request) {
  Schedule schedule{.algorithm = std::string(name_of(algorithm)), .longest = request.count};
  if (request.kind != OpKind::kBroadcast) {
    add(schedule, {.own = Slice{Region::kInput, 0, request.count},
                   .store = Slice{Region::kOutput, 0, request.count},
                   .finish = true});
  }
  return schedule;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  const Entry* entry = find(algorithm);
  return entry == nullptr ? "unknown algorithm" : entry->name;
}

Result<Algorithm> parse_algorithm(std::string_view name) {
  std::string names;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      return entry.algorithm;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return Error{Code::kInvalidArgument,
               fmt::format("\"{}\" is no algorithm; they are: {}", name, names)};
}

bool is_available(Algorithm algorithm, OpKind kind, const World& world) {
  const Entry* entry = find(algorithm);
  if (entry == nullptr || (entry->kinds & kinds({kind})) == 0) {
    return false;
  }
  const std::size_t hosts = count_hosts(world);
  if (algorithm == Algorithm::kTwoLevel) {
    return hosts > 1 && hosts < world.host.size();
  }
  if (algorithm == Algorithm::kBalanced || algorithm == Algorithm::kMesh) {
    return hosts > 1;
  }
  const bool is_near = algorithm == Algorithm::kWindow || algorithm == Algorithm::kSingleCopy;
  return !is_near || hosts == 1;
}

Schedule make_schedule(Algorithm algorithm, const Request& request, const World& world) {
  YARD_CHECK(is_available(algorithm, request.kind, world), name_of(algorithm));
  YARD_CHECK(world.host.size() == static_cast<std::size_t>(world.size), "a host for each rank");
  if (world.size == 1) {
    return copy_alone(algorithm, request);
  }
  const bool is_uneven_exchange = request.kind == OpKind::kAllToAll && !request.counts.empty();
  return find(is_uneven_exchange ? Algorithm::kDirect : algorithm)->make(request, world);
}

}  // namespace trainyard::comm
