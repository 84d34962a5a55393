// SPDX-License-Identifier: Apache-2.0
// One container with the processes of a plan in it, from start to the end of its last pipe. Made,
// used and destroyed by one thread, which must outlive it: the kernel ends the container with the
// thread that started it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/subprocess.h"
#include "instance/launch/launch_plan.h"
#include "instance/run/log_pump.h"
#include "sandbox/container.h"

namespace trainyard::instance {

class ContainerRun {
 public:
  // `spec` says host name and mounts; program, arguments and descriptors are added here. Lines of a
  // process that has peers on this host begin with "[rank N] ".
  static Result<std::unique_ptr<ContainerRun>> start(sandbox::ContainerSpec spec,
                                                     const std::vector<Process>& processes,
                                                     PumpSinks sinks, Clock& clock);
  ~ContainerRun();  // kills what is still alive

  // SIGTERM to every process in it, SIGKILL after `grace`. May be asked again with less.
  void stop(Duration grace);
  // SIGUSR1 or SIGUSR2 to every process in it that expects it (init.h).
  void signal(int number);
  const LogPump& pump() const { return *pump_; }
  // How bubblewrap, and with it init, has ended. Call after `closed`.
  Result<ExitStatus> status();

 private:
  void tell(const InitCommand& command);

  ContainerRun(Child child, Fd commands)
      : child_(std::move(child)), commands_(std::move(commands)) {}

  Child child_;
  Fd commands_;
  std::unique_ptr<LogPump> pump_;
};

// "[rank 3] " for processes with a rank and peers on this host, nothing otherwise.
std::vector<std::string> line_prefixes(const std::vector<Process>& processes);

}  // namespace trainyard::instance
