// SPDX-License-Identifier: Apache-2.0
// Ends an instance that has no network namespace to be known by: its supervisor, the containers
// that this has started, and whatever lives in them. A process cannot leave its container, for that
// is a process namespace, so the tree below those two kinds of processes is all there is.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/process.h"

namespace trainyard::sandbox {

// A process as /proc shows it.
struct ProcessFacts {
  ProcessId process;
  ProcessId
      parent;  // as it was after the process had named it: who has a used pid now is no parent
  char state = 'S';  // as in /proc/<pid>/stat: R and S can still start something
  std::vector<std::string> arguments;
};

// Which of `processes` belong to the instances whose directories are `scratches`: a supervisor
// names its directory behind --scratch, bubblewrap names places in it, and then all that descends
// from those, and is not older. A program that merely names such a place (an editor, `tail -f`)
// does not. Pure.
std::vector<ProcessId> members_of(const std::vector<ProcessFacts>& processes,
                                  const std::vector<std::string>& scratches);

// Kills them, and what they start meanwhile: they are stopped first, so that none is born unseen
// while its parent dies. kDeadline, naming the pid, when one does not die in time.
Result<void> kill_instances(const std::vector<std::string>& scratches,
                            std::chrono::milliseconds time);

}  // namespace trainyard::sandbox
