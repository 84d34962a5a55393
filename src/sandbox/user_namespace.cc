// SPDX-License-Identifier: Apache-2.0
#include "sandbox/user_namespace.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "sandbox/mounts.h"

namespace trainyard::sandbox {
namespace {

Result<void> enter(int flag, const Refusal& refusal, const KernelSettings& settings) {
  if (unshare(flag) != 0) {
    return explain({.what = refusal.what, .error = errno, .limit = refusal.limit}, settings);
  }
  return {};
}

Result<void> write_map(const char* file, const std::string& text, const KernelSettings& settings) {
  const Result<Fd> map = open_file(file, O_WRONLY);
  if (!map) {
    // Kernels before 3.19 have no setgroups, and need none.
    return map.error().code == Code::kNotFound ? Result<void>() : map.error();
  }
  if (write(map->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return explain({.what = fmt::format("the map {} of a user namespace", file), .error = errno},
                   settings);
  }
  return {};
}

Result<void> enter_with(const KernelSettings& settings) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  YARD_TRY(enter(CLONE_NEWUSER, {.what = "a user namespace"}, settings));
  // In this order: a group may be mapped only by who cannot drop groups any more.
  YARD_TRY(write_map("/proc/self/setgroups", "deny", settings));
  YARD_TRY(write_map("/proc/self/uid_map", fmt::format("0 {} 1\n", user), settings));
  YARD_TRY(write_map("/proc/self/gid_map", fmt::format("0 {} 1\n", group), settings));
  YARD_TRY(enter(CLONE_NEWNS, {.what = "a mount namespace", .limit = "mnt"}, settings));
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return explain({.what = "mounts of its own", .error = errno, .limit = "mnt"}, settings);
  }
  return {};
}

// A number in a file of one line; empty when there is no such file.
std::optional<long> number_in(const Path& file) {
  const Result<std::string> text = read_file(file);
  const Result<std::int64_t> number = parse_int(trim(text ? *text : std::string_view()));
  return number ? std::optional<long>(*number) : std::nullopt;
}

// Directories that are there to be mounted on do not count, as they never hold anything else.
std::vector<std::string> masked_in(const Path& proc) {
  constexpr std::array<std::string_view, 3> kOnPurpose = {"binfmt_misc", "autofs", "nfsd"};
  const Result<std::string> mountinfo = read_file(proc / "self/mountinfo");
  std::vector<std::string> masked;
  for (const Mount& mount : parse_mountinfo(mountinfo ? *mountinfo : std::string_view())) {
    if (mount.point.native().starts_with("/proc/") &&
        std::find(kOnPurpose.begin(), kOnPurpose.end(), mount.type) == kOnPurpose.end()) {
      masked.push_back(mount.point);
    }
  }
  return masked;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kSome = 4;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kSome, names.size())));
  return join(first, ", ") +
         (names.size() > kSome ? fmt::format(" and {} more", names.size() - kSome) : "");
}

// In a process that shares nothing with us: 0, or the errno that the kernel gave.
[[noreturn]] void mount_proc_and_end() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool is_done =
      mount("proc", "/tmp", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  _exit(is_done ? 0 : errno);
}

// By a process in the new process namespace, as only those in it can: the first one there, which
// takes the namespace along when it ends. It runs no program, whose failures would have no errno.
Result<void> mount_proc(const KernelSettings& settings) {
  constexpr int kLongMs = 5'000;
  const pid_t child = fork();
  if (child == 0) {
    mount_proc_and_end();
  }
  if (child < 0) {
    return errno_error("starting a process in a namespace of its own", errno);
  }
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd ended = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, kLongMs) != 1) {
    kill(child, SIGKILL);  // else it would be left in a namespace that nobody looks into
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) {
    return Error{Code::kDeadline, "mounting a /proc takes too long, or is ended by a signal"};
  }
  const int error = WEXITSTATUS(status);
  return error == 0 ? Result<void>()
                    : explain({.what = "a /proc of its own",
                               .error = error,
                               .limit = "mnt",
                               .is_of_proc = true},
                              settings);
}

Error denied(const Refusal& refusal, const std::string& why) {
  return {Code::kDenied,
          fmt::format("the kernel refuses an ordinary user {} ({}), which instances need: {}",
                      refusal.what, errno_error("it says", refusal.error).message, why)};
}

std::string to_set(std::string_view setting, long value) {
  return fmt::format(
      "as root: sysctl -w {0}={1} (and the line \"{0}={1}\" in a file of "
      "/etc/sysctl.d, to keep it), or run the server as root",
      setting, value);
}

}  // namespace

KernelSettings read_settings(const Path& proc) {
  const Result<std::string> status = read_file(proc / "self/status");
  std::error_code failed;
  KernelSettings settings{
      .knows_user_namespaces = std::filesystem::exists(proc / "self/ns/user", failed),
      .unprivileged_clone = number_in(proc / "sys/kernel/unprivileged_userns_clone"),
      .apparmor_restriction = number_in(proc / "sys/kernel/apparmor_restrict_unprivileged_userns"),
      .has_seccomp_filter = status && status->find("Seccomp:\t2") != std::string::npos,
      .masked = masked_in(proc)};
  for (const char* name : {"user", "mnt", "pid", "ipc", "uts"}) {
    if (const auto limit = number_in(proc / fmt::format("sys/user/max_{}_namespaces", name))) {
      settings.limits[name] = *limit;
    }
  }
  return settings;
}

Error explain(const Refusal& refusal, const KernelSettings& settings) {
  constexpr long kPlenty = 15'000;
  const std::string limit = fmt::format("user.max_{}_namespaces", refusal.limit);
  const auto found = settings.limits.find(refusal.limit);
  const long value = found == settings.limits.end() ? kPlenty : found->second;
  if (!settings.knows_user_namespaces) {
    return denied(
        refusal,
        "this kernel was built without CONFIG_USER_NS. Run the server as root, or another "
        "kernel");
  }
  // The limits answer with ENOSPC, and so does nothing else.
  if (refusal.error == ENOSPC && value == 0) {
    return denied(refusal, fmt::format("{} is 0. Set it, {}", limit, to_set(limit, kPlenty)));
  }
  if (refusal.error == ENOSPC) {
    return denied(refusal, fmt::format("{} is {}, and that many are in use, or a smaller limit of "
                                       "the container around us is reached. Raise it, {}",
                                       limit, value, to_set(limit, value + kPlenty)));
  }
  if (refusal.is_of_proc && refusal.error == EPERM && !settings.masked.empty()) {
    return denied(
        refusal,
        fmt::format("{} {} covered by other mounts, which a new /proc would show again. Start the "
                    "container around us with all of /proc (Docker: --security-opt "
                    "systempaths=unconfined, podman: --security-opt unmask=ALL, Kubernetes: "
                    "procMount: Unmasked), or as root: umount what covers it, or run the server as "
                    "root",
                    some_of(settings.masked), settings.masked.size() == 1 ? "is" : "are"));
  }
  if (settings.unprivileged_clone == 0L) {
    constexpr std::string_view kSetting = "kernel.unprivileged_userns_clone";
    return denied(refusal, fmt::format("{} is 0. Set it, {}", kSetting, to_set(kSetting, 1)));
  }
  if (settings.apparmor_restriction.value_or(0) != 0) {
    constexpr std::string_view kSetting = "kernel.apparmor_restrict_unprivileged_userns";
    return denied(refusal,
                  fmt::format("{} is {}. Give this program an AppArmor profile that allows "
                              "\"userns\", or set it, {}",
                              kSetting, *settings.apparmor_restriction, to_set(kSetting, 0)));
  }
  if (settings.has_seccomp_filter) {
    return denied(refusal,
                  "a seccomp filter of the container around us forbids it. Start that container "
                  "with a filter that allows unshare and mount (Docker: --security-opt "
                  "seccomp=unconfined), or run the server outside of it");
  }
  return denied(refusal,
                "no setting that we know of is in the way; look for a security module (dmesg), a "
                "chroot or a container around us, or run the server as root");
}

Result<void> enter_user_namespace() {
  // Before: inside, the limits are those of the new namespace.
  return enter_with(read_settings());
}

Result<void> probe_user_namespaces() {
  struct Needed {
    int flag;
    const char* what;
    const char* limit;
  };
  constexpr std::array<Needed, 3> kNeeded = {{{CLONE_NEWPID, "a process namespace", "pid"},
                                              {CLONE_NEWIPC, "an IPC namespace", "ipc"},
                                              {CLONE_NEWUTS, "a host name of its own", "uts"}}};
  const KernelSettings settings = read_settings();
  YARD_TRY(enter_with(settings));
  for (const Needed& needed : kNeeded) {
    YARD_TRY(enter(needed.flag, {.what = needed.what, .limit = needed.limit}, settings));
  }
  // AppArmor lets a user namespace be made and then refuses what it is for.
  if (mount("tmpfs", "/tmp", "tmpfs", MS_NODEV | MS_NOSUID, nullptr) != 0) {
    return explain({.what = "mounts of its own", .error = errno, .limit = "mnt"}, settings);
  }
  return mount_proc(settings);
}

}  // namespace trainyard::sandbox
