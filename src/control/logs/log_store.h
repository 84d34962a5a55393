// SPDX-License-Identifier: Apache-2.0
// All log groups and their streams, in one directory. The reconciler appends what instances report;
// log_operations.h answers clients from it. Any thread may call. What has once been read is never
// lost or reordered, also by power loss: it is synced before it is shown. What nobody has read is
// synced by a thread of its own, at most a second later. Streams are opened when they are used and
// closed again when they rest, so memory depends on neither their number of bytes nor their age.
//
//   <directory>/<group>/created            time in ms
//   <directory>/<group>/<stream>/...       log_stream.h; names are percent-encoded
//
// Errors: kNotFound with subject "log_group" or "log_stream".
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "control/logs/log_stream.h"

namespace trainyard::control {

struct LogStoreOptions {
  std::size_t max_open = 128;                 // streams kept open, where so many files may be
  std::chrono::milliseconds sync_after{500};  // from the first unsynced append
  LogStreamOptions stream = {};
};

class LogStore {
 public:
  static Result<std::unique_ptr<LogStore>> open(const Path& directory, Clock& clock);
  static Result<std::unique_ptr<LogStore>> open(const Path& directory, Clock& clock,
                                                const LogStoreOptions& options);
  ~LogStore();  // syncs

  // Creates group and stream at their first use; all of the events or none, in order. An empty span
  // creates the stream only. kInvalidArgument for names longer than 240 bytes when encoded.
  Result<void> append(std::string_view group, std::string_view stream,
                      std::span<const LogEvent> events);
  Result<LogPage> read(std::string_view group, std::string_view stream, const LogQuery& query);
  Result<LogSummary> summary(std::string_view group, std::string_view stream);

  // Names in byte order.
  std::vector<std::string> groups(std::string_view prefix = {});
  Result<std::vector<std::string>> streams(std::string_view group, std::string_view prefix = {});
  Result<WallTime> group_created(std::string_view group);

  // Everything appended before the call survives power loss after it; of all streams, or of one.
  Result<void> sync();
  Result<void> sync(std::string_view group, std::string_view stream);

 private:
  // `opening` keeps two threads from recovering one stream at once.
  struct Entry {
    Path directory;
    Mutex opening;
    std::shared_ptr<LogStream> stream GUARDED_BY(opening);
    std::optional<LogSummary> resting GUARDED_BY(opening);  // of a stream that is closed
    SteadyTime last_used GUARDED_BY(opening){};
  };
  using EntryPtr = std::shared_ptr<Entry>;  // kept by a call in flight
  struct Group {
    WallTime created{};
    std::map<std::string, EntryPtr, std::less<>> streams;
  };

  LogStore(Path directory, Clock& clock, const LogStoreOptions& options);
  Result<void> load();
  Result<EntryPtr> find(std::string_view group, std::string_view stream);
  Result<EntryPtr> find_or_add(std::string_view group, std::string_view stream);
  Result<std::shared_ptr<LogStream>> open_entry(const EntryPtr& entry);
  void close_resting();
  void sync_loop(const std::stop_token& stop);

  Path directory_;
  Clock& clock_;
  LogStoreOptions options_;

  Mutex mutex_;
  std::map<std::string, Group, std::less<>> groups_ GUARDED_BY(mutex_);
  std::vector<EntryPtr> open_ GUARDED_BY(mutex_);
  bool is_dirty_ GUARDED_BY(mutex_) = false;
  ConditionVariable dirtied_;

  std::jthread syncer_;
};

}  // namespace trainyard::control
