// SPDX-License-Identifier: Apache-2.0
// pid 1 of a container: starts the processes of a launch plan, reaps every orphan, tells the
// supervisor how each process ended, and ends them all when one fails or when it is told to. What
// runs beside the plan's processes when these are over, daemons included, has a second to end by
// itself; then it is killed, and the supervisor is told. It is our own binary, executed by
// descriptor: `trainyard instance-init COUNT`.
//
// A stop reaches every process of the container, whoever its parent is, and gives all of them the
// same time: a shell that dies of SIGTERM does not take from its script the time to save, nor one
// rank from another. It is over early, but for that second, when the plan's processes have all
// exited with 0. A signal that is passed on (SIGUSR1, SIGUSR2) reaches every process that expects
// it, by a handler or by waiting for it; the others, whom it would kill, are spared. What does not
// die of SIGKILL is named on standard error and left behind.
//
// Descriptors, all from the supervisor:
//   4  the plan: a JSON list of processes (launch_plan.h), to the end of the file
//   5  commands: one line each, "stop <grace in milliseconds>" or "signal <number>"
//   6  status: one JSON line for each ProcessEnd, the last for what was killed. A launcher of the
//      plan gets it as well, and tells before its own end which of its processes was the first to
//      fail
//   10, 11, ...  output of process 0, 1, ...: standard output and standard error in one pipe, which
//                keeps their order
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::instance {

inline constexpr int kPlanFd = 4;
inline constexpr int kCommandFd = 5;
inline constexpr int kStatusFd = 6;
inline constexpr int kFirstOutputFd = 10;
inline constexpr Duration kVictimGrace{5'000};

// How one process of the plan ended.
struct ProcessEnd {
  int process = 0;  // index in the plan
  int code = 0;
  int signal = 0;
  bool victim = false;  // ended because another had failed, or because of a stop
  WallTime at{};
  std::string error = {};  // it could not be started at all: why; `code` is then 127
  // From a launcher (Process::is_launcher): which of its processes, and what that printed last.
  std::optional<int> rank = {};
  std::string host = {};
  std::vector<std::string> lines = {};
  bool is_sweep = false;  // no process's: whatever was left was killed; only `at` says more
};

// Whether a signal has ended it, or what it ran: a shell tells that by a code above 128.
inline bool was_killed(const ProcessEnd& end) {
  return end.signal != 0 || end.code > 128;
}

std::string to_line(const ProcessEnd& end);  // without the line end
Result<ProcessEnd> process_end_from_line(std::string_view line);

struct InitCommand {
  int signal = 0;  // to be passed on; 0: stop
  Duration grace{};
};

std::string to_line(const InitCommand& command);  // with the line end
Result<InitCommand> command_from_line(std::string_view line);

// Whether a process whose /proc/<pid>/status is `status` has a handler for the signal, or blocks
// it, but not every signal, to wait for it.
bool expects_signal(std::string_view status, int number);

// Entry of `trainyard instance-init`: `args` without the verb.
int init_main(const std::vector<std::string>& args);

}  // namespace trainyard::instance
