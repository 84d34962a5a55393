// SPDX-License-Identifier: Apache-2.0
// Processes that may not be our children: naming one for ever, finding it again after a restart,
// and ending everything that lives in some network namespaces. All waiting is on pidfds, so a
// recycled pid is never waited for nor signalled.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::sandbox {

// A pid alone is used again; with the start time it names one process until the machine restarts.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since the boot (field 22 of /proc/<pid>/stat)

  auto operator<=>(const ProcessId&) const = default;
};

// What /proc/<pid>/stat says. kNotFound when there is no such process.
Result<ProcessId> identify(pid_t pid);

// A pidfd of exactly this process; it may have ended and wait to be reaped. kNotFound when it is
// gone.
Result<Fd> open_process(const ProcessId& process);

// True once the process has ended, reaped or not.
bool has_ended(int pidfd);

// SIGKILL; an end that has come meanwhile is no error.
void kill_now(int pidfd);

// SIGKILL, then waits for the end. Reaps nothing. kDeadline when it does not die in time.
Result<void> kill_and_wait(int pidfd, std::chrono::milliseconds time);

// Session leaders whose command line has `argument` as one whole argument.
std::vector<ProcessId> find_session_leaders(std::string_view argument);

// Kills all that live in the named network namespaces ("trainyard-1a2b3c-1"), and what they start
// meanwhile, until a look round finds none. A namespace that is gone has nobody in it.
Result<void> kill_all_in(const std::vector<std::string>& network_namespaces,
                         std::chrono::milliseconds time);

// This start of the machine (the kernel's boot_id): process ids of another one mean nothing.
Result<std::string> boot_id();

}  // namespace trainyard::sandbox
