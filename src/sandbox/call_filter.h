// SPDX-License-Identifier: Apache-2.0
// Which system calls the programs of a container are refused, as a program for the kernel's seccomp
// filter. container.h hands it to bubblewrap, which installs it last, after all namespaces and
// mounts: it binds the container's pid 1 and what that starts, and cannot be taken off. Refused is
// what a container without new powers needs for nothing and what has led out of containers before:
// a user namespace gives its maker every capability inside (mounts of control groups, and kernel
// code that only root could reach), and the keyrings are the machine's, not the container's.
// Source: Linux, Documentation/userspace-api/seccomp_filter.rst; linux/filter.h for the machine.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <linux/filter.h>

#include "base/result.h"

namespace trainyard::sandbox {

// Refuses one system call. At most one rule a number.
struct CallRule {
  std::uint32_t number = 0;
  int error = 0;                 // errno that the caller gets
  std::uint32_t if_any_bit = 0;  // of the first argument's low 32 bits; 0: whatever they are
};

// The calls of one processor architecture. Programs for another one that the machine could run as
// well (32 bits) would name other calls by the same numbers: they are killed by SIGSYS.
struct CallRules {
  std::uint32_t architecture = 0;  // AUDIT_ARCH_*
  std::vector<CallRule> rules = {};
};

// What a container's programs are refused on `machine` (as `uname -m`: "x86_64", "aarch64"). clone3
// hides its flags behind a pointer, where no filter can see them: it does not exist (ENOSYS), and
// the C library then calls clone. kUnimplemented, naming the machine, for any other.
Result<CallRules> container_rules(std::string_view machine);

// The instructions that carry out `rules`; everything that they do not name is allowed. Pure.
std::vector<sock_filter> compile_filter(const CallRules& rules);

}  // namespace trainyard::sandbox
