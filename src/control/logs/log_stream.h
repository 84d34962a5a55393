// SPDX-License-Identifier: Apache-2.0
// One log stream on disk: segments that are only ever appended to, in one directory. LogStore opens
// streams and calls them from any thread. An event can be read once it has been written, and is on
// the platter before a reader gets it: what was shown is never lost. What cannot be read is skipped
// and named, in its place and in the server's log. Only the index of the newest segment is kept in
// memory (32 KiB at most), so a stream of 20 GB costs no more than one of 20 MB.
//
//   <directory>/00000000000000000000.log      the number is the position of the first event
//   <directory>/00000000000000000000.idx      written when the segment is full
//   <directory>/00000000000000131072.log      the newest, scanned at open
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "control/logs/log_segment.h"

namespace trainyard::control {

struct LogSummary {
  WallTime created{};
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;  // on disk
  // Set once there is an event. Event times need not rise: `earliest` and `latest` bound them.
  std::optional<WallTime> first_at = {};
  std::optional<WallTime> last_at = {};
  std::optional<WallTime> last_ingested = {};
  WallTime earliest{};
  WallTime latest{};
};

// Forward: events at positions >= `from`. Backward: the events just before `from`. Both are cut
// after `max_events`, or before the text (with 26 bytes an event, as CloudWatch counts) exceeds
// `max_bytes`; one event always fits. Only events with start <= at < end are given.
struct LogQuery {
  std::uint64_t from = 0;
  bool backward = false;
  std::optional<WallTime> start = {};
  std::optional<WallTime> end = {};
  std::size_t max_events = 10'000;
  std::size_t max_bytes = std::size_t{1} << 20;
};

struct LogPage {
  std::vector<StoredEvent> events;  // by rising position, whichever way was read
  // The positions that this page has dealt with: going on forward starts at `end`, going on
  // backward at `begin`.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool complete = false;  // nothing more lies in the direction of reading, for now
};

struct LogStreamOptions {
  std::size_t segment_bytes = std::size_t{16} << 20;  // a new one is begun after this many
  int (*sync_file)(int fd) = ::fdatasync;             // tests: of a disk that fails
};

class LogStream {
 public:
  // Creates the directory when it is not there; cuts a torn tail off.
  static Result<std::shared_ptr<LogStream>> open(const Path& directory, WallTime now,
                                                 LogStreamOptions options = {});

  // All of them or none, in order.
  Result<void> append(std::span<const LogEvent> events, WallTime now);
  // Syncs first what it gives and nobody has synced.
  Result<LogPage> read(const LogQuery& query);
  LogSummary summary() const;

  bool is_dirty() const;
  // Whether closing it now would lose something: what it has written itself and nobody has synced,
  // or that a sync has failed. What was there when it was opened is found again, and is synced then
  // before it is shown.
  bool needs_sync_to_close() const;
  // What has been appended before the call survives power loss after it. After an error nobody can
  // tell what of the segment is on disk: sync() repeats that error, and so nothing more of it is
  // shown or acknowledged. The next append() takes out again what had come since the last sync that
  // succeeded, and begins another segment: who was told of the error sends it once more.
  Result<void> sync();

 private:
  // Shared with the readers that have a snapshot of it.
  using Sealed = std::shared_ptr<const std::vector<SegmentSummary>>;
  // One consistent state for a reader, who then reads files without any lock.
  struct Snapshot {
    Sealed sealed;
    SegmentIndex active;
    int drops = 0;
  };
  class Reader;

  LogStream(Path directory, LogStreamOptions options);
  Result<void> recover(WallTime now);
  Result<SegmentSummary> recover_sealed(std::uint64_t first_position);
  Result<bool> recover_active(std::uint64_t first_position);
  void tell_of_damage(std::uint64_t bytes, std::uint64_t first_position) const;
  Result<void> begin_segment(std::uint64_t first_position, WallTime now, Sealed sealed);
  Result<void> seal();
  Result<void> drop_unsynced();
  Result<void> sync_files(const Fd& file, bool with_directory) const;
  bool has_written() const;
  std::optional<Error> failed_sync() const;
  Snapshot snapshot() const;
  bool is_synced(std::uint64_t position) const;
  Path segment_path(std::uint64_t first_position, const char* extension) const;

  Path directory_;
  LogStreamOptions options_;

  // Orders appends. It is held while they write: only other appends to this stream wait for it.
  Mutex writer_;
  bool tail_is_torn_ GUARDED_BY(writer_) = false;

  mutable std::atomic<bool> has_told_of_damage_ = false;  // said once while it is open

  Mutex syncer_;  // held by the one sync() in flight
  mutable Mutex mutex_;
  Sealed sealed_ GUARDED_BY(mutex_);
  SegmentIndex active_ GUARDED_BY(mutex_);
  // Shared with a sync() in flight, which outlives the sealing of the segment.
  std::shared_ptr<const Fd> file_ GUARDED_BY(mutex_);
  std::uint64_t synced_to_ GUARDED_BY(mutex_) = 0;  // position
  // The newest segment as it was at its last sync, or when it was opened.
  SegmentIndex kept_ GUARDED_BY(mutex_);
  int drops_ GUARDED_BY(mutex_) = 0;  // how often a segment has been cut back to that
  bool directory_is_dirty_ GUARDED_BY(mutex_) = false;
  bool has_written_ GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_sync_ GUARDED_BY(mutex_);  // of the newest segment
};

}  // namespace trainyard::control
