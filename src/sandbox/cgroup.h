// SPDX-License-Identifier: Apache-2.0
// Makes, kills and removes the control groups that cgroup_plan.h decides. What is made is a list of
// directories: whoever remembers that can end and remove the groups, after any crash.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "sandbox/cgroup_plan.h"

namespace trainyard::sandbox {

// The hierarchies of this machine, with the controllers that a version 2 one offers here.
std::vector<CgroupHierarchy> find_hierarchies();
// Whether this process may make groups below its own there.
bool may_divide(const CgroupHierarchy& hierarchy);

// Makes the groups and writes the limits. All or none. kDenied where the own group is not ours to
// divide: an ordinary user needs one that was delegated. kConflict where it cannot be divided while
// processes live in it.
Result<void> make_cgroup(const CgroupPlan& plan);

// Version 2 hands no controller on from a group in which processes live. Answers where groups can
// be made instead: in `hierarchy`, after this process has left its own group, where it lived alone,
// for "trainyard-server" below; otherwise, for root in a login session, outside of that
// (outside_of_session()). kConflict when others live in the own group and it is neither.
Result<CgroupHierarchy> make_room(const CgroupHierarchy& hierarchy, bool is_root);

// Kills all that live in the groups, and what they start meanwhile: at one stroke where the kernel
// has cgroup.kill. kDeadline when some do not die in time.
Result<void> kill_cgroup(const std::vector<Path>& groups, std::chrono::milliseconds time);

// The groups that `file` lists, one a line, as who made them wrote it; none when it is missing.
std::vector<Path> read_groups(const Path& file);

// The groups must be empty, or become so in time; what is gone already is no error.
Result<void> remove_cgroup(const std::vector<Path>& groups, std::chrono::milliseconds time);

// How often the kernel has killed something in these groups for memory; empty when none of them
// counts it.
std::optional<std::uint64_t> memory_kills(const std::vector<Path>& groups);

}  // namespace trainyard::sandbox
