// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_restore.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "base/encoding.h"
#include "base/mutex.h"
#include "base/text.h"
#include "instance/launch/request.h"
#include "instance/transfer/channel_plan.h"

namespace trainyard::instance {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kNamed = 20;  // refused keys that get a line of their own

Result<std::vector<s3::ObjectInfo>> list_all(const CheckpointPlace& place, s3::ObjectStore& store,
                                             const ProgressSinks& sinks,
                                             const std::stop_token& stop) {
  constexpr std::chrono::seconds kInterval{10};
  std::vector<s3::ObjectInfo> objects;
  s3::ListQuery query{.prefix = place.prefix};
  const SystemClock clock;
  SteadyTime next_message = clock.steady_now() + kInterval;
  while (!stop.stop_requested()) {
    YARD_TRY(s3::ListPage page, store.list(place.bucket, query));
    std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
    if (!page.truncated) {
      return objects;
    }
    query.after = page.next_after;
    if (clock.steady_now() >= next_message) {
      sinks.message("Restoring checkpoints: " + std::to_string(objects.size()) +
                    " objects listed so far");
      next_message = clock.steady_now() + kInterval;
    }
  }
  return Error{Code::kCancelled, "stopped while listing"};
}

void add_parents(const std::string& path, std::set<std::string>& directories) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    directories.insert(path.substr(0, at));
  }
}

Result<FileState> local_state(const Path& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno_error("look at " + path.string(), errno);
  }
  return FileState{.size = static_cast<std::uint64_t>(info.st_size),
                   .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
                   .inode = info.st_ino};
}

// Whether the local file is byte for byte what the plan wants.
bool is_as_wanted(const RestoreFile& wanted, const Path& local, const std::string& path,
                  const StoredFiles& known) {
  const auto stored = known.find(path);
  const Result<FileState> state = local_state(local);
  return stored != known.end() && state && stored->second.etag == wanted.etag &&
         stored->second.state == *state;
}

// Removes what the plan does not want, or wants differently. What stays, as it is known.
Result<StoredFiles> prune(const CheckpointPlace& place, const RestorePlan& plan) {
  const StoredFiles known = load_stored(place);
  StoredFiles kept;
  std::vector<Path> useless;
  std::error_code failed;
  for (auto it = fs::recursive_directory_iterator(place.directory, failed);
       !failed && it != fs::recursive_directory_iterator(); it.increment(failed)) {
    const Path local = it->path();
    const std::string path = local.lexically_relative(place.directory).string();
    const fs::file_type type = it->symlink_status(failed).type();
    if (type == fs::file_type::directory && plan.directories.contains(path)) {
      continue;
    }
    const auto wanted = plan.files.find(path);
    if (type == fs::file_type::regular && wanted != plan.files.end() &&
        is_as_wanted(wanted->second, local, path, known)) {
      kept.emplace(path, known.at(path));
      continue;
    }
    useless.push_back(local);
    it.disable_recursion_pending();
  }
  if (failed) {
    return errno_error("read " + place.directory.string(), failed.value());
  }
  for (const Path& path : useless) {
    YARD_TRY(remove_tree(path));
  }
  return kept;
}

Result<FileState> give_time(const Path& file, WallTime modified) {
  const auto ms = modified.time_since_epoch().count();
  const timespec time{.tv_sec = ms / 1'000, .tv_nsec = ms % 1'000 * 1'000'000};
  const timespec times[] = {time, time};
  if (utimensat(AT_FDCWD, file.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_error("set the time of " + file.string(), errno);
  }
  return local_state(file);
}

void tell_refused(const RestorePlan& plan, const ProgressSinks& sinks) {
  for (std::size_t i = 0; i < std::min(plan.refused.size(), kNamed); ++i) {
    sinks.note("The checkpoint object " + plan.refused[i] + " is not restored.");
  }
  if (plan.refused.size() > kNamed) {
    sinks.note(std::to_string(plan.refused.size() - kNamed) +
               " more checkpoint objects are not restored.");
  }
}

// Another host may go on removing while this one restores: what has gone is no checkpoint any more.
void tell_gone(std::vector<std::string> keys, const ProgressSinks& sinks) {
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i) {
    sinks.note("The checkpoint object '" + to_valid_utf8(keys[i]) +
               "' was removed while checkpoints were restored; it is skipped.");
  }
  if (keys.size() > kNamed) {
    sinks.note(std::to_string(keys.size() - kNamed) +
               " more checkpoint objects were removed meanwhile.");
  }
}

}  // namespace

RestorePlan plan_restore(std::string_view prefix, const std::vector<s3::ObjectInfo>& objects) {
  RestorePlan plan;
  for (const s3::ObjectInfo& object : objects) {
    std::string_view key = object.key;
    const bool is_folder = key.ends_with('/') && object.size == 0;
    if (key == prefix && is_folder) {
      continue;  // the prefix's own marker
    }
    if (is_folder) {
      key.remove_suffix(1);
    }
    Result<std::string> path = local_path(prefix, key);
    if (!path) {
      plan.refused.push_back(std::move(path).error().message);
      continue;
    }
    add_parents(*path, plan.directories);
    if (is_folder) {
      plan.directories.insert(std::move(*path));
    } else {
      Download from{.key = object.key, .path = *path, .size = object.size};
      plan.files.emplace(std::move(*path), RestoreFile{std::move(from), object.etag});
    }
  }
  std::erase_if(plan.files, [&plan](const auto& file) {
    const bool is_hidden = plan.directories.contains(file.first);
    if (is_hidden) {
      plan.refused.push_back("'" + file.second.from.key +
                             "' (other objects need a folder of that name)");
    }
    return is_hidden;
  });
  return plan;
}

Result<StoredFiles> restore_checkpoints(const CheckpointPlace& place, s3::ObjectStore& store,
                                        const ProgressSinks& sinks, const std::stop_token& stop) {
  YARD_TRY(const std::vector<s3::ObjectInfo> objects, list_all(place, store, sinks, stop));
  const RestorePlan plan = plan_restore(place.prefix, objects);
  tell_refused(plan, sinks);
  YARD_TRY(make_directories(place.directory));
  YARD_TRY(StoredFiles files, prune(place, plan));
  for (const std::string& directory : plan.directories) {
    YARD_TRY(make_directories(place.directory / directory));
  }
  std::vector<Download> missing;
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : plan.files) {
    if (!files.contains(path)) {
      missing.push_back(file.from);
      bytes += file.from.size;
    }
  }
  if (!missing.empty()) {
    sinks.message("Restoring checkpoints: " + std::to_string(missing.size()) +
                  (missing.size() == 1 ? " file, " : " files, ") + human_bytes(bytes) + ", from " +
                  place.uri());
  }
  Mutex mutex;
  const auto arrived = [&](const Download& file, const s3::ObjectInfo& info) -> Result<void> {
    YARD_TRY(const FileState state, give_time(place.directory / file.path, info.last_modified));
    const MutexLock lock(mutex);
    files[file.path] = {.etag = info.etag, .state = state};
    return {};
  };
  std::vector<std::string> gone;
  const auto went = [&](const Download& file) {
    const MutexLock lock(mutex);
    gone.push_back(file.key);
  };
  YARD_TRY(download_all({.what = "Restoring checkpoints",
                         .bucket = place.bucket,
                         .directory = place.directory,
                         .staging = place.directory.string() + ".incoming",
                         .arrived = arrived,
                         .gone = went},
                        missing, store, sinks, stop));
  tell_gone(std::move(gone), sinks);
  return files;
}

Result<void> save_stored(const CheckpointPlace& place, const StoredFiles& files) {
  json list = json::object();
  for (const auto& [path, file] : files) {
    list[path] = {file.etag, file.state.size, file.state.mtime_ns, file.state.inode};
  }
  const json all = {{"uri", place.uri()}, {"files", std::move(list)}};
  return write_file(place.directory.string() + ".json",
                    all.dump(-1, ' ', false, json::error_handler_t::replace), 0600);
}

StoredFiles load_stored(const CheckpointPlace& place) {
  StoredFiles files;
  const Result<std::string> text = read_file(place.directory.string() + ".json");
  const json all = text ? json::parse(*text, nullptr, false) : json();
  if (member(all, "uri") != place.uri() || !member(all, "files").is_object()) {
    return files;
  }
  for (const auto& [path, file] : member(all, "files").items()) {
    if (file.is_array() && file.size() == 4 && file[0].is_string() &&
        std::all_of(file.begin() + 1, file.end(),
                    [](const json& value) { return value.is_number_integer(); })) {
      files[path] = {.etag = file[0].get<std::string>(),
                     .state = {.size = file[1].get<std::uint64_t>(),
                               .mtime_ns = file[2].get<std::int64_t>(),
                               .inode = file[3].get<std::uint64_t>()}};
    }
  }
  return files;
}

}  // namespace trainyard::instance
