// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/cores.h"

#include <vector>

#include <sched.h>

namespace trainyard::comm {
namespace {

constexpr int kNobody = -1;

bool may_run_on(const Board::Cpus& cpus, std::size_t cpu) {
  return (cpus[cpu / 64] >> (cpu % 64) & 1U) != 0;
}

class Matching {
 public:
  explicit Matching(std::span<const Board::Cpus> ranks)
      : ranks_(ranks), owner_(Board::kMaxCpus, kNobody) {}

  // Gives `rank` a processor, moving others to other ones of theirs where it must.
  bool place(std::size_t rank) {
    tried_.assign(Board::kMaxCpus, false);
    return try_place(rank);
  }

 private:
  bool try_place(std::size_t rank) {
    for (std::size_t cpu = 0; cpu < Board::kMaxCpus; ++cpu) {
      if (!may_run_on(ranks_[rank], cpu) || tried_[cpu]) {
        continue;
      }
      tried_[cpu] = true;
      if (owner_[cpu] == kNobody || try_place(static_cast<std::size_t>(owner_[cpu]))) {
        owner_[cpu] = static_cast<int>(rank);
        return true;
      }
    }
    return false;
  }

  std::span<const Board::Cpus> ranks_;
  std::vector<int> owner_;
  std::vector<bool> tried_;
};

}  // namespace

Board::Cpus allowed_cpus() {
  Board::Cpus cpus = {};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return cpus;
  }
  for (std::size_t cpu = 0; cpu < Board::kMaxCpus; ++cpu) {
    if (CPU_ISSET(cpu, &set)) {
      cpus[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    }
  }
  return cpus;
}

bool have_a_core_each(std::span<const Board::Cpus> ranks) {
  Matching matching(ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!matching.place(rank)) {
      return false;
    }
  }
  return true;
}

}  // namespace trainyard::comm
