// SPDX-License-Identifier: Apache-2.0
#include "sandbox/container.h"

#include <algorithm>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sandbox/call_filter.h"

namespace trainyard::sandbox {
namespace {

void append(std::vector<std::string>& argv, const ContainerMount& mount) {
  using Kind = ContainerMount::Kind;
  const auto from_to = [&](const char* option) {
    argv.insert(argv.end(), {option, mount.source, mount.target});
  };
  switch (mount.kind) {
    case Kind::kBind:
      return from_to("--bind");
    case Kind::kReadOnlyBind:
      return from_to("--ro-bind");
    case Kind::kDevice:
      return from_to("--dev-bind");
    case Kind::kTmpfs:
      if (mount.size > 0) {
        argv.insert(argv.end(), {"--size", std::to_string(mount.size)});
      }
      argv.insert(argv.end(), {"--tmpfs", mount.target});
      return;
    case Kind::kDev:
      argv.insert(argv.end(), {"--dev", mount.target});
      return;
    case Kind::kProc:
      // The kernel's settings ask for uid 0 and for no capability. bubblewrap covers them only when
      // their directory looks writable, which it never does: core_pattern would be a way out.
      argv.insert(argv.end(),
                  {"--proc", mount.target, "--ro-bind", "/proc/sys", mount.target + "/sys"});
      return;
    case Kind::kSymlink:
      return from_to("--symlink");
  }
}

// What starts `argv` in the groups. The shell joins them itself before it becomes the program, for
// nobody else can without the program having begun meanwhile.
std::vector<std::string> in_groups(const std::vector<Path>& groups, std::vector<std::string> argv) {
  if (groups.empty()) {
    return argv;
  }
  std::vector<std::string> all = {
      "/bin/sh", "-c",
      R"(while [ "$1" != -- ]; do echo 0 >"$1" || exit 1; shift; done; shift; exec "$@")", "sh"};
  for (const Path& group : groups) {
    all.push_back((group / "cgroup.procs").string());
  }
  all.emplace_back("--");
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

// The filter of call_filter.h where bubblewrap can read it, which closes it then.
Result<Fd> filter_file() {
  utsname machine = {};
  uname(&machine);
  YARD_TRY(const CallRules rules, container_rules(machine.machine));
  const std::vector<sock_filter> program = compile_filter(rules);
  Fd file(memfd_create("call-filter", MFD_CLOEXEC));
  if (!file.is_open()) {
    return errno_error("memfd_create", errno);
  }
  YARD_TRY(write_all(file.get(), std::as_bytes(std::span(program))));
  if (lseek(file.get(), 0, SEEK_SET) != 0) {
    return errno_error("lseek", errno);
  }
  return file;
}

int first_free_above(const std::vector<std::pair<int, int>>& fds) {
  int highest = kProgramFd;
  for (const auto& [ours, inside] : fds) {
    highest = std::max(highest, inside);
  }
  return highest + 1;
}

}  // namespace

const std::vector<std::string>& container_capabilities() {
  static const std::vector<std::string> kKept = {
      "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",           "CAP_KILL",
      "CAP_SETGID", "CAP_SETUID",       "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT"};
  return kKept;
}

std::vector<std::string> bubblewrap_arguments(const ContainerSpec& spec, int filter_fd) {
  std::vector<std::string> argv = {"bwrap",      "--unshare-pid", "--unshare-ipc", "--unshare-uts",
                                   "--hostname", spec.hostname,   "--ro-bind",     "/",
                                   "/"};
  if (spec.has_empty_network) {
    argv.insert(argv.begin() + 1, "--unshare-net");
  }
  for (const ContainerMount& mount : spec.mounts) {
    append(argv, mount);
  }
  argv.insert(argv.end(), {"--cap-drop", "ALL"});
  for (const std::string& capability : container_capabilities()) {
    argv.insert(argv.end(), {"--cap-add", capability});
  }
  argv.insert(argv.end(),
              {"--seccomp", std::to_string(filter_fd), "--die-with-parent", "--as-pid-1", "--chdir",
               "/", "--", "/proc/self/fd/" + std::to_string(kProgramFd)});
  argv.insert(argv.end(), spec.arguments.begin(), spec.arguments.end());
  return argv;
}

Result<Child> start_container(const ContainerSpec& spec) {
  YARD_TRY(Fd program, open_file(spec.program, O_RDONLY));
  YARD_TRY(const Fd filter, filter_file());
  const int filter_fd = first_free_above(spec.fds);
  SpawnOptions options;
  options.argv = in_groups(spec.control_groups, bubblewrap_arguments(spec, filter_fd));
  options.env = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}};
  options.fds = spec.fds;
  options.fds.emplace_back(program.get(), kProgramFd);
  options.fds.emplace_back(filter.get(), filter_fd);
  options.die_with_parent = true;
  return spawn(options);
}

}  // namespace trainyard::sandbox
