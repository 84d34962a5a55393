// SPDX-License-Identifier: Apache-2.0
// What root's place is taken by: a user namespace in which our own user is uid 0 and may mount.
// Where the kernel refuses, the error names the one setting that is in the way and what to set it
// to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::sandbox {

// Enters a new user namespace (we are 0, nobody else exists) and a new mount namespace whose mounts
// nobody else sees. Call it while the process has one thread. kDenied with the reason.
Result<void> enter_user_namespace();

// Makes each namespace that an instance needs, and mounts, a /proc as well: whether an ordinary
// user can run instances here. It changes the calling process for good: for a process that ends
// afterwards.
Result<void> probe_user_namespaces();

// What the kernel was asked for when it refused.
struct Refusal {
  std::string what;            // "a user namespace"
  int error = 0;               // errno
  std::string limit = "user";  // of the "/proc/sys/user/max_<limit>_namespaces" that counts it
  bool is_of_proc = false;     // to mount one
};

// The settings that decide; empty: the kernel has no such setting. The limits are those of the user
// namespace in which they are read.
struct KernelSettings {
  bool knows_user_namespaces = true;
  std::map<std::string, long> limits = {};        // user.max_<name>_namespaces
  std::optional<long> unprivileged_clone = {};    // kernel.unprivileged_userns_clone: Debian's
  std::optional<long> apparmor_restriction = {};  // kernel.apparmor_restrict_unprivileged_userns
  bool has_seccomp_filter = false;                // of this process: a container's, as a rule
  // What is covered by another mount in the only /proc that there is: a container's, as a rule. The
  // kernel then lets no user namespace mount one, in which all could be seen again
  // (mount_too_revealing() in its fs/namespace.c).
  std::vector<std::string> masked = {};
};

// `proc` is where /proc is.
KernelSettings read_settings(const Path& proc = "/proc");

// kDenied. Pure.
Error explain(const Refusal& refusal, const KernelSettings& settings);

}  // namespace trainyard::sandbox
