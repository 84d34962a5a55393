// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_stream.h"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace trainyard::control {
namespace {

constexpr std::size_t kEventOverhead = 26;  // what CloudWatch counts for an event beside its text

// Fewer bytes when the file is shorter.
Result<std::string> read_range(int fd, std::uint64_t from, std::uint64_t to) {
  std::string bytes(to - from, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    YARD_TRY(const std::size_t got,
             read_at(fd, std::as_writable_bytes(std::span(bytes)).subspan(have), from + have));
    if (got == 0) {
      break;
    }
    have += got;
  }
  bytes.resize(have);
  return bytes;
}

bool overlaps(WallTime min_at, WallTime max_at, const LogQuery& query) {
  return (!query.start || max_at >= *query.start) && (!query.end || min_at < *query.end);
}

bool is_wanted(const StoredEvent& event, const LogQuery& query) {
  return (!query.start || event.at >= *query.start) && (!query.end || event.at < *query.end);
}

}  // namespace

// Reads pages over one snapshot, block by block.
class LogStream::Reader {
 public:
  Reader(const LogStream& stream, Snapshot snapshot)
      : stream_(stream), snapshot_(std::move(snapshot)) {}

  std::uint64_t end() const { return snapshot_.active.summary.end_position; }

  Result<LogPage> forward(const LogQuery& query) {
    LogPage page;
    page.begin = page.end = std::min(query.from, end());
    while (page.end < end()) {
      YARD_TRY(const Piece piece, piece_at(page.end, query));
      for (const StoredEvent& event : piece.events) {
        if (event.position < page.end || !is_wanted(event, query)) {
          continue;
        }
        if (!take(event, query)) {
          page.end = event.position;
          return give(std::move(page));
        }
      }
      page.end = piece.end;
    }
    page.complete = true;
    return give(std::move(page));
  }

  Result<LogPage> backward(const LogQuery& query) {
    LogPage page;
    page.begin = page.end = std::min(query.from, end());
    while (page.begin > 0) {
      YARD_TRY(const Piece piece, piece_at(page.begin - 1, query));
      for (auto event = piece.events.rbegin(); event != piece.events.rend(); ++event) {
        if (event->position >= page.begin || !is_wanted(*event, query)) {
          continue;
        }
        if (!take(*event, query)) {
          page.begin = event->position + 1;
          std::reverse(taken_.begin(), taken_.end());
          return give(std::move(page));
        }
      }
      page.begin = piece.begin;
    }
    page.complete = true;
    std::reverse(taken_.begin(), taken_.end());
    return give(std::move(page));
  }

 private:
  // A run of positions: a block with its events, or a stretch that holds none of those asked for.
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::vector<StoredEvent> events = {};
  };

  bool take(const StoredEvent& event, const LogQuery& query) {
    const std::size_t size = event.text.size() + kEventOverhead;
    const bool fits = taken_.size() < query.max_events && bytes_ + size <= query.max_bytes;
    if (!fits && !taken_.empty()) {
      return false;
    }
    bytes_ += size;
    taken_.push_back(event);
    return true;
  }

  LogPage give(LogPage page) {
    page.events = std::move(taken_);
    return page;
  }

  Result<Piece> piece_at(std::uint64_t position, const LogQuery& query) {
    const SegmentSummary& segment = segment_of(position);
    if (!overlaps(segment.min_at, segment.max_at, query)) {
      return Piece{.begin = end_before(segment), .end = segment.end_position};
    }
    if (position < segment.first_position) {  // a file of ours is gone
      return missing(end_before(segment), segment.first_position, segment);
    }
    if (const auto opened = open_segment(segment); !opened) {
      if (opened.error().code != Code::kNotFound) {
        return opened.error();
      }
      return missing(segment.first_position, segment.end_position, segment);
    }
    if (position >= index_->summary.end_position) {  // its end is gone, and its index was made anew
      return missing(index_->summary.end_position, segment.end_position, segment);
    }
    const std::size_t block = index_->block_of(position);
    Piece piece{.begin = index_->blocks[block].first_position,
                .end = index_->end_position_of(block)};
    if (!overlaps(index_->blocks[block].min_at, index_->blocks[block].max_at, query)) {
      return piece;
    }
    const BlockPlace place{
        .first_position = piece.begin,
        .end_position = piece.end,
        .offset = index_->blocks[block].offset,
        .bytes = index_->end_offset_of(block) - index_->blocks[block].offset,
        .file = stream_.segment_path(segment.first_position, ".log").filename().string()};
    YARD_TRY(const std::string bytes,
             read_range(file_.get(), place.offset, place.offset + place.bytes));
    DecodedBlock decoded = decode_block(bytes, place);
    if (decoded.damaged_bytes > 0) {
      stream_.tell_of_damage(decoded.damaged_bytes, segment.first_position);
    }
    piece.events = std::move(decoded.events);
    return piece;
  }

  Piece missing(std::uint64_t begin, std::uint64_t end, const SegmentSummary& segment) const {
    stream_.tell_of_damage(0, begin);
    Piece piece{.begin = begin, .end = end};
    piece.events.push_back(
        {.position = begin,
         .at = segment.min_at,
         .ingested = segment.last_ingested,
         .text =
             fmt::format("[trainyard] the file {} is missing: {} lines cannot be shown",
                         stream_.segment_path(begin, ".log").filename().string(), end - begin)});
    return piece;
  }

  const SegmentSummary& segment_of(std::uint64_t position) const {
    const auto found = std::upper_bound(
        snapshot_.sealed->begin(), snapshot_.sealed->end(), position,
        [](std::uint64_t wanted, const auto& segment) { return wanted < segment.end_position; });
    return found != snapshot_.sealed->end() ? *found : snapshot_.active.summary;
  }

  // The segment's first position, unless a file before it is gone.
  std::uint64_t end_before(const SegmentSummary& segment) const {
    const auto& sealed = *snapshot_.sealed;
    const auto next = std::lower_bound(
        sealed.begin(), sealed.end(), segment.first_position,
        [](const auto& one, std::uint64_t wanted) { return one.first_position < wanted; });
    return next == sealed.begin() ? 0 : std::prev(next)->end_position;
  }

  Result<void> open_segment(const SegmentSummary& segment) {
    if (index_ != nullptr && index_->summary.first_position == segment.first_position) {
      return {};
    }
    YARD_TRY(file_, open_file(stream_.segment_path(segment.first_position, ".log"), O_RDONLY));
    if (&segment == &snapshot_.active.summary) {
      index_ = &snapshot_.active;
      return {};
    }
    index_ = &loaded_;
    if (const auto bytes = read_file(stream_.segment_path(segment.first_position, ".idx")); bytes) {
      if (auto index = decode_index(*bytes); index) {
        loaded_ = *std::move(index);
        return {};
      }
    }
    YARD_TRY(ScannedSegment scanned, scan_segment(file_.get(), segment.first_position));
    loaded_ = std::move(scanned.index);
    return {};
  }

  const LogStream& stream_;
  Snapshot snapshot_;
  const SegmentIndex* index_ = nullptr;  // of the open segment
  SegmentIndex loaded_;
  Fd file_;
  std::vector<StoredEvent> taken_;
  std::size_t bytes_ = 0;
};

LogStream::LogStream(Path directory, LogStreamOptions options)
    : directory_(std::move(directory)),
      options_(options),
      sealed_(std::make_shared<const std::vector<SegmentSummary>>()) {}

Result<std::shared_ptr<LogStream>> LogStream::open(const Path& directory, WallTime now,
                                                   LogStreamOptions options) {
  std::shared_ptr<LogStream> stream(new LogStream(directory, options));
  if (auto recovered = stream->recover(now); !recovered) {
    return recovered.error().in("opening the log stream " + directory.string());
  }
  return stream;
}

Path LogStream::segment_path(std::uint64_t first_position, const char* extension) const {
  return directory_ / fmt::format("{:020}{}", first_position, extension);
}

Result<void> LogStream::begin_segment(std::uint64_t first_position, WallTime now, Sealed sealed) {
  YARD_TRY(Fd file,
           open_file(segment_path(first_position, ".log"), O_RDWR | O_APPEND | O_CREAT | O_TRUNC));
  YARD_TRY(write_all(file.get(), encode_segment_header(first_position, now)));
  SegmentIndex index;
  index.summary.first_position = first_position;
  index.summary.end_position = first_position;
  index.summary.created = now;
  const MutexLock lock(mutex_);
  sealed_ = std::move(sealed);
  kept_ = index;
  active_ = std::move(index);
  file_ = std::make_shared<const Fd>(std::move(file));
  synced_to_ = first_position;
  directory_is_dirty_ = true;
  has_written_ = true;
  failed_sync_.reset();
  return {};
}

// The full segment becomes one of the sealed ones: durable, with its index beside it. One whose
// sync has failed stays as it is.
Result<void> LogStream::seal() {
  const Snapshot full = snapshot();
  const SegmentSummary& summary = full.active.summary;
  if (summary.is_empty()) {
    return begin_segment(summary.first_position, summary.created, full.sealed);
  }
  if (!failed_sync()) {
    YARD_TRY(sync());
  }
  YARD_TRY(
      write_file_durably(segment_path(summary.first_position, ".idx"), encode_index(full.active)));
  auto sealed = std::make_shared<std::vector<SegmentSummary>>(*full.sealed);
  sealed->push_back(summary);
  return begin_segment(summary.end_position, summary.last_ingested, std::move(sealed));
}

// Readers find out by the count before they miss the bytes in the file.
Result<void> LogStream::drop_unsynced() {
  std::shared_ptr<const Fd> file;
  std::uint64_t end = 0;
  {
    const MutexLock lock(mutex_);
    active_ = kept_;
    ++drops_;
    file = file_;
    end = kept_.summary.end_offset;
  }
  return ::ftruncate(file->get(), static_cast<off_t>(end)) == 0
             ? Result<void>()
             : errno_error("cannot truncate a log segment", errno);
}

Result<void> LogStream::append(std::span<const LogEvent> events, WallTime now) {
  std::string bytes;
  for (const LogEvent& event : events) {
    if (event.text.size() > kMaxLogText) {
      return Error{Code::kInvalidArgument, "a log event is longer than 8 MiB", "log_event"};
    }
    append_record(bytes, event, now);
  }
  if (bytes.empty()) {
    return {};
  }
  const MutexLock writing(writer_);
  if (failed_sync()) {
    YARD_TRY(drop_unsynced());
  }
  Snapshot before = snapshot();
  if (before.active.summary.end_offset >= options_.segment_bytes || failed_sync()) {
    YARD_TRY(seal());
    before = snapshot();
  }
  std::shared_ptr<const Fd> file;
  {
    const MutexLock lock(mutex_);
    file = file_;
  }
  // What a failed write leaves behind is cut off again, so that it can never be read.
  const auto cut_back = [&] {
    tail_is_torn_ =
        ::ftruncate(file->get(), static_cast<off_t>(before.active.summary.end_offset)) != 0;
    return tail_is_torn_ ? Result<void>(errno_error("cannot truncate a log segment", errno))
                         : Result<void>();
  };
  if (tail_is_torn_) {
    YARD_TRY(cut_back());
  }
  if (auto written = write_all(file->get(), bytes); !written) {
    static_cast<void>(cut_back());
    return written.error().in("writing the log " + directory_.string());
  }
  const MutexLock lock(mutex_);
  has_written_ = true;
  for (const LogEvent& event : events) {
    active_.add(kRecordHeader + event.text.size(), event.at, now);
  }
  return {};
}

LogStream::Snapshot LogStream::snapshot() const {
  const MutexLock lock(mutex_);
  return {.sealed = sealed_, .active = active_, .drops = drops_};
}

Result<LogPage> LogStream::read(const LogQuery& query) {
  Snapshot now = snapshot();
  const int drops = now.drops;
  Reader reader(*this, std::move(now));
  YARD_TRY(LogPage page, query.backward ? reader.backward(query) : reader.forward(query));
  if (snapshot().drops != drops) {
    return read(query);  // of lines that are no longer there
  }
  if (!page.events.empty() && !is_synced(page.events.back().position)) {
    YARD_TRY(sync());
  }
  return page;
}

bool LogStream::is_synced(std::uint64_t position) const {
  const MutexLock lock(mutex_);
  return !directory_is_dirty_ && position < synced_to_;
}

LogSummary LogStream::summary() const {
  const MutexLock lock(mutex_);
  LogSummary out{.created = sealed_->empty() ? active_.summary.created : sealed_->front().created,
                 .events = active_.summary.end_position,
                 .bytes = active_.summary.end_offset};
  const auto count = [&](const SegmentSummary& segment) {
    if (segment.is_empty()) {
      return;
    }
    out.earliest = out.first_at ? std::min(out.earliest, segment.min_at) : segment.min_at;
    out.latest = out.first_at ? std::max(out.latest, segment.max_at) : segment.max_at;
    out.first_at = out.first_at.value_or(segment.first_at);
    out.last_at = segment.last_at;
    out.last_ingested = segment.last_ingested;
  };
  for (const SegmentSummary& segment : *sealed_) {
    out.bytes += segment.end_offset;
    count(segment);
  }
  count(active_.summary);
  return out;
}

bool LogStream::is_dirty() const {
  const MutexLock lock(mutex_);
  return directory_is_dirty_ || synced_to_ < active_.summary.end_position;
}

bool LogStream::needs_sync_to_close() const {
  return is_dirty() && (has_written() || failed_sync());
}

bool LogStream::has_written() const {
  const MutexLock lock(mutex_);
  return has_written_;
}

std::optional<Error> LogStream::failed_sync() const {
  const MutexLock lock(mutex_);
  return failed_sync_;
}

// One at a time: the kernel tells an error of an open file once, and then says that all is well. So
// it is remembered before anybody else asks.
Result<void> LogStream::sync() {
  const MutexLock one_at_a_time(syncer_);
  std::shared_ptr<const Fd> file;
  SegmentIndex written;
  bool with_directory = false;
  {
    const MutexLock lock(mutex_);
    file = file_;
    with_directory = directory_is_dirty_;
    if (!with_directory && synced_to_ >= active_.summary.end_position) {
      return {};  // by the one before
    }
    if (failed_sync_) {
      return *failed_sync_;
    }
    written = active_;
  }
  Result<void> synced = sync_files(*file, with_directory);
  const MutexLock lock(mutex_);
  if (!synced) {
    if (file == file_) {
      failed_sync_ = synced.error();
    }
    return synced;
  }
  synced_to_ = std::max(synced_to_, written.summary.end_position);
  if (file == file_) {
    kept_ = std::move(written);
  }
  // A segment that was begun meanwhile has made the directory dirty again.
  directory_is_dirty_ = directory_is_dirty_ && file != file_;
  return {};
}

Result<void> LogStream::sync_files(const Fd& file, bool with_directory) const {
  if (options_.sync_file(file.get()) != 0) {
    return errno_error("cannot sync the log " + directory_.string(), errno);
  }
  if (with_directory) {
    YARD_TRY(sync_directory(directory_));
    YARD_TRY(sync_directory(directory_.parent_path()));
  }
  return {};
}

}  // namespace trainyard::control
