// SPDX-License-Identifier: Apache-2.0
// How far the first two processors of this process are from each other now, as the library itself
// measures it: the median of some ping-pongs between two threads that are bound to them.
//   comm_latency
#include "comm/transport/shm/latency.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>

namespace {

using trainyard::comm::LatencyProbe;
using trainyard::comm::ProbeLines;

constexpr int kProbes = 9;
constexpr std::size_t kBuffer = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kLimit{500};  // of one probe, whose cores others may have

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> found;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      found.push_back(cpu);
    }
  }
  return found;
}

void bind(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

// Nanoseconds one way, 0 when the two threads did not meet in time.
std::int64_t probe(const std::vector<int>& cpus) {
  ProbeLines lines;
  std::vector<std::byte> buffer(kBuffer);
  const std::array roles = {LatencyProbe::Role::kMeasures, LatencyProbe::Role::kAnswers};
  std::vector<std::jthread> threads;
  threads.reserve(roles.size());
  for (std::size_t side = 0; side < roles.size(); ++side) {
    threads.emplace_back([&, side] {
      bind(cpus[side]);
      LatencyProbe one(lines, buffer, roles[side]);
      one.measure_now(kLimit, [] { return false; });
    });
  }
  threads.clear();
  return static_cast<std::int64_t>(lines.one_way_ns.value.load());
}

}  // namespace

int main() {
  const std::vector<int> cpus = allowed_processors();
  std::vector<std::int64_t> found;
  for (int i = 0; cpus.size() > 1 && i < kProbes; ++i) {
    if (const std::int64_t one_way = probe(cpus); one_way > 0) {
      found.push_back(one_way);
    }
  }
  if (found.empty()) {
    fmt::print("{{\"one_way_ns\": null}}\n");
    return 0;
  }
  std::sort(found.begin(), found.end());
  fmt::print("{{\"one_way_ns\": {}}}\n", found[found.size() / 2]);
  return 0;
}
