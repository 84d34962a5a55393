// SPDX-License-Identifier: Apache-2.0
// Decides the control groups of one instance: where they lie and what is written there, for version
// 1 and version 2 of the kernel's interface and for machines that have both, as one value. cgroup.h
// carries it out. The groups lie below the caller's own, so that limits of what surrounds us (a
// container, a user's slice) hold for instances, too.
// Source: Linux, Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::sandbox {

struct CgroupLimits {
  std::uint64_t memory = 0;     // bytes, page cache and swap included; 0: no limit
  std::uint64_t processes = 0;  // threads count; 0: no limit
  double cpus = 0;              // processor seconds a second; 0: no limit

  bool operator==(const CgroupLimits&) const = default;
};

// One mounted hierarchy, and the caller's own group in it.
struct CgroupHierarchy {
  int version = 2;
  std::vector<std::string> controllers;  // "memory"; of version 2: those that the own group has
  Path own;
  Path top = {};  // where it is mounted

  bool operator==(const CgroupHierarchy&) const = default;
};

// From the texts of /proc/self/mountinfo and /proc/self/cgroup. The controllers of a version 2
// hierarchy are not in there: its list is empty.
std::vector<CgroupHierarchy> parse_hierarchies(std::string_view mountinfo, std::string_view cgroup);

// Version 2, when the own group is one of a user's login session, which holds a shell and more: the
// group "trainyard" at the top of the hierarchy, whose root alone may hold processes and hand
// controllers on. Nothing elsewhere: a service's or a container's limits are meant for us.
std::optional<CgroupHierarchy> outside_of_session(const CgroupHierarchy& hierarchy);

struct CgroupWrite {
  Path file;
  std::string value;
  bool where_it_exists = false;  // a kernel that does not account swap lacks the file

  bool operator==(const CgroupWrite&) const = default;
};

struct CgroupPlan {
  std::vector<CgroupWrite> before;     // hands controllers on to the groups below our own
  std::vector<Path> groups;            // to be made
  std::vector<CgroupWrite> limits;     // to be written once they are
  std::vector<std::string> unlimited;  // wanted limits that no hierarchy has a controller for
};

// A version 2 hierarchy is always used, for its way to kill a group; one of version 1 only for a
// controller that it has and that is of use.
CgroupPlan plan_cgroup(const std::string& name, const CgroupLimits& limits,
                       const std::vector<CgroupHierarchy>& hierarchies);

}  // namespace trainyard::sandbox
