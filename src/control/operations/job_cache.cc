// SPDX-License-Identifier: Apache-2.0
#include "control/operations/job_cache.h"

#include <utility>

namespace trainyard::control {
namespace {

// Together a few MiB at most.
constexpr std::size_t kMostJobs = 128;
constexpr std::size_t kMostBytes = std::size_t{16} << 10;

}  // namespace

Result<std::shared_ptr<const Job>> JobCache::parse(JobRow row) {
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(row.name);
    if (found != entries_.end() && found->second.row == row) {
      return found->second.job;
    }
  }
  YARD_TRY(Job parsed, parse_job(row));
  auto job = std::make_shared<const Job>(std::move(parsed));
  if (row.request.size() + row.state.size() > kMostBytes) {
    return job;
  }
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMostJobs && !entries_.contains(row.name)) {
    entries_.clear();
  }
  std::string name = row.name;
  entries_[std::move(name)] = {.row = std::move(row), .job = job};
  return job;
}

}  // namespace trainyard::control
