// SPDX-License-Identifier: Apache-2.0
#include "instance/run/container_run.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

namespace trainyard::instance {
namespace {

// Between the end of the container's pipes and that of its process. A container with a process that
// does not die never ends by itself.
constexpr Duration kExitPatience{1000};

// The plan in memory that only descriptors reach: environments never touch the disk.
Result<Fd> plan_file(const std::vector<Process>& processes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Process& process : processes) {
    list.push_back(to_json(process));
  }
  Fd file(memfd_create("launch-plan", MFD_CLOEXEC));
  if (!file.is_open()) {
    return errno_error("memfd_create", errno);
  }
  YARD_TRY(
      write_all(file.get(), list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  if (lseek(file.get(), 0, SEEK_SET) != 0) {
    return errno_error("lseek", errno);
  }
  return file;
}

}  // namespace

std::vector<std::string> line_prefixes(const std::vector<Process>& processes) {
  std::vector<std::string> prefixes;
  for (const Process& process : processes) {
    const bool named = processes.size() > 1 && process.rank.has_value();
    prefixes.push_back(named ? "[rank " + std::to_string(*process.rank) + "] " : "");
  }
  return prefixes;
}

Result<std::unique_ptr<ContainerRun>> ContainerRun::start(sandbox::ContainerSpec spec,
                                                          const std::vector<Process>& processes,
                                                          PumpSinks sinks, Clock& clock) {
  YARD_TRY(const Fd plan, plan_file(processes));
  YARD_TRY(Pipe commands, make_pipe());
  YARD_TRY(Pipe status, make_pipe());
  YARD_TRY(Pipe diagnostics, make_pipe());
  PumpInput input{.outputs = {},
                  .prefixes = line_prefixes(processes),
                  .status = std::move(status.read_end),
                  .diagnostics = std::move(diagnostics.read_end)};
  spec.program = "/proc/self/exe";
  spec.arguments = {"instance-init", std::to_string(processes.size())};
  spec.fds = {{diagnostics.write_end.get(), STDOUT_FILENO},
              {diagnostics.write_end.get(), STDERR_FILENO},
              {plan.get(), kPlanFd},
              {commands.read_end.get(), kCommandFd},
              {status.write_end.get(), kStatusFd}};
  std::vector<Fd> outputs;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    YARD_TRY(Pipe output, make_pipe());
    spec.fds.emplace_back(output.write_end.get(), kFirstOutputFd + static_cast<int>(i));
    outputs.push_back(std::move(output.write_end));
    input.outputs.push_back(std::move(output.read_end));
  }
  YARD_TRY(Child child, sandbox::start_container(spec));
  std::unique_ptr<ContainerRun> run(
      new ContainerRun(std::move(child), std::move(commands.write_end)));
  run->pump_ = std::make_unique<LogPump>(std::move(input), std::move(sinks), clock);
  return run;
}

ContainerRun::~ContainerRun() {
  if (const auto ended = child_.wait_for(Duration(0)); !ended || !*ended) {
    static_cast<void>(child_.signal(SIGKILL));
  }
  commands_.reset();
  pump_.reset();
  static_cast<void>(child_.wait());
}

void ContainerRun::stop(Duration grace) {
  tell({.grace = grace});
}

void ContainerRun::signal(int number) {
  tell({.signal = number});
}

void ContainerRun::tell(const InitCommand& command) {
  if (const auto told = write_all(commands_.get(), to_line(command)); !told) {
    log_info("the container was not told: " + told.error().message);
  }
}

Result<ExitStatus> ContainerRun::status() {
  YARD_TRY(const auto ended, child_.wait_for(kExitPatience));
  if (!ended) {
    YARD_TRY(child_.signal(SIGKILL));
  }
  return child_.wait();
}

}  // namespace trainyard::instance
