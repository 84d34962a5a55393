// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_check.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/text.h"
#include "control/logs/log_segment.h"
#include "server/backup/home_copy.h"
#include "server/backup/home_kind.h"
#include "server/backup/plain_files.h"
#include "server/backup/store_index.h"
#include "sql/connection.h"

namespace trainyard::server {
namespace {

constexpr std::size_t kMostProblems = 100;

class Checker {
 public:
  Checker(const PlainFiles& files, HomeKind kind, const CopyProgress& progress)
      : files_(files), kind_(std::move(kind)), progress_(progress) {}

  Result<HomeReport> run() {
    if (kind_.has_jobs) {
      YARD_TRY(check_database("trainyard.db"));
    }
    const auto index = files_.size_of(index_name());
    if (index) {
      YARD_TRY(check_database(index_name()));
      YARD_TRY(check_contents());
    } else if (index.error().code != Code::kNotFound) {
      return index.error();
    }
    if (kind_.has_jobs) {
      YARD_TRY(check_logs());
    }
    if (report_.problem_count > kMostProblems) {
      report_.problems.push_back(fmt::format("and {} more", report_.problem_count - kMostProblems));
    }
    return std::move(report_);
  }

 private:
  void tell(std::string problem) {
    if (++report_.problem_count <= kMostProblems) {
      report_.problems.push_back(std::move(problem));
    }
  }

  Path index_name() const { return kind_.objects / "index.db"; }

  Result<void> check_database(const Path& name) {
    const Path file = files_.root() / name;
    YARD_TRY(sql::Connection connection, sql::Connection::open(file, sql::Access::kRead));
    if (const auto checked = connection.check_all(); !checked) {
      if (checked.error().code != Code::kCorrupt) {
        return checked.error().in("checking " + file.string());
      }
      tell(file.string() + ": " + checked.error().message);
    }
    return {};
  }

  // What is missing may have been replaced meanwhile: then a later look at the index does not name
  // it any more.
  Result<void> check_contents() {
    const Path index_file = files_.root() / index_name();
    std::set<std::string> missing;
    YARD_TRY(StoreIndex index, StoreIndex::open(index_file));
    YARD_TRY(index.each([&](const StoredContent& content) {
      report_.bytes += content.size;
      check_content(content, missing);
      return progress_("check", ++report_.contents, 0);
    }));
    if (missing.empty()) {
      return {};
    }
    return index.each([&](const StoredContent& content) {
      if (missing.contains(content.id)) {
        tell(fmt::format("{}: the content of an object of {} is missing", full_path(content.id),
                         human_bytes(content.size)));
      }
      return Result<void>();
    });
  }

  std::string full_path(const std::string& content) const {
    return (files_.root() / content_path(kind_.objects, content)).string();
  }

  void check_content(const StoredContent& content, std::set<std::string>& missing) {
    const auto size = files_.size_of(content_path(kind_.objects, content.id));
    if (size && *size != content.size) {
      tell(fmt::format("{}: has {} bytes, its object has {}", full_path(content.id), *size,
                       content.size));
    } else if (!size && size.error().code == Code::kNotFound) {
      missing.insert(content.id);
    } else if (!size) {
      tell(size.error().message);
    }
  }

  Result<void> check_logs() {
    std::error_code failed;
    std::vector<Path> segments;  // names
    const Path& home = files_.root();
    using Walk = std::filesystem::recursive_directory_iterator;
    for (Walk it(home / "logs", failed), end; !failed && it != end; it.increment(failed)) {
      if (it->path().extension() == ".log") {
        segments.push_back(it->path().lexically_relative(home));
      }
    }
    if (failed && failed.value() != ENOENT) {
      return errno_error("listing " + (home / "logs").string(), failed.value());
    }
    std::sort(segments.begin(), segments.end());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const bool is_newest =
          i + 1 == segments.size() || segments[i + 1].parent_path() != segments[i].parent_path();
      YARD_TRY(check_segment(segments[i], is_newest));
    }
    return {};
  }

  // The newest may end in the middle of a record: it is being written, or was at a crash.
  Result<void> check_segment(const Path& name, bool is_newest) {
    const Path file = files_.root() / name;
    const auto first = parse_int(file.stem().string());
    const auto fd = files_.open_plain(name);
    if (!first || !fd) {
      return fd || fd.error().code == Code::kNotFound ? Result<void>() : fd.error();
    }
    struct stat info {};
    if (::fstat(fd->get(), &info) != 0) {
      return errno_error("reading " + file.string(), errno);
    }
    YARD_TRY(const control::ScannedSegment scanned,
             control::scan_segment(fd->get(), static_cast<std::uint64_t>(*first)));
    const control::SegmentSummary& summary = scanned.index.summary;
    YARD_TRY(progress_("check", report_.contents + ++report_.log_files, 0));
    report_.log_lines += summary.end_position - summary.first_position;
    const bool is_empty = scanned.index.blocks.empty();
    if (scanned.damaged_bytes > 0 && !(is_newest && is_empty)) {
      tell(fmt::format("{}: {} bytes are damaged", file.string(), scanned.damaged_bytes));
    }
    if (!is_newest && static_cast<std::uint64_t>(info.st_size) > summary.end_offset) {
      tell(fmt::format("{}: its last {} bytes are damaged", file.string(),
                       static_cast<std::uint64_t>(info.st_size) - summary.end_offset));
    }
    return {};
  }

  const PlainFiles& files_;
  HomeKind kind_;
  const CopyProgress& progress_;
  HomeReport report_;
};

}  // namespace

Result<HomeReport> check_home(const Path& home, const CopyProgress& progress) {
  struct stat status {};
  const bool is_backup = ::lstat((home / kBackupFile).c_str(), &status) == 0;
  YARD_TRY(const PlainFiles files,
           PlainFiles::open(home, is_backup ? Links::kRefused : Links::kFollowed));
  YARD_TRY(HomeKind kind, kind_of(files));
  return Checker(files, std::move(kind), progress).run();
}

}  // namespace trainyard::server
