// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "comm/schedule/internal/build.h"

namespace trainyard::comm {
namespace {

constexpr double kSlowerByNoise = 1.05;

auto group_of(const Rule& rule) {
  return std::tuple(rule.kind, !rule.windows, rule.hosts, rule.local);
}

std::int32_t most_local(const std::vector<std::vector<std::int32_t>>& hosts) {
  std::size_t most = 0;
  for (const std::vector<std::int32_t>& host : hosts) {
    most = std::max(most, host.size());
  }
  return static_cast<std::int32_t>(most);
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The times of one size, by choice.
using Times = std::map<std::pair<Algorithm, std::uint64_t>, std::vector<double>>;

// The best choice of a size, or the one `before` while it is about as good.
Choice best_of(Times& times, const Choice* before) {
  Choice best;
  double best_time = INFINITY;
  double time_before = INFINITY;
  for (auto& [key, values] : times) {
    const Choice choice{.algorithm = key.first, .piece_bytes = key.second};
    const double time = median_of(values);
    if (time < best_time) {
      best = choice;
      best_time = time;
    }
    if (before != nullptr && choice == *before) {
      time_before = time;
    }
  }
  return before != nullptr && time_before <= best_time * kSlowerByNoise ? *before : best;
}

// Rules like `rule` for all sizes, or up to twice the largest when it is below `enough`.
std::vector<Rule> rules_of(Rule rule, std::map<std::uint64_t, Times>& sizes, std::uint64_t enough) {
  std::vector<Rule> rules;
  std::uint64_t smaller = 0;
  for (auto& [bytes, times] : sizes) {
    const Choice best = best_of(times, rules.empty() ? nullptr : &rules.back().choice);
    if (rules.empty() || best != rules.back().choice) {
      if (!rules.empty()) {
        rules.back().bytes = static_cast<std::uint64_t>(
            std::sqrt(static_cast<double>(smaller) * static_cast<double>(bytes)));
      }
      rule.choice = best;
      rules.push_back(rule);
    }
    smaller = bytes;
  }
  if (smaller < enough) {
    rules.back().bytes = 2 * smaller;
  }
  return rules;
}

}  // namespace

void sort_rules(Choices& choices) {
  std::stable_sort(choices.rules.begin(), choices.rules.end(), [](const Rule& a, const Rule& b) {
    return std::pair(group_of(a), a.bytes) < std::pair(group_of(b), b.bytes);
  });
}

Chooser::Chooser(const Choices& choices, const World& world) {
  const std::vector<std::vector<std::int32_t>> hosts = hosts_of(world);
  const auto host_count = static_cast<std::int32_t>(hosts.size());
  const std::int32_t local = most_local(hosts);
  for (const Rule& rule : choices.rules) {
    const Algorithm algorithm = rule.choice.algorithm;
    if (host_count > rule.hosts || local > rule.local ||
        !is_available(algorithm, rule.kind, world)) {
      continue;
    }
    const auto needed = static_cast<std::size_t>(needed_by(rule));
    const std::uint64_t most = choices.mesh.sort * MeshBuffers::kSortShare;
    const bool is_mesh = algorithm == Algorithm::kMesh;
    const Bound bound{is_mesh ? std::min(rule.bytes, most) : rule.bytes, rule.choice};
    for (std::size_t reach = needed; reach < kReaches; ++reach) {
      bounds_[static_cast<std::size_t>(rule.kind)][reach].push_back(bound);
    }
  }
}

Reach needed_by(const Rule& rule) {
  if (rule.windows || rule.choice.algorithm == Algorithm::kWindow) {
    return Reach::kMapped;
  }
  return rule.choice.algorithm == Algorithm::kSingleCopy ? Reach::kCopied : Reach::kMessages;
}

Choice Chooser::choose(const Request& request, std::size_t dtype_bytes, Reach reach) const {
  if (request.kind == OpKind::kAllToAll && !request.counts.empty()) {
    return {};
  }
  const std::uint64_t bytes = total_of(request) * dtype_bytes;
  const std::vector<Bound>& bounds =
      bounds_[static_cast<std::size_t>(request.kind)][static_cast<std::size_t>(reach)];
  const auto found = std::find_if(bounds.begin(), bounds.end(),
                                  [&](const Bound& bound) { return bytes <= bound.bytes; });
  return found == bounds.end() ? Choice{} : found->choice;
}

Choice choose(const Choices& choices, const Request& request, std::size_t dtype_bytes,
              const World& world, Reach reach) {
  return Chooser(choices, world).choose(request, dtype_bytes, reach);
}

Choices measured(std::span<const Measurement> measurements, const Choices& before,
                 std::uint64_t enough) {
  std::map<decltype(group_of(Rule{})), std::map<std::uint64_t, Times>> groups;
  for (const Measurement& one : measurements) {
    const Rule rule{
        .kind = one.kind, .windows = one.windows, .hosts = one.hosts, .local = one.local};
    const std::pair key(one.choice.algorithm, one.choice.piece_bytes);
    groups[group_of(rule)][one.bytes][key].push_back(one.seconds);
  }
  Choices choices{.mesh = before.mesh};
  for (const Rule& rule : before.rules) {
    if (!groups.contains(group_of(rule))) {
      choices.rules.push_back(rule);
    }
  }
  for (auto& [group, sizes] : groups) {
    const auto& [kind, is_private, hosts, local] = group;
    const Rule like{.kind = kind, .windows = !is_private, .hosts = hosts, .local = local};
    const std::vector<Rule> rules = rules_of(like, sizes, enough);
    choices.rules.insert(choices.rules.end(), rules.begin(), rules.end());
  }
  sort_rules(choices);
  return choices;
}

}  // namespace trainyard::comm
