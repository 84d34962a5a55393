// SPDX-License-Identifier: Apache-2.0
// The only place that forks. A child gets exactly the descriptors, environment and directory named
// in its options; everything else is closed. Its end is observed through a pidfd, so waiting takes
// a deadline and a recycled pid can never be signalled.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard {

struct SpawnOptions {
  std::vector<std::string> argv = {};           // argv[0] is looked up in PATH when it has no '/'
  std::map<std::string, std::string> env = {};  // the whole environment
  bool inherit_env = false;                     // start from ours, `env` on top
  Path directory = {};                          // empty: ours
  std::vector<std::pair<int, int>> fds =
      {};                    // {ours, number in the child}; 0, 1, 2 default to /dev/null
  bool new_session = false;  // setsid: survives our terminal and our signals
  std::optional<int> network_namespace = {};  // an open netns descriptor to enter before exec
  // Killed when the thread that spawned it ends: only for threads that live as long as the child.
  bool die_with_parent = false;
};

struct ExitStatus {
  int code = 0;    // valid when signal is 0
  int signal = 0;  // the signal that killed it, or 0

  bool ok() const { return code == 0 && signal == 0; }
};

// "exit code 3", "signal 11 (SIGSEGV)".
std::string to_string(ExitStatus status);

class Child {
 public:
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) noexcept = default;

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  // Empty while it still runs when the time is over. The status is remembered: may be asked again.
  Result<std::optional<ExitStatus>> wait_for(std::chrono::milliseconds time);
  Result<ExitStatus> wait();
  Result<void> signal(int number);  // kNotFound once it has been reaped

 private:
  friend Result<Child> spawn(const SpawnOptions& options);
  Child(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_ = -1;
  Fd pidfd_;
  std::optional<ExitStatus> status_;
};

// An exec that fails (no such program, no permission) is an error here, not an exit code later.
Result<Child> spawn(const SpawnOptions& options);

struct Output {
  ExitStatus status;
  std::string out;  // standard output
  std::string err;  // standard error
};

// Runs a short command to its end and collects what it prints; kills it at the deadline
// (kDeadline).
Result<Output> run_command(const SpawnOptions& options, std::chrono::milliseconds deadline);

}  // namespace trainyard
