// SPDX-License-Identifier: Apache-2.0
// Lets threads that hash at the same time hash for one another: who comes while another is at it
// hands over its blocks and sleeps, and the other goes on with both, which takes it no longer than
// its own alone (blocks.h). The rest of the processor is free for what else the requests need. Who
// is alone hashes alone and waits for nobody. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/wake_up.h"
#include "s3/digest/blocks.h"

namespace trainyard::s3 {

class HashLanes {
 public:
  // Fewer bytes are hashed sooner than another thread is woken.
  static constexpr std::size_t kWorthSharing = std::size_t{64} << 10;

  // Two messages beside each other are free. Once this many threads hash, they take three, which
  // each takes a third longer: better than that the fourth waits for a processor.
  explicit HashLanes(std::size_t processors);

  // As hash_blocks() of that lane. Returns when it is done, by whomever.
  void hash(const Lane& lane, std::size_t blocks, bool with_sha256);

 private:
  struct Job {
    Lane lane;
    std::size_t left;  // blocks
    bool with_sha256;
    WakeUp back = {};  // it is hashed, or its leader has gone
  };
  // The thread that hashes for those who have joined it, until its own job is done. The leader
  // alone touches a job's lane; `jobs` changes under the mutex only.
  struct Leader {
    std::vector<Job*> jobs;
    std::atomic<std::size_t> count;  // of them, to be seen without the mutex
  };

  bool join(Job& job);
  void lead(Job& job);
  static bool hash_slice(std::span<Job* const> jobs);
  void give_back(Leader& leader, const Job& own);

  const std::size_t most_leaders_;
  Mutex mutex_;
  std::vector<Leader*> leaders_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::s3
