// SPDX-License-Identifier: Apache-2.0
// One container by bubblewrap: the host's root read-only, what the caller mounts on top, namespaces
// of its own for processes, IPC and the host name, a program of ours as pid 1, and fewer system
// calls for that and all that it starts (call_filter.h). When pid 1 ends, or the thread that called
// start_container(), the kernel ends everything inside. The network is the caller's own, or an
// empty one. Needs root, or a user namespace that was entered before (user_namespace.h): there the
// mount points must exist. Knows nothing of jobs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace trainyard::sandbox {

struct ContainerMount {
  enum class Kind {
    kBind,          // source, writable
    kReadOnlyBind,  // source, read-only
    kDevice,        // source, a device node that may be opened
    kTmpfs,         // empty, in memory; hides what was there
    kDev,           // null, zero, full, random, urandom, tty, pts and an empty shm
    kProc,
    kSymlink,  // source is its text
  };

  Kind kind = Kind::kBind;
  std::string target;  // made where it is missing; its file system must then be writable
  std::string source = {};
  std::uint64_t size = 0;  // of a tmpfs; 0: the kernel's default
};

struct ContainerSpec {
  std::string hostname;
  std::vector<ContainerMount> mounts;  // applied in order on top of the read-only root
  // pid 1. Opened here and executed by descriptor, so that it need not be visible inside.
  Path program;
  std::vector<std::string> arguments = {};    // argv[1], ...
  std::vector<std::pair<int, int>> fds = {};  // {ours, number inside}; 1 and 2 may be among them
  bool has_empty_network = false;             // a network namespace with nothing but the loopback
  std::vector<Path> control_groups = {};      // that everything inside belongs to (cgroup.h)
};

// The number that pid 1 finds its own executable under; free for anything else in `fds` is 4 and
// up.
inline constexpr int kProgramFd = 3;

// What a container runtime leaves to uid 0. Everything else is dropped.
const std::vector<std::string>& container_capabilities();

// bubblewrap's argv for `spec`; argv[0] is "bwrap". It reads the filter of system calls from
// `filter_fd`.
std::vector<std::string> bubblewrap_arguments(const ContainerSpec& spec, int filter_fd);

// The child is bubblewrap itself: it ends when pid 1 has ended and with the same exit code. A mount
// that fails shows as exit code 1 with a message on descriptor 2, before pid 1 starts.
Result<Child> start_container(const ContainerSpec& spec);

}  // namespace trainyard::sandbox
