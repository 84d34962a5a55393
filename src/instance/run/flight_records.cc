// SPDX-License-Identifier: Apache-2.0
#include "instance/run/flight_records.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/text.h"
#include "instance/run/own_file.h"

namespace trainyard::instance {
namespace {

constexpr std::string_view kPrefix = "flight-";
constexpr std::string_view kSuffix = ".jsonl";
constexpr std::size_t kMost = 1024;
constexpr std::size_t kShown = 8;
constexpr off_t kMostBytes = off_t{16} << 20;  // 4,096 operations are less than 2 MiB

std::vector<Path> records_in(const Path& status) {
  std::vector<Path> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(status, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && found.size() < kMost) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<void> keep(const Path& record, const Fd& ml, const std::string& name) {
  YARD_TRY(const Fd from, open_file(record, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (::fstat(from.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size > kMostBytes) {
    return Error{Code::kInvalidArgument, record.filename().string() + " is none"};
  }
  YARD_TRY(const Fd to, open_own_file(ml, "output/data/" + name, O_TRUNC));
  return copy_rest(from.get(), to.get());
}

void add_line(std::vector<std::string>& lines, std::string_view what,
              std::vector<std::string> items) {
  if (items.empty()) {
    return;
  }
  const std::size_t more = items.size() - std::min(items.size(), kShown);
  items.resize(items.size() - more);
  lines.push_back(fmt::format("{}: {}{}", what, join(items, ", "),
                              more > 0 ? fmt::format(" and {} more", more) : ""));
}

}  // namespace

std::vector<std::string> keep_flight_records(const Path& status, const Path& ml,
                                             const std::string& host) {
  const std::vector<Path> records = records_in(status);
  const Result<Fd> directory = open_ml(ml);
  std::vector<std::string> kept;
  std::vector<std::string> failures;
  for (const Path& record : records) {
    const std::string name =
        fmt::format("{}{}-{}", kPrefix, host, record.filename().string().substr(kPrefix.size()));
    const Result<void> done = directory ? keep(record, *directory, name) : directory.error();
    done ? kept.push_back(name) : failures.push_back(done.error().message);
  }
  std::vector<std::string> lines;
  add_line(lines, "The collectives' flight records are in output.tar.gz", std::move(kept));
  add_line(lines, "Flight records that are not kept", std::move(failures));
  return lines;
}

}  // namespace trainyard::instance
