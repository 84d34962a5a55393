// SPDX-License-Identifier: Apache-2.0
#include "instance/run/outcome.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/encoding.h"
#include "base/text.h"
#include "sandbox/cgroup.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kFailureCharacters = 1024;

bool failed(const ProcessEnd& end) {
  return end.code != 0 || end.signal != 0;
}

void describe(const ProcessEnd& end, const RunOutcome& outcome,
              const std::vector<Process>& processes, wire::Exit& exit) {
  const auto index = static_cast<std::size_t>(end.process);
  exit.code = end.code;
  exit.signal = end.signal;
  exit.at = end.at;
  exit.host = end.host;
  exit.global_rank = end.rank;
  exit.last_lines = end.lines;
  if (!end.rank && index < processes.size()) {
    exit.global_rank = processes[index].rank;
  }
  // What a launcher printed says nothing about a rank of its that printed nothing.
  if (!end.rank && end.lines.empty() && index < outcome.tails.size()) {
    exit.last_lines = outcome.tails[index];
  }
  if (!end.error.empty()) {
    exit.last_lines.push_back(end.error);
  }
}

// The kill may also have hit init, and then nobody tells of any end.
wire::Exit killed_whole(const RunOutcome& outcome) {
  wire::Exit exit{.signal = SIGKILL, .stopped = outcome.stopped, .at = outcome.closed_at};
  exit.out_of_memory = outcome.out_of_memory;
  exit.last_lines = outcome.tails.empty() ? outcome.diagnostics : outcome.tails[0];
  return exit;
}

FailureFile unusable(const std::string& why) {
  return {.note = "/opt/ml/output/failure says nothing: " + why};
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) {
    return "a directory";
  }
  if (S_ISLNK(mode)) {
    return "a link";
  }
  return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

std::string first_characters(const Fd& file) {
  std::array<std::byte, 4 * kFailureCharacters> bytes;
  std::size_t size = 0;
  while (size < bytes.size()) {
    const Result<std::size_t> got = read_some(file.get(), std::span(bytes).subspan(size));
    if (!got || *got == 0) {
      break;
    }
    size += *got;
  }
  const std::string text =
      to_valid_utf8(std::string_view(reinterpret_cast<const char*>(bytes.data()), size));
  return std::string(utf8_prefix(text, kFailureCharacters));
}

}  // namespace

Result<wire::Exit> exit_of(const RunOutcome& outcome, const std::vector<Process>& processes) {
  if (outcome.ends.size() < processes.size() && !outcome.container.ok() &&
      outcome.container.signal == 0 && outcome.ends.empty() && !outcome.stopped &&
      !outcome.out_of_memory) {
    return Error{Code::kInternal, "the container did not start (" + to_string(outcome.container) +
                                      "): " + join(outcome.diagnostics, "; ")};
  }
  wire::Exit exit{.stopped = outcome.stopped, .at = outcome.closed_at};
  const auto culprit = std::find_if(outcome.ends.begin(), outcome.ends.end(),
                                    [](const auto& end) { return failed(end) && !end.victim; });
  const auto victim = std::find_if(outcome.ends.begin(), outcome.ends.end(),
                                   [](const auto& end) { return failed(end); });
  if (culprit != outcome.ends.end()) {
    describe(*culprit, outcome, processes, exit);
    exit.stopped = false;
  } else if (outcome.ends.size() < processes.size()) {
    return killed_whole(outcome);
  } else if (victim != outcome.ends.end()) {
    describe(*victim, outcome, processes, exit);
    exit.stopped = true;
  } else if (!outcome.ends.empty()) {
    exit.at = outcome.ends.back().at;
  }
  exit.out_of_memory = outcome.out_of_memory && exit.signal == SIGKILL;
  return exit;
}

FailureFile read_failure_file(const Path& ml) {
  const Path folder = ml / "output";
  struct stat info = {};
  if (lstat(folder.c_str(), &info) != 0) {
    return {};
  }
  if (!S_ISDIR(info.st_mode)) {
    return unusable("/opt/ml/output is not a directory");
  }
  if (lstat((folder / "failure").c_str(), &info) != 0) {
    return {};
  }
  if (!S_ISREG(info.st_mode)) {
    return unusable("it is " + kind_of(info.st_mode) + ", not a file");
  }
  const Result<Fd> file =
      open_file(folder / "failure", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!file || fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return unusable(file ? "it is not a file" : file.error().message);
  }
  std::string text = first_characters(*file);
  return trim(text).empty() ? unusable("it is empty") : FailureFile{.text = std::move(text)};
}

std::uint64_t out_of_memory_kills(const std::vector<Path>& groups) {
  if (const auto counted = sandbox::memory_kills(groups)) {
    return *counted;
  }
  std::vector<Path> own;
  for (const sandbox::CgroupHierarchy& hierarchy : sandbox::find_hierarchies()) {
    own.push_back(hierarchy.own);
  }
  return sandbox::memory_kills(own).value_or(0);
}

}  // namespace trainyard::instance
