// SPDX-License-Identifier: Apache-2.0
// How a stream is opened again: what a server that died, or a machine that lost its power, has left
// of its segments.
#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "control/logs/log_stream.h"

namespace trainyard::control {
namespace {

Result<std::vector<std::uint64_t>> segments_in(const Path& directory) {
  std::vector<std::uint64_t> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (it->path().extension() != ".log") {
      continue;
    }
    const Result<std::int64_t> first = parse_int(it->path().stem().string());
    if (first && *first >= 0) {
      found.push_back(static_cast<std::uint64_t>(*first));
    }
  }
  if (failed) {
    return errno_error("cannot list " + directory.string(), failed.value());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<void> LogStream::recover(WallTime now) {
  YARD_TRY(make_directories(directory_, 0700));
  YARD_TRY(std::vector<std::uint64_t> found, segments_in(directory_));
  // The newest has nothing in it when the machine died while it was begun.
  while (!found.empty()) {
    YARD_TRY(const bool holds_events, recover_active(found.back()));
    if (holds_events) {
      break;
    }
    found.pop_back();
  }
  if (found.empty()) {
    return begin_segment(0, now, std::make_shared<const std::vector<SegmentSummary>>());
  }
  std::vector<SegmentSummary> sealed;
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {
    YARD_TRY(SegmentSummary summary, recover_sealed(found[i]));
    sealed.push_back(summary);
  }
  const MutexLock lock(mutex_);
  sealed_ = std::make_shared<const std::vector<SegmentSummary>>(std::move(sealed));
  return {};
}

Result<SegmentSummary> LogStream::recover_sealed(std::uint64_t first_position) {
  const Path path = segment_path(first_position, ".idx");
  if (const auto bytes = read_file(path); bytes) {
    if (auto index = decode_index(*bytes); index) {
      return index->summary;
    }
  }
  YARD_TRY(const Fd file, open_file(segment_path(first_position, ".log"), O_RDONLY));
  YARD_TRY(const ScannedSegment scanned, scan_segment(file.get(), first_position));
  if (scanned.damaged_bytes > 0) {
    tell_of_damage(scanned.damaged_bytes, first_position);
  }
  YARD_TRY(write_file_durably(path, encode_index(scanned.index)));
  return scanned.index.summary;
}

void LogStream::tell_of_damage(std::uint64_t bytes, std::uint64_t first_position) const {
  if (has_told_of_damage_.exchange(true)) {
    return;
  }
  const std::string file = segment_path(first_position, ".log").string();
  log_error(bytes == 0 ? fmt::format("the log file {} is missing: its lines are skipped", file)
                       : fmt::format("{} bytes of the log file {} are damaged, by a power loss or "
                                     "by the disk: they are skipped",
                                     bytes, file));
}

// False: nothing is in it, and the file is gone.
Result<bool> LogStream::recover_active(std::uint64_t first_position) {
  const Path path = segment_path(first_position, ".log");
  YARD_TRY(Fd file, open_file(path, O_RDWR | O_APPEND));
  YARD_TRY(ScannedSegment scanned, scan_segment(file.get(), first_position));
  SegmentIndex& index = scanned.index;
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return errno_error("cannot stat a log segment", errno);
  }
  if (scanned.damaged_bytes > 0 && index.blocks.empty()) {  // neither a header nor an event
    const bool is_small = static_cast<std::size_t>(info.st_size) <= kSegmentHeader;
    const Path aside = segment_path(first_position, ".damaged");
    if (!is_small) {
      log_error(fmt::format("nothing in the log file {} can be read: it is now {}", path.string(),
                            aside.filename().string()));
    }
    const int failed = is_small ? ::unlink(path.c_str()) : ::rename(path.c_str(), aside.c_str());
    return failed == 0 ? Result<bool>(false) : errno_error("removing " + path.string(), errno);
  }
  if (scanned.damaged_bytes > 0) {
    tell_of_damage(scanned.damaged_bytes, first_position);
  }
  if (static_cast<std::uint64_t>(info.st_size) > index.summary.end_offset) {
    log_warning(fmt::format("log stream {}: {} bytes of an unfinished record are cut off",
                            directory_.string(),
                            static_cast<std::uint64_t>(info.st_size) - index.summary.end_offset));
    if (::ftruncate(file.get(), static_cast<off_t>(index.summary.end_offset)) != 0) {
      return errno_error("cannot truncate a log segment", errno);
    }
  }
  const MutexLock lock(mutex_);
  // Written before, but perhaps never synced: no clock tells. To sync what is clean costs little.
  synced_to_ = index.summary.first_position;
  directory_is_dirty_ = true;
  kept_ = index;
  active_ = std::move(index);
  file_ = std::make_shared<const Fd>(std::move(file));
  return true;
}

}  // namespace trainyard::control
