// SPDX-License-Identifier: Apache-2.0
#include "sandbox/cgroup.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/process.h"

namespace trainyard::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTurn{2};

std::string text_of(const Path& file) {
  Result<std::string> text = read_file(file);
  return text ? std::move(*text) : std::string();
}

bool is_there(const Path& path) {
  return access(path.c_str(), F_OK) == 0;
}

// These files take one write of the whole value.
Result<void> write_value(const CgroupWrite& write) {
  const int fd = open(write.file.c_str(), O_WRONLY | O_CLOEXEC);
  const Fd file(fd);
  if (fd < 0 || ::write(fd, write.value.data(), write.value.size()) < 0) {
    const int error = errno;
    const std::string what = fmt::format("write {} to {}", write.value, write.file.string());
    if (error == EBUSY) {
      return Error{Code::kConflict, what + ": processes live in that group itself"};
    }
    return errno_error(what, error);
  }
  return {};
}

std::set<pid_t> members_of(const Path& group) {
  const std::string text = text_of(group / "cgroup.procs");
  std::set<pid_t> members;
  for (const std::string_view line : split(text, '\n')) {
    if (const Result<std::int64_t> pid = parse_int(line); pid && *pid > 0) {
      members.insert(static_cast<pid_t>(*pid));
    }
  }
  return members;
}

// A number may be another's by now. Who is listed after the descriptor was opened, and is alive,
// lives in the group, whoever had the number before. Few at a time: descriptors are not plenty.
void kill_listed(const Path& group) {
  constexpr std::size_t kAtOnce = 64;
  const std::set<pid_t> members = members_of(group);
  for (auto next = members.begin(); next != members.end();) {
    std::vector<std::pair<pid_t, Fd>> opened;
    for (; next != members.end() && opened.size() < kAtOnce; ++next) {
      opened.emplace_back(*next, Fd(static_cast<int>(syscall(SYS_pidfd_open, *next, 0))));
    }
    const std::set<pid_t> listed = members_of(group);
    for (const auto& [pid, process] : opened) {
      if (process.is_open() && listed.contains(pid)) {
        kill_now(process.get());
      }
    }
  }
}

// One round of version 1: frozen where the group can be, so that fewer are started while the list
// is gone through; the next round finds who was missed. The fatal signal waits for the thaw.
void kill_members(const Path& group) {
  const Path state = group / "freezer.state";
  const bool can_freeze = is_there(state);
  if (can_freeze) {
    static_cast<void>(write_value({.file = state, .value = "FROZEN"}));
  }
  kill_listed(group);
  if (can_freeze) {
    static_cast<void>(write_value({.file = state, .value = "THAWED"}));
  }
}

bool is_empty(const std::vector<Path>& groups) {
  return std::all_of(groups.begin(), groups.end(),
                     [](const Path& group) { return members_of(group).empty(); });
}

std::optional<std::uint64_t> count_in(const Path& file, std::string_view name) {
  const std::string text = text_of(file);
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() == 2 && words[0] == name) {
      const Result<std::int64_t> count = parse_int(words[1]);
      return count ? std::optional<std::uint64_t>(*count) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::vector<std::string> controllers_in(const Path& group) {
  const std::string offered = text_of(group / "cgroup.controllers");
  std::vector<std::string> controllers;
  for (const std::string_view controller : split(trim(offered), ' ')) {
    if (!controller.empty()) {
      controllers.emplace_back(controller);
    }
  }
  return controllers;
}

// From `hierarchy.own` into a group "trainyard-server" below it.
Result<void> leave_own_group(const CgroupHierarchy& hierarchy) {
  const Path below = hierarchy.own / "trainyard-server";
  if (mkdir(below.c_str(), 0755) != 0 && errno != EEXIST) {
    return errno_error("make the control group " + below.string(), errno);
  }
  return write_value({.file = below / "cgroup.procs", .value = std::to_string(getpid())});
}

// The group of `outside` with the controllers that the root of the hierarchy can give it.
Result<CgroupHierarchy> move_outside(CgroupHierarchy outside) {
  outside.controllers = controllers_in(outside.top);
  std::erase_if(outside.controllers, [](const std::string& controller) {
    return controller != "memory" && controller != "pids" && controller != "cpu";
  });
  std::string handed_on;
  for (const std::string& controller : outside.controllers) {
    handed_on += (handed_on.empty() ? "+" : " +") + controller;
  }
  if (!handed_on.empty()) {
    YARD_TRY(write_value({.file = outside.top / "cgroup.subtree_control", .value = handed_on}));
  }
  if (mkdir(outside.own.c_str(), 0755) != 0 && errno != EEXIST) {
    return errno_error("make the control group " + outside.own.string(), errno);
  }
  return outside;
}

}  // namespace

std::vector<CgroupHierarchy> find_hierarchies() {
  std::vector<CgroupHierarchy> found =
      parse_hierarchies(text_of("/proc/self/mountinfo"), text_of("/proc/self/cgroup"));
  for (CgroupHierarchy& hierarchy : found) {
    if (hierarchy.version == 2) {
      hierarchy.controllers = controllers_in(hierarchy.own);
    }
  }
  return found;
}

bool may_divide(const CgroupHierarchy& hierarchy) {
  return access(hierarchy.own.c_str(), W_OK | X_OK) == 0;
}

Result<void> make_cgroup(const CgroupPlan& plan) {
  std::vector<Path> made;
  const auto make_all = [&]() -> Result<void> {
    for (const CgroupWrite& write : plan.before) {
      YARD_TRY(write_value(write));
    }
    for (const Path& group : plan.groups) {
      if (mkdir(group.c_str(), 0755) != 0 && errno != EEXIST) {
        return errno_error("make the control group " + group.string(), errno);
      }
      made.push_back(group);
    }
    for (const CgroupWrite& write : plan.limits) {
      if (!write.where_it_exists || is_there(write.file)) {
        YARD_TRY(write_value(write));
      }
    }
    return {};
  };
  Result<void> all = make_all();
  if (!all) {
    for (const Path& group : made) {
      rmdir(group.c_str());
    }
  }
  return all;
}

Result<CgroupHierarchy> make_room(const CgroupHierarchy& hierarchy, bool is_root) {
  if (members_of(hierarchy.own) == std::set<pid_t>{getpid()}) {
    YARD_TRY(leave_own_group(hierarchy));
    return hierarchy;
  }
  if (const auto outside = outside_of_session(hierarchy); outside && is_root) {
    return move_outside(*outside);
  }
  return Error{
      Code::kConflict,
      fmt::format("other processes live in the control group {}, too: start the server in "
                  "one of its own, for example by systemd-run {}--scope -p Delegate=yes ./yard up",
                  hierarchy.own.string(), is_root ? "" : "--user ")};
}

Result<void> kill_cgroup(const std::vector<Path>& groups, milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  while (!is_empty(groups)) {
    const auto at_one_stroke = std::find_if(groups.begin(), groups.end(), [](const Path& group) {
      return is_there(group / "cgroup.kill");
    });
    if (at_one_stroke != groups.end()) {
      YARD_TRY(write_value({.file = *at_one_stroke / "cgroup.kill", .value = "1"}));
    }
    // Also after that stroke: what has left that one group may still be in another.
    for (const Path& group : groups) {
      if (at_one_stroke == groups.end() || members_of(*at_one_stroke).empty()) {
        kill_members(group);
      }
    }
    if (steady_clock::now() >= deadline) {
      return Error{Code::kDeadline, "processes of the control group " + groups.front().string() +
                                        " were killed and do not end: they hang in the kernel"};
    }
    std::this_thread::sleep_for(kTurn);
  }
  return {};
}

Result<void> remove_cgroup(const std::vector<Path>& groups, milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  for (const Path& group : groups) {
    // Busy for a moment after its last process has ended.
    while (rmdir(group.c_str()) != 0 && errno != ENOENT) {
      if (errno != EBUSY || steady_clock::now() >= deadline) {
        return errno_error("remove the control group " + group.string(), errno);
      }
      std::this_thread::sleep_for(kTurn);
    }
  }
  return {};
}

std::vector<Path> read_groups(const Path& file) {
  const std::string text = text_of(file);
  std::vector<Path> groups;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) {
      groups.emplace_back(line);
    }
  }
  return groups;
}

std::optional<std::uint64_t> memory_kills(const std::vector<Path>& groups) {
  for (const Path& group : groups) {
    for (const char* file : {"memory.events", "memory.oom_control"}) {
      if (const auto count = count_in(group / file, "oom_kill")) {
        return count;
      }
    }
  }
  return std::nullopt;
}

}  // namespace trainyard::sandbox
