// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/regions.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "base/text.h"

namespace trainyard::comm {
namespace {

constexpr std::string_view kPrefix = "trainyard-fabric-";
constexpr std::size_t kStartField = 22;  // of /proc/<pid>/stat: ticks since the boot

std::optional<std::string> pid_namespace() {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0) {
    return std::nullopt;
  }
  return std::to_string(status.st_ino);
}

// The name of a program may hold anything; it ends with the last parenthesis.
Result<std::string> start_of(std::string_view pid) {
  YARD_TRY(const std::string text, read_file(fmt::format("/proc/{}/stat", pid)));
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) {
    return Error{Code::kCorrupt, "a process has no status"};
  }
  const std::vector<std::string_view> fields =
      split(trim(std::string_view(text).substr(end + 1)), ' ');
  constexpr std::size_t kIndex = kStartField - 3;  // two fields before, and they count from 1
  if (fields.size() <= kIndex) {
    return Error{Code::kCorrupt, "a process has no status"};
  }
  return std::string(fields[kIndex]);
}

}  // namespace

Result<std::string> new_region_name() {
  SystemRandom random;
  const auto space = pid_namespace();
  if (!space) {
    return Error{Code::kUnavailable, "/proc does not say which processes are seen here"};
  }
  const std::string pid = std::to_string(::getpid());
  YARD_TRY(const std::string start, start_of(pid));
  return fmt::format("{}{}-{}-{}-{}", kPrefix, *space, pid, start, random.hex(8));
}

bool is_stale_region(std::string_view name) {
  if (!name.starts_with(kPrefix)) {
    return false;
  }
  const std::vector<std::string_view> parts = split(name.substr(kPrefix.size()), '-');
  if (parts.size() != 4 || parts[0] != pid_namespace() || !parse_int(parts[1])) {
    return false;
  }
  const Result<std::string> start = start_of(parts[1]);
  if (!start) {
    return start.error().code == Code::kNotFound;
  }
  return *start != parts[2];
}

void remove_region(const std::string& name, const Path& folder) {
  ::unlink((folder / name).c_str());
}

void remove_stale_regions(const Path& folder) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (is_stale_region(name)) {
      remove_region(name, folder);
    }
  }
}

}  // namespace trainyard::comm
