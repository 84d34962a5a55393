// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/downloads.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>

#include <fcntl.h>

#include "base/mutex.h"
#include "base/text.h"
#include "base/thread.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::chrono::seconds kProgressInterval{10};
constexpr int kReplacements = 5;  // of an object while it is read, before it counts as unreadable

bool is_gone(const Error& error) {
  return error.code == Code::kNotFound && error.subject == "key";
}

bool was_replaced(const Error& error) {
  return error.code == Code::kConflict && error.subject == "precondition";
}

// The threads take one file after the other.
class Downloads {
 public:
  Downloads(const DownloadJob& job, const std::vector<Download>& files, s3::ObjectStore& store)
      : job_(job), files_(files), store_(store) {}

  Result<void> run(const ProgressSinks& sinks, const std::stop_token& stop) {
    const std::stop_callback forward(stop, [this] { stop_.request_stop(); });
    std::vector<std::jthread> threads = start();
    while (!wait_for_end()) {
      sinks.message(progress());
    }
    threads.clear();
    const MutexLock lock(mutex_);
    if (error_) {
      return std::move(*error_);
    }
    return {};
  }

 private:
  // As many threads as the machine gives. Where it gives none the caller works, and says nothing
  // meanwhile.
  std::vector<std::jthread> start() {
    const std::size_t wanted = std::min(kThreads, files_.size());
    {
      const MutexLock lock(mutex_);
      running_ = wanted;
    }
    std::vector<std::jthread> threads;
    threads.reserve(wanted);
    try {
      while (threads.size() < wanted) {
        threads.push_back(start_thread("download", [this](const std::stop_token&) { work(); }));
      }
    } catch (const std::system_error&) {
      {
        const MutexLock lock(mutex_);
        running_ -= wanted - std::max<std::size_t>(threads.size(), 1);
      }
      if (threads.empty()) {
        work();
      }
    }
    return threads;
  }

  void work() {
    while (!stop_.stop_requested()) {
      const std::size_t index = next_++;
      if (index >= files_.size()) {
        break;
      }
      Result<void> done = download(index);
      if (!done && job_.gone && is_gone(done.error())) {
        job_.gone(files_[index]);
      } else if (!done) {
        fail(done.error().in("downloading '" + files_[index].key + "'"));
        break;
      }
      ++finished_;
    }
    const MutexLock lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  // An object that is replaced meanwhile is fetched anew: never a mix of two.
  Result<void> download(std::size_t index) {
    const Download& file = files_[index];
    const Path staged = job_.staging / std::to_string(index);
    Result<s3::ObjectInfo> got = fetch(file.key, staged);
    for (int again = 0; !got && was_replaced(got.error()) && again < kReplacements; ++again) {
      got = fetch(file.key, staged);
    }
    YARD_TRY(const s3::ObjectInfo info, std::move(got));
    std::error_code failed;
    std::filesystem::rename(staged, job_.directory / file.path, failed);
    if (failed) {
      return errno_error("rename to " + file.path, failed.value());
    }
    return job_.arrived ? job_.arrived(file, info) : Result<void>();
  }

  Result<s3::ObjectInfo> fetch(const std::string& key, const Path& to) {
    YARD_TRY(const auto reader, store_.get(job_.bucket, key, std::nullopt));
    std::uint64_t written = 0;
    if (Result<void> done = write(*reader, to, written); !done) {
      bytes_ -= written;
      return std::move(done).error();
    }
    return reader->info();
  }

  Result<void> write(s3::ObjectReader& reader, const Path& to, std::uint64_t& written) {
    YARD_TRY(const Fd out, open_file(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644));
    std::vector<std::byte> chunk(kChunk);
    while (!stop_.stop_requested()) {
      YARD_TRY(const std::size_t count, reader.read(chunk));
      if (count == 0) {
        return {};
      }
      YARD_TRY(write_all(out.get(), std::span<const std::byte>(chunk.data(), count)));
      written += count;
      bytes_ += count;
    }
    return Error{Code::kCancelled, "stopped"};
  }

  void fail(Error error) {
    const MutexLock lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
    }
    stop_.request_stop();
  }

  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, kProgressInterval, [this] { return running_ == 0; });
  }

  std::string progress() const {
    std::uint64_t total = 0;
    for (const Download& file : files_) {
      total += file.size;
    }
    return job_.what + ", " + std::to_string(finished_.load()) + " of " +
           std::to_string(files_.size()) + " objects, " + human_bytes(bytes_.load()) + " of " +
           human_bytes(total);
  }

  const DownloadJob& job_;
  const std::vector<Download>& files_;
  s3::ObjectStore& store_;
  std::stop_source stop_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> finished_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  Mutex mutex_;
  ConditionVariable ended_;
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

}  // namespace

Result<void> download_all(const DownloadJob& job, const std::vector<Download>& files,
                          s3::ObjectStore& store, const ProgressSinks& sinks,
                          const std::stop_token& stop) {
  YARD_TRY(remove_tree(job.staging));
  YARD_TRY(make_directories(job.staging, 0700));
  Result<void> done = Downloads(job, files, store).run(sinks, stop);
  const Result<void> cleared = remove_tree(job.staging);
  if (done && stop.stop_requested()) {
    return Error{Code::kCancelled, "stopped while downloading"};
  }
  return done ? cleared : done;
}

}  // namespace trainyard::instance
