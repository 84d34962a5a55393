// SPDX-License-Identifier: Apache-2.0
// The control groups of instances, for the local engine: made where this server may make any, with
// what they must be ended by on disk before they exist. Without them instances run all the same,
// unlimited, and end with their process namespaces; the log says once why there are none.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "sandbox/cgroup.h"

namespace trainyard::engine {

// Thread-safe.
class InstanceGroups {
 public:
  // `hierarchies`: where groups are made, those that we may write to; normally
  // sandbox::find_hierarchies().
  InstanceGroups(sandbox::CgroupLimits limits, std::vector<sandbox::CgroupHierarchy> hierarchies);

  // Makes the groups of one instance; <scratch>/cgroups names them, one a line, and tells the
  // supervisor where the container belongs. An error only when that file cannot be written.
  Result<void> make(const std::string& name, const Path& scratch);
  // Kills what is in the groups that <scratch>/cgroups names, and removes them.
  static Result<void> end(const Path& scratch, std::chrono::milliseconds time);

 private:
  Result<void> make_with(const std::string& name, const Path& scratch,
                         const std::vector<sandbox::CgroupHierarchy>& hierarchies);
  Result<void> make_room();
  void tell_once(const std::string& why);

  const sandbox::CgroupLimits limits_;
  Mutex mutex_;  // held while groups are made: they are few and made at once
  std::vector<sandbox::CgroupHierarchy> hierarchies_ GUARDED_BY(mutex_);
  bool was_told_ GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::engine
