// SPDX-License-Identifier: Apache-2.0
#include "instance/run/flight_records.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "instance/run/own_file.h"

namespace trainyard::instance {
namespace {

constexpr std::string_view kPrefix = "flight-";
constexpr std::string_view kSuffix = ".jsonl";
constexpr std::size_t kShown = 8;

std::vector<Path> records_in(const Path& status, std::size_t most) {
  std::vector<Path> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(status, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && found.size() < most) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// SEEK_HOLE and not the count of blocks, which compression and inline data make small. A file
// system that knows no holes answers with the end.
bool has_holes(int file, off_t size) {
  const off_t hole = ::lseek(file, 0, SEEK_HOLE);
  return size > 0 && (hole < size || ::lseek(file, 0, SEEK_SET) != 0);
}

// Its size.
Result<std::size_t> check(const Fd& file, const std::string& name, std::size_t most,
                          std::size_t left) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, name + " is none"};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > most || has_holes(file.get(), status.st_size)) {
    return Error{Code::kInvalidArgument, name + " is none"};
  }
  if (size > left) {
    return Error{Code::kExhausted, name + " is too much beside the others"};
  }
  return size;
}

// The bytes that were copied.
Result<std::size_t> keep(const Path& record, const Fd& ml, const std::string& name,
                         std::size_t most, std::size_t left) {
  YARD_TRY(const Fd from, open_file(record, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  YARD_TRY(const std::size_t size, check(from, record.filename().string(), most, left));
  YARD_TRY(const Fd to, open_own_file(ml, "output/data/" + name, O_TRUNC));
  YARD_TRY(copy_rest(from.get(), to.get()));
  return size;
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
                                             const std::string& host,
                                             const FlightRecordLimits& limits) {
  const Result<Fd> directory = open_ml(ml);
  std::size_t left = limits.bytes_in_all;
  std::vector<std::string> kept;
  std::vector<std::string> failures;
  for (const Path& record : records_in(status, limits.files)) {
    const std::string name =
        fmt::format("{}{}-{}", kPrefix, host, record.filename().string().substr(kPrefix.size()));
    const Result<std::size_t> size =
        directory ? keep(record, *directory, name, limits.bytes_each, left) : directory.error();
    if (!size) {
      failures.push_back(size.error().message);
      continue;
    }
    left -= *size;
    kept.push_back(name);
  }
  std::vector<std::string> lines;
  add_line(lines, "The collectives' flight records are in output.tar.gz", std::move(kept));
  add_line(lines, "Flight records that are not kept", std::move(failures));
  return lines;
}

}  // namespace trainyard::instance
