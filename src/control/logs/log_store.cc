// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_store.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/encoding.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

namespace trainyard::control {
namespace {

constexpr std::size_t kMaxEncodedName = 240;
constexpr const char* kCreatedFile = "created";

// A name as one path component. A leading dot is encoded too: ".." is a valid stream name.
Result<std::string> component_of(std::string_view name) {
  std::string encoded = uri_encode(name);
  if (encoded.starts_with('.')) {
    encoded.replace(0, 1, "%2E");
  }
  // Unencoded, it would be the name of the group's own file.
  if (encoded == kCreatedFile) {
    encoded.replace(0, 1, "%63");
  }
  if (encoded.empty() || encoded.size() > kMaxEncodedName) {
    return Error{Code::kInvalidArgument,
                 fmt::format("log names have 1 to {} bytes when encoded", kMaxEncodedName),
                 "log_name"};
  }
  return encoded;
}

Error no_group(std::string_view group) {
  return {Code::kNotFound, fmt::format("The specified log group does not exist: {}", group),
          "log_group"};
}

Error no_stream(std::string_view stream) {
  return {Code::kNotFound, fmt::format("The specified log stream does not exist: {}", stream),
          "log_stream"};
}

// Names and paths of the directories in one directory.
Result<std::vector<std::pair<std::string, Path>>> directories_in(const Path& directory) {
  std::vector<std::pair<std::string, Path>> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;
    const Result<std::string> name = uri_decode(it->path().filename().string());
    if (name && it->is_directory(ignored)) {
      found.emplace_back(*name, it->path());
    }
  }
  if (failed) {
    return errno_error("cannot list " + directory.string(), failed.value());
  }
  return found;
}

// An eighth of the files that this process may open, for each open stream has one.
std::size_t share_of_files() {
  constexpr std::size_t kLeast = 4;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kLeast;
  }
  return std::max<std::size_t>(kLeast, limit.rlim_cur / 8);
}

template <typename Map>
std::vector<std::string> names_with_prefix(const Map& map, std::string_view prefix) {
  std::vector<std::string> names;
  for (auto it = map.lower_bound(prefix); it != map.end() && it->first.starts_with(prefix); ++it) {
    names.push_back(it->first);
  }
  return names;
}

}  // namespace

LogStore::LogStore(Path directory, Clock& clock, const LogStoreOptions& options)
    : directory_(std::move(directory)), clock_(clock), options_(options) {
  options_.max_open = std::min(options_.max_open, share_of_files());
}

Result<std::unique_ptr<LogStore>> LogStore::open(const Path& directory, Clock& clock) {
  return open(directory, clock, {});
}

Result<std::unique_ptr<LogStore>> LogStore::open(const Path& directory, Clock& clock,
                                                 const LogStoreOptions& options) {
  std::unique_ptr<LogStore> store(new LogStore(directory, clock, options));
  YARD_TRY(store->load());
  LogStore* self = store.get();
  store->syncer_ =
      start_thread("log-sync", [self](const std::stop_token& stop) { self->sync_loop(stop); });
  return store;
}

LogStore::~LogStore() {
  syncer_.request_stop();
  if (syncer_.joinable()) {
    syncer_.join();
  }
  if (auto synced = sync(); !synced) {
    log_error("logs are not synced: " + synced.error().message);
  }
}

Result<void> LogStore::load() {
  YARD_TRY(make_directories(directory_, 0700));
  // Their names, too, which an earlier process may have died before it synced.
  YARD_TRY(sync_directory(directory_));
  YARD_TRY(sync_directory(directory_.parent_path()));
  YARD_TRY(const auto groups, directories_in(directory_));
  const MutexLock lock(mutex_);
  for (const auto& [name, path] : groups) {
    Group& group = groups_[name];
    if (const auto text = read_file(path / kCreatedFile); text) {
      group.created = WallTime{Duration{parse_int(trim(*text)).value_or(0)}};
    }
    YARD_TRY(const auto streams, directories_in(path));
    for (const auto& [stream, stream_path] : streams) {
      group.streams[stream] = std::make_shared<Entry>();
      group.streams[stream]->directory = stream_path;
    }
  }
  return {};
}

Result<LogStore::EntryPtr> LogStore::find(std::string_view group, std::string_view stream) {
  const MutexLock lock(mutex_);
  const auto in_group = groups_.find(group);
  if (in_group == groups_.end()) {
    return no_group(group);
  }
  const auto found = in_group->second.streams.find(stream);
  if (found == in_group->second.streams.end()) {
    return no_stream(stream);
  }
  return found->second;
}

Result<LogStore::EntryPtr> LogStore::find_or_add(std::string_view group, std::string_view stream) {
  if (auto found = find(group, stream); found) {
    return found;
  }
  YARD_TRY(const std::string group_name, component_of(group));
  YARD_TRY(const std::string stream_name, component_of(stream));
  const Path group_path = directory_ / group_name;
  const WallTime now = clock_.now();
  YARD_TRY(make_directories(group_path, 0700));
  if (std::error_code failed; !std::filesystem::exists(group_path / kCreatedFile, failed)) {
    YARD_TRY(write_file_durably(group_path / kCreatedFile,
                                std::to_string(now.time_since_epoch().count())));
    YARD_TRY(sync_directory(directory_));
  }
  const MutexLock lock(mutex_);
  const auto [in_group, is_new] = groups_.try_emplace(std::string(group));
  if (is_new) {
    in_group->second.created = now;
  }
  EntryPtr& entry = in_group->second.streams[std::string(stream)];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->directory = group_path / stream_name;
  }
  return entry;
}

Result<std::shared_ptr<LogStream>> LogStore::open_entry(const EntryPtr& entry) {
  std::shared_ptr<LogStream> stream;
  {
    const MutexLock lock(entry->opening);
    entry->last_used = clock_.steady_now();
    if (entry->stream != nullptr) {
      return entry->stream;
    }
    YARD_TRY(entry->stream, LogStream::open(entry->directory, clock_.now(), options_.stream));
    stream = entry->stream;
  }
  bool too_many = false;
  {
    const MutexLock lock(mutex_);
    open_.push_back(entry);
    too_many = open_.size() > options_.max_open;
  }
  if (too_many) {
    close_resting();
  }
  return stream;
}

// Closes the quarter of the open streams that has rested longest, and none that is in use.
void LogStore::close_resting() {
  std::vector<EntryPtr> open;
  {
    const MutexLock lock(mutex_);
    open = open_;
  }
  std::vector<std::pair<SteadyTime, EntryPtr>> by_age;
  for (EntryPtr& entry : open) {
    const MutexLock lock(entry->opening);
    by_age.emplace_back(entry->last_used, std::move(entry));
  }
  std::sort(by_age.begin(), by_age.end());
  by_age.resize(by_age.size() / 4);
  for (const auto& [last_used, entry] : by_age) {
    {
      const MutexLock lock(entry->opening);
      std::shared_ptr<LogStream>& stream = entry->stream;
      if (stream == nullptr || stream.use_count() > 1 ||
          (stream->needs_sync_to_close() && !stream->sync())) {
        continue;
      }
      entry->resting = stream->summary();
      stream.reset();
    }
    // Only one of its places: whoever has opened it again meanwhile has added another.
    const MutexLock lock(mutex_);
    if (const auto place = std::find(open_.begin(), open_.end(), entry); place != open_.end()) {
      open_.erase(place);
    }
  }
}

Result<void> LogStore::append(std::string_view group, std::string_view stream,
                              std::span<const LogEvent> events) {
  YARD_TRY(const EntryPtr entry, find_or_add(group, stream));
  YARD_TRY(const std::shared_ptr<LogStream> log, open_entry(entry));
  YARD_TRY(log->append(events, clock_.now()));
  const MutexLock lock(mutex_);
  is_dirty_ = true;
  dirtied_.notify_one();
  return {};
}

Result<LogPage> LogStore::read(std::string_view group, std::string_view stream,
                               const LogQuery& query) {
  YARD_TRY(const EntryPtr entry, find(group, stream));
  YARD_TRY(const std::shared_ptr<LogStream> log, open_entry(entry));
  return log->read(query);
}

Result<LogSummary> LogStore::summary(std::string_view group, std::string_view stream) {
  YARD_TRY(const EntryPtr entry, find(group, stream));
  {
    const MutexLock lock(entry->opening);
    const std::optional<LogSummary> resting = entry->resting;
    if (entry->stream == nullptr && resting) {
      return *resting;
    }
  }
  YARD_TRY(const std::shared_ptr<LogStream> log, open_entry(entry));
  return log->summary();
}

std::vector<std::string> LogStore::groups(std::string_view prefix) {
  const MutexLock lock(mutex_);
  return names_with_prefix(groups_, prefix);
}

Result<std::vector<std::string>> LogStore::streams(std::string_view group,
                                                   std::string_view prefix) {
  const MutexLock lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return no_group(group);
  }
  return names_with_prefix(found->second.streams, prefix);
}

Result<WallTime> LogStore::group_created(std::string_view group) {
  const MutexLock lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return no_group(group);
  }
  return found->second.created;
}

Result<void> LogStore::sync() {
  std::vector<EntryPtr> open;
  {
    const MutexLock lock(mutex_);
    open = open_;
  }
  Result<void> outcome;
  for (const EntryPtr& entry : open) {
    std::shared_ptr<LogStream> stream;
    {
      const MutexLock lock(entry->opening);
      stream = entry->stream;
    }
    if (stream != nullptr && stream->is_dirty()) {
      if (auto synced = stream->sync(); !synced && outcome) {
        outcome = synced;
      }
    }
  }
  return outcome;
}

Result<void> LogStore::sync(std::string_view group, std::string_view stream) {
  YARD_TRY(const EntryPtr entry, find(group, stream));
  YARD_TRY(const std::shared_ptr<LogStream> log, open_entry(entry));
  return log->is_dirty() ? log->sync() : Result<void>();
}

void LogStore::sync_loop(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!dirtied_.wait(lock, stop, [&] { return is_dirty_; })) {
        return;
      }
      // Whatever else comes in this time shares the sync.
      dirtied_.wait_for(lock, stop, options_.sync_after, [] { return false; });
      is_dirty_ = false;
    }
    if (auto synced = sync(); !synced) {
      log_error("logs are not synced: " + synced.error().message);
    }
  }
}

}  // namespace trainyard::control
