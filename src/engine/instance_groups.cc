// SPDX-License-Identifier: Apache-2.0
#include "engine/instance_groups.h"

#include "base/log.h"
#include "base/text.h"

namespace trainyard::engine {
namespace {

using sandbox::CgroupHierarchy;

Path list_in(const Path& scratch) {
  return scratch / "cgroups";
}

// Version 2 without its controllers still kills a group at one stroke, and needs nobody to leave.
std::vector<CgroupHierarchy> without_controllers(std::vector<CgroupHierarchy> hierarchies) {
  for (CgroupHierarchy& hierarchy : hierarchies) {
    if (hierarchy.version == 2) {
      hierarchy.controllers.clear();
    }
  }
  return hierarchies;
}

}  // namespace

InstanceGroups::InstanceGroups(sandbox::CgroupLimits limits,
                               std::vector<CgroupHierarchy> hierarchies)
    : limits_(limits), hierarchies_(std::move(hierarchies)) {
  // One that is not ours must not keep the others from being used.
  std::erase_if(hierarchies_, [](const CgroupHierarchy& one) { return !sandbox::may_divide(one); });
}

Result<void> InstanceGroups::make(const std::string& name, const Path& scratch) {
  const MutexLock lock(mutex_);
  Result<void> made = make_with(name, scratch, hierarchies_);
  if (!made && made.error().code == Code::kConflict) {
    made = make_room();
    made = made ? make_with(name, scratch, hierarchies_) : made;
    if (!made) {
      hierarchies_ = without_controllers(std::move(hierarchies_));
    }
  }
  if (made) {
    return {};
  }
  tell_once(made.error().message);
  made = make_with(name, scratch, without_controllers(hierarchies_));
  return made ? made : write_file(list_in(scratch), "", 0600);
}

Result<void> InstanceGroups::make_with(const std::string& name, const Path& scratch,
                                       const std::vector<CgroupHierarchy>& hierarchies) {
  const sandbox::CgroupPlan plan = sandbox::plan_cgroup(name, limits_, hierarchies);
  std::string list;
  for (const Path& group : plan.groups) {
    list += group.string() + "\n";
  }
  YARD_TRY(write_file(list_in(scratch), list, 0600));
  YARD_TRY(sandbox::make_cgroup(plan));
  if (!plan.unlimited.empty()) {
    tell_once("no control group that this user may divide limits " + join(plan.unlimited, ", ") +
              " (docs/without-root.md)");
  }
  return {};
}

Result<void> InstanceGroups::make_room() {
  for (CgroupHierarchy& hierarchy : hierarchies_) {
    if (hierarchy.version == 2 && !hierarchy.controllers.empty()) {
      YARD_TRY(hierarchy, sandbox::make_room(hierarchy, geteuid() == 0));
    }
  }
  return {};
}

void InstanceGroups::tell_once(const std::string& why) {
  if (!was_told_) {
    log_warning("instances run without some of their limits: " + why);
  }
  was_told_ = true;
}

Result<void> InstanceGroups::end(const Path& scratch, std::chrono::milliseconds time) {
  const std::vector<Path> groups = sandbox::read_groups(list_in(scratch));
  YARD_TRY(sandbox::kill_cgroup(groups, time));
  return sandbox::remove_cgroup(groups, time);
}

}  // namespace trainyard::engine
