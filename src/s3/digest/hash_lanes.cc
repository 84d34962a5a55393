// SPDX-License-Identifier: Apache-2.0
#include "s3/digest/hash_lanes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

namespace trainyard::s3 {
namespace {

// Then a leader looks who has come: 16 KiB, about 20 us.
constexpr std::size_t kSlice = (std::size_t{16} << 10) / kBlock;

}  // namespace

HashLanes::HashLanes(std::size_t processors)
    : most_leaders_(std::max<std::size_t>(processors / 2, 1)) {}

void HashLanes::hash(const Lane& lane, std::size_t blocks, bool with_sha256) {
  Job job{.lane = lane, .left = blocks, .with_sha256 = with_sha256};
  while (job.left > 0) {
    if (!join(job)) {
      lead(job);
    }
  }
}

// False when no leader has room. Otherwise a leader has done some of the job, or all.
bool HashLanes::join(Job& job) {
  {
    const MutexLock lock(mutex_);
    const std::size_t room = leaders_.size() < most_leaders_ ? kMostLanes - 1 : kMostLanes;
    const auto with_room = std::ranges::find_if(
        leaders_, [room](const Leader* leader) { return leader->jobs.size() < room; });
    if (with_room == leaders_.end()) {
      return false;
    }
    (*with_room)->jobs.push_back(&job);
    ++(*with_room)->count;
  }
  job.back.sleep();
  return true;
}

void HashLanes::lead(Job& job) {
  Leader leader{.jobs = {&job}, .count = 1};
  {
    const MutexLock lock(mutex_);
    leaders_.push_back(&leader);
  }
  std::vector<Job*> jobs = {&job};
  while (job.left > 0) {
    if (leader.count != jobs.size()) {
      const MutexLock lock(mutex_);
      jobs = leader.jobs;
    }
    if (hash_slice(jobs)) {
      give_back(leader, job);
      jobs.clear();  // looks again
    }
  }
}

// The next bytes of each; whether one of them is done.
bool HashLanes::hash_slice(std::span<Job* const> jobs) {
  std::array<Lane, kMostLanes> lanes;
  std::size_t slice = kSlice;
  bool with_sha256 = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    lanes[i] = jobs[i]->lane;
    slice = std::min(slice, jobs[i]->left);
    with_sha256 |= jobs[i]->with_sha256;  // of the others nobody looks at it
  }
  hash_blocks(std::span(lanes).first(jobs.size()), slice, with_sha256);
  for (Job* const job : jobs) {
    job->lane.bytes += slice * kBlock;
    job->left -= slice;
  }
  return std::ranges::any_of(jobs, [](const Job* job) { return job->left == 0; });
}

// What is done; all, when the leader's own is: the others go on by themselves.
void HashLanes::give_back(Leader& leader, const Job& own) {
  std::vector<Job*> back;
  {
    const MutexLock lock(mutex_);
    const bool ends = own.left == 0;
    const auto stays = [&](const Job* one) { return one == &own || (!ends && one->left > 0); };
    std::ranges::copy_if(leader.jobs, std::back_inserter(back), std::not_fn(stays));
    std::erase_if(leader.jobs, std::not_fn(stays));
    leader.count = leader.jobs.size();
    if (ends) {
      std::erase(leaders_, &leader);
    }
  }
  for (Job* const one : back) {
    one->back.call();
  }
}

}  // namespace trainyard::s3
