// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <memory>
#include <optional>

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "sandbox/network.h"

namespace trainyard::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Stat {
  std::uint64_t start_time = 0;
  pid_t session = 0;
};

// The command in field 2 may hold blanks and brackets: the fields start after the last ')'.
Result<Stat> read_stat(pid_t pid) {
  const Error gone{Code::kNotFound, fmt::format("there is no process {}", pid)};
  const Result<std::string> text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) {
    return gone;
  }
  const std::size_t bracket = text->rfind(')');
  if (bracket == std::string::npos) {
    return gone;
  }
  const auto fields = split(trim(std::string_view(*text).substr(bracket + 1)), ' ');
  if (fields.size() < 20) {
    return gone;
  }
  YARD_TRY(const std::int64_t session, parse_int(fields[3]));      // field 6
  YARD_TRY(const std::int64_t start_time, parse_int(fields[19]));  // field 22
  return Stat{.start_time = static_cast<std::uint64_t>(start_time),
              .session = static_cast<pid_t>(session)};
}

// The entries of a directory that are numbers: of /proc its processes, of a task directory threads.
std::vector<pid_t> numbers_in(const std::string& path) {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) {
    return pids;
  }
  while (const dirent* entry = readdir(directory.get())) {
    if (const Result<std::int64_t> pid = parse_int(entry->d_name)) {
      pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  return pids;
}

struct NamespaceId {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const NamespaceId&) const = default;
};

// Empty for a thread that has ended, which has left its namespaces, and for what is gone.
std::optional<NamespaceId> namespace_at(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return NamespaceId{.device = status.st_dev, .inode = status.st_ino};
}

bool lives_in(pid_t pid, const std::vector<NamespaceId>& namespaces) {
  auto id = namespace_at(fmt::format("/proc/{}/ns/net", pid));
  if (!id) {
    // Its first thread may have ended before another one, above all one that hangs in the kernel.
    const std::string tasks = fmt::format("/proc/{}/task", pid);
    for (const pid_t thread : numbers_in(tasks)) {
      id = id ? id : namespace_at(fmt::format("{}/{}/ns/net", tasks, thread));
    }
  }
  return id && std::find(namespaces.begin(), namespaces.end(), *id) != namespaces.end();
}

Result<Fd> open_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    return Error{errno == ESRCH ? Code::kNotFound : Code::kUnavailable,
                 errno_error(fmt::format("pidfd_open({})", pid), errno).message};
  }
  return Fd(static_cast<int>(fd));  // close-on-exec by itself
}

// Waits for the end of the process. False when the time is over first.
bool wait_for_end(int pidfd, steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
    const int got = poll(&ready, 1, static_cast<int>(std::clamp<long long>(left, 0, INT_MAX)));
    if (got > 0) {
      return true;
    }
    if (got == 0 && left <= 0) {
      return false;
    }
  }
}

}  // namespace

Result<ProcessId> identify(pid_t pid) {
  YARD_TRY(const Stat stat, read_stat(pid));
  return ProcessId{.pid = pid, .start_time = stat.start_time};
}

Result<Fd> open_process(const ProcessId& process) {
  YARD_TRY(Fd pidfd, open_pidfd(process.pid));
  // Read after the open: if it is still the same process now, the descriptor is of that process.
  YARD_TRY(const Stat stat, read_stat(process.pid));
  if (stat.start_time != process.start_time) {
    return Error{Code::kNotFound, fmt::format("process {} has ended", process.pid)};
  }
  return pidfd;
}

bool has_ended(int pidfd) {
  return wait_for_end(pidfd, steady_clock::now());
}

void kill_now(int pidfd) {
  // Fails only for a process that has just ended, which is what we want.
  static_cast<void>(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0));
}

Result<void> kill_and_wait(int pidfd, milliseconds time) {
  kill_now(pidfd);
  if (!wait_for_end(pidfd, steady_clock::now() + time)) {
    return Error{Code::kDeadline, "a killed process does not end: it hangs in the kernel"};
  }
  return {};
}

std::vector<ProcessId> find_session_leaders(std::string_view argument) {
  std::vector<ProcessId> found;
  for (const pid_t pid : numbers_in("/proc")) {
    const Result<std::string> line = read_file(fmt::format("/proc/{}/cmdline", pid));
    if (!line) {
      continue;
    }
    const auto arguments = split(*line, '\0');
    if (std::find(arguments.begin(), arguments.end(), argument) == arguments.end()) {
      continue;
    }
    const Result<Stat> stat = read_stat(pid);
    if (stat && stat->session == pid) {
      found.push_back({.pid = pid, .start_time = stat->start_time});
    }
  }
  return found;
}

Result<void> kill_all_in(const std::vector<std::string>& network_namespaces, milliseconds time) {
  std::vector<NamespaceId> namespaces;
  const auto ours = namespace_at("/proc/thread-self/ns/net");
  for (const std::string& name : network_namespaces) {
    // Never our own, whatever somebody may have bound to that name.
    if (const auto id = namespace_at(namespace_path(name)); id && id != ours) {
      namespaces.push_back(*id);
    }
  }
  const auto deadline = steady_clock::now() + time;
  for (bool found = !namespaces.empty(); found;) {
    found = false;
    std::vector<std::pair<pid_t, Fd>> victims;
    for (const pid_t pid : numbers_in("/proc")) {
      Result<Fd> pidfd = lives_in(pid, namespaces) ? open_pidfd(pid) : Error{Code::kNotFound, ""};
      // Asked again through the descriptor's process: the pid may have changed hands in between.
      if (pidfd && lives_in(pid, namespaces)) {
        kill_now(pidfd->get());
        victims.emplace_back(pid, std::move(*pidfd));
      }
    }
    for (const auto& [pid, pidfd] : victims) {
      found = true;
      if (!wait_for_end(pidfd.get(), deadline)) {
        return Error{
            Code::kDeadline,
            fmt::format("process {} was killed and does not end: it hangs in the kernel", pid)};
      }
    }
  }
  return {};
}

Result<std::string> boot_id() {
  YARD_TRY(const std::string text, read_file("/proc/sys/kernel/random/boot_id"));
  return std::string(trim(text));
}

}  // namespace trainyard::sandbox
