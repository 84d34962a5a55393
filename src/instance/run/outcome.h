// SPDX-License-Identifier: Apache-2.0
// From how the processes of a container ended to the one fact that the server is told. Pure, but
// for reading the failure file and the kernel's count of out-of-memory kills.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/subprocess.h"
#include "instance/launch/launch_plan.h"
#include "instance/run/init.h"
#include "wire/messages.h"

namespace trainyard::instance {

// What a run of a container has shown.
struct RunOutcome {
  std::vector<ProcessEnd> ends;                 // in the order in which they came
  std::vector<std::vector<std::string>> tails;  // last lines of process 0, 1, ...
  std::vector<std::string> diagnostics;         // of bubblewrap and init
  ExitStatus container;
  bool stopped = false;        // a stop was asked for
  bool out_of_memory = false;  // the kernel has killed for memory meanwhile
  WallTime closed_at{};
};

// The first process that failed by itself is the one that counts; those that ended because of it or
// of a stop are victims. An error when the container itself could not be started.
Result<wire::Exit> exit_of(const RunOutcome& outcome, const std::vector<Process>& processes);

// The first 1,024 characters of /opt/ml/output/failure; empty when there is none. `ml` is where the
// container's /opt/ml is here. Follows no link: user code could have put one there.
struct FailureFile {
  std::string text = {};
  std::string note = {};  // why what is there says nothing: a link, a directory, an empty file, ...
};
FailureFile read_failure_file(const Path& ml);

// How often the kernel has killed something in these control groups for memory; where they count
// nothing, in the group of this process (memory.oom_control of version 1, memory.events of version
// 2); 0 when that does not say either.
std::uint64_t out_of_memory_kills(const std::vector<Path>& groups = {});

}  // namespace trainyard::instance
