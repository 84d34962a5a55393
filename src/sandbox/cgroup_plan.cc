// SPDX-License-Identifier: Apache-2.0
#include "sandbox/cgroup_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "sandbox/mounts.h"

namespace trainyard::sandbox {
namespace {

constexpr int kPeriod = 100'000;  // microseconds, the kernel's default

bool has(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

struct Value {
  std::string file;
  std::string value;
  bool where_it_exists = false;
};

struct Wanted {
  std::string controller;
  std::vector<Value> files_v1;
  std::vector<Value> files_v2;
};

// What to write for each limit. Without a memory limit the controller still counts kills.
std::vector<Wanted> wanted_of(const CgroupLimits& limits) {
  std::vector<Wanted> wanted;
  Wanted memory{.controller = "memory", .files_v1 = {}, .files_v2 = {}};
  if (limits.memory > 0) {
    const std::string bytes = std::to_string(limits.memory);
    // Version 1 counts memory and swap in one sum, which may not be less than the memory alone.
    memory.files_v1 = {{"memory.limit_in_bytes", bytes},
                       {"memory.memsw.limit_in_bytes", bytes, true}};
    memory.files_v2 = {{"memory.max", bytes}, {"memory.swap.max", "0", true}};
  }
  wanted.push_back(std::move(memory));
  if (limits.processes > 0) {
    const std::string count = std::to_string(limits.processes);
    wanted.push_back({.controller = "pids",
                      .files_v1 = {{"pids.max", count}},
                      .files_v2 = {{"pids.max", count}}});
  }
  if (limits.cpus > 0) {
    const auto quota = std::max(1'000L, static_cast<long>(limits.cpus * kPeriod));
    wanted.push_back({.controller = "cpu",
                      .files_v1 = {{"cpu.cfs_period_us", std::to_string(kPeriod)},
                                   {"cpu.cfs_quota_us", std::to_string(quota)}},
                      .files_v2 = {{"cpu.max", fmt::format("{} {}", quota, kPeriod)}}});
  }
  return wanted;
}

void add_limits(const Path& group, const std::vector<Value>& files, CgroupPlan& plan) {
  for (const auto& [file, value, where_it_exists] : files) {
    plan.limits.push_back(
        {.file = group / file, .value = value, .where_it_exists = where_it_exists});
  }
}

void plan_version_2(const CgroupHierarchy& hierarchy, const Path& group,
                    std::vector<Wanted>& wanted, CgroupPlan& plan) {
  plan.groups.push_back(group);
  std::string handed_on;
  std::erase_if(wanted, [&](const Wanted& one) {
    if (!has(hierarchy.controllers, one.controller)) {
      return false;
    }
    handed_on += (handed_on.empty() ? "+" : " +") + one.controller;
    add_limits(group, one.files_v2, plan);
    return true;
  });
  if (!handed_on.empty()) {
    plan.before.push_back({.file = hierarchy.own / "cgroup.subtree_control", .value = handed_on});
  }
}

void plan_version_1(const CgroupHierarchy& hierarchy, const Path& group,
                    std::vector<Wanted>& wanted, CgroupPlan& plan) {
  const std::size_t before = wanted.size();
  std::erase_if(wanted, [&](const Wanted& one) {
    if (!has(hierarchy.controllers, one.controller)) {
      return false;
    }
    add_limits(group, one.files_v1, plan);
    return true;
  });
  if (wanted.size() != before || has(hierarchy.controllers, "freezer")) {
    plan.groups.push_back(group);
  }
}

// Where a group of /proc/self/cgroup lies: the mount may show a part of the hierarchy only. Empty
// when the group is in another part.
std::optional<Path> place_of(const Mount& mount, std::string_view group) {
  std::string_view below = group;
  if (mount.root != "/") {
    if (!below.starts_with(mount.root)) {
      return std::nullopt;
    }
    below.remove_prefix(mount.root.size());
    if (!below.empty() && !below.starts_with('/')) {
      return std::nullopt;
    }
  }
  while (below.starts_with('/')) {
    below.remove_prefix(1);
  }
  return below.empty() ? mount.point : mount.point / below;
}

bool shows(const Mount& mount, const std::vector<std::string>& controllers) {
  if (controllers.empty()) {
    return mount.type == "cgroup2";
  }
  return mount.type == "cgroup" &&
         std::all_of(controllers.begin(), controllers.end(),
                     [&](const auto& controller) { return has(mount.options, controller); });
}

}  // namespace

std::vector<CgroupHierarchy> parse_hierarchies(std::string_view mountinfo,
                                               std::string_view cgroup) {
  const std::vector<Mount> mounts = parse_mountinfo(mountinfo);
  std::vector<CgroupHierarchy> found;
  for (const std::string_view line : split(cgroup, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    std::vector<std::string> controllers;
    for (const std::string_view controller : split(fields[1], ',')) {
      if (!controller.empty()) {
        controllers.emplace_back(controller);
      }
    }
    const std::string_view group = line.substr(fields[0].size() + fields[1].size() + 2);
    for (const Mount& mount : mounts) {
      const auto own = shows(mount, controllers) ? place_of(mount, group) : std::nullopt;
      if (own) {
        found.push_back({.version = controllers.empty() ? 2 : 1,
                         .controllers = controllers,
                         .own = *own,
                         .top = mount.point});
        break;
      }
    }
  }
  return found;
}

std::optional<CgroupHierarchy> outside_of_session(const CgroupHierarchy& hierarchy) {
  const Path below = hierarchy.own.lexically_relative(hierarchy.top);
  if (hierarchy.version != 2 || hierarchy.top.empty() || *below.begin() != "user.slice") {
    return std::nullopt;
  }
  return CgroupHierarchy{
      .version = 2, .controllers = {}, .own = hierarchy.top / "trainyard", .top = hierarchy.top};
}

CgroupPlan plan_cgroup(const std::string& name, const CgroupLimits& limits,
                       const std::vector<CgroupHierarchy>& hierarchies) {
  std::vector<Wanted> wanted = wanted_of(limits);
  CgroupPlan plan;
  for (const CgroupHierarchy& hierarchy : hierarchies) {
    const Path group = hierarchy.own / name;
    if (hierarchy.version == 2) {
      plan_version_2(hierarchy, group, wanted, plan);
    } else {
      plan_version_1(hierarchy, group, wanted, plan);
    }
  }
  for (const Wanted& left : wanted) {
    if (!left.files_v1.empty()) {
      plan.unlimited.push_back(left.controller);
    }
  }
  return plan;
}

}  // namespace trainyard::sandbox
