// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process_tree.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

namespace trainyard::sandbox {
namespace {

bool is_place_in(const std::string& argument, const std::vector<std::string>& scratches) {
  return std::any_of(scratches.begin(), scratches.end(), [&](const std::string& scratch) {
    return argument.starts_with(scratch + "/");
  });
}

bool is_root(const ProcessFacts& process, const std::vector<std::string>& scratches) {
  const std::vector<std::string>& words = process.arguments;
  if (words.empty()) {
    return false;
  }
  if (words[0] == "bwrap") {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return is_place_in(word, scratches); });
  }
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--scratch" &&
        std::find(scratches.begin(), scratches.end(), words[i + 1]) != scratches.end()) {
      return true;
    }
  }
  return false;
}

std::vector<ProcessFacts> look_round() {
  std::vector<ProcessFacts> all;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const Result<std::int64_t> pid = parse_int(entry->path().filename().string());
    const Result<std::string> stat = pid ? read_file(entry->path() / "stat") : Error{};
    const std::size_t bracket = stat ? stat->rfind(')') : std::string::npos;
    if (bracket == std::string::npos) {
      continue;
    }
    const auto fields = split(trim(std::string_view(*stat).substr(bracket + 1)), ' ');
    const Result<std::int64_t> parent = fields.size() > 19 ? parse_int(fields[1]) : Error{};
    const Result<std::int64_t> start = fields.size() > 19 ? parse_int(fields[19]) : Error{};
    if (!parent || !start) {
      continue;
    }
    ProcessFacts facts{.process = {.pid = static_cast<pid_t>(*pid),
                                   .start_time = static_cast<std::uint64_t>(*start)},
                       .parent = identify(static_cast<pid_t>(*parent)).value_or(ProcessId{}),
                       .state = fields[0].empty() ? 'X' : fields[0][0],
                       .arguments = {}};
    const Result<std::string> line = read_file(entry->path() / "cmdline");
    for (const std::string_view word : split(line ? *line : std::string_view(), '\0')) {
      facts.arguments.emplace_back(word);
    }
    all.push_back(std::move(facts));
  }
  return all;
}

// A pid that has changed hands since the look opens nothing.
Fd descriptor_of(const ProcessId& process) {
  return process.pid == getpid() ? Fd() : open_process(process).value_or(Fd());
}

// Stops all of them, until nobody is left who could start another.
void bring_to_a_standstill(const std::vector<std::string>& scratches,
                           std::chrono::steady_clock::time_point deadline) {
  while (std::chrono::steady_clock::now() < deadline) {
    const std::vector<ProcessFacts> all = look_round();
    const std::vector<ProcessId> members = members_of(all, scratches);
    bool stands_still = true;
    for (const ProcessFacts& process : all) {
      const bool is_awake = process.state == 'R' || process.state == 'S';
      if (is_awake && std::binary_search(members.begin(), members.end(), process.process)) {
        const Fd pidfd = descriptor_of(process.process);
        stands_still = stands_still && !pidfd.is_open();
        syscall(SYS_pidfd_send_signal, pidfd.get(), SIGSTOP, nullptr, 0);
      }
    }
    if (stands_still) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::vector<ProcessId> members_of(const std::vector<ProcessFacts>& processes,
                                  const std::vector<std::string>& scratches) {
  std::set<ProcessId> members;
  for (const ProcessFacts& process : processes) {
    if (is_root(process, scratches)) {
      members.insert(process.process);
    }
  }
  for (bool grows = !members.empty(); grows;) {
    grows = false;
    for (const ProcessFacts& process : processes) {
      const bool is_child = members.contains(process.parent) &&
                            process.process.start_time >= process.parent.start_time;
      grows = (is_child && members.insert(process.process).second) || grows;
    }
  }
  return {members.begin(), members.end()};
}

Result<void> kill_instances(const std::vector<std::string>& scratches,
                            std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    bring_to_a_standstill(scratches, deadline);
    std::vector<std::pair<pid_t, Fd>> victims;
    for (const ProcessId& process : members_of(look_round(), scratches)) {
      Fd pidfd = descriptor_of(process);
      if (pidfd.is_open() && !has_ended(pidfd.get())) {
        victims.emplace_back(process.pid, std::move(pidfd));
      }
    }
    if (victims.empty()) {
      return {};
    }
    for (const auto& [pid, pidfd] : victims) {
      kill_now(pidfd.get());
    }
    for (const auto& [pid, pidfd] : victims) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (!kill_and_wait(pidfd.get(), std::max(left, std::chrono::milliseconds(0)))) {
        return Error{
            Code::kDeadline,
            fmt::format("process {} was killed and does not end: it hangs in the kernel", pid)};
      }
    }
  }
}

}  // namespace trainyard::sandbox
