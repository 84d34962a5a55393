// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/adopt.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "base/encoding.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "s3/adopt/adopt_source.h"
#include "s3/adopt/folder_walk.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

// A batch costs two syncs; the batches under way are what an import that is killed loses at most.
constexpr std::size_t kBatchFiles = 4'096;
constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 20;
constexpr std::size_t kWaitingBatches = 2;
constexpr std::chrono::milliseconds kReportPeriod{100};

// One more than there are processors: one of them is waiting for the disk.
unsigned workers() {
  return std::min(std::max(std::thread::hardware_concurrency(), 1U), 7U) + 1;
}

struct Found {
  FolderWalk::Entry entry;
  std::optional<KnownFile> seen = {};  // unless its status could not be read
};
using Batch = std::vector<Found>;

class Adoption {
 public:
  Adoption(DirectoryStore& store, const AdoptOptions& options, AdoptSource source)
      : store_(store), options_(options), source_(std::move(source)) {}

  Result<AdoptProgress> run(const AdoptReport& report) {
    const std::stop_callback pass_on(options_.stop, [this] { end_.request_stop(); });
    {
      std::vector<std::jthread> threads;
      if (start(threads)) {
        wait(report);
      }
    }
    const MutexLock lock(mutex_);
    if (failure_) {
      return *failure_;
    }
    progress_.read = read_;
    progress_.is_stopped = options_.stop.stop_requested();
    if (report) {
      report(progress_);
    }
    return std::move(progress_);
  }

 private:
  // False when the machine is out of threads: those that run will end then.
  bool start(std::vector<std::jthread>& threads) {
    try {
      threads.push_back(start_thread("walk", [this](const std::stop_token&) { walk(); }));
      for (unsigned i = 0; i < workers(); ++i) {
        threads.push_back(start_thread("import", [this](const std::stop_token&) { work(); }));
        const MutexLock lock(mutex_);
        ++working_;
      }
      return true;
    } catch (const std::system_error&) {
      fail(Error{Code::kUnavailable, "an import cannot start its threads"});
      batches_.close();  // nobody may be there to make room
      return false;
    }
  }

  void wait(const AdoptReport& report) {
    while (true) {
      AdoptProgress now;
      {
        const MutexLock lock(mutex_);
        if (ended_.wait_for(mutex_, kReportPeriod, [this] { return ends_ == working_; })) {
          return;
        }
        now = {.files = progress_.files,
               .passed = progress_.passed,
               .bytes = progress_.bytes,
               .shared = progress_.shared,
               .read = read_};
      }
      if (report) {
        report(now);
      }
    }
  }

  void walk() {
    FolderWalk files(
        source_.folder(), [this](int folder) { return source_.exclude(folder); },
        [this](const std::string& name, std::string_view why) { refuse(name, why); });
    Batch batch;
    std::uint64_t bytes = 0;
    while (!end_.stop_requested()) {
      auto next = files.next();
      if (!next) {
        fail(next.error());
        break;
      }
      std::optional<FolderWalk::Entry> entry = *std::move(next);
      if (!entry) {
        break;
      }
      Found found{.entry = *std::move(entry)};
      found.seen = source_.look_at(found.entry);
      bytes += found.seen.value_or(KnownFile{}).size;
      batch.push_back(std::move(found));
      if (batch.size() == kBatchFiles || bytes >= kBatchBytes) {
        batches_.push(std::exchange(batch, {}));
        bytes = 0;
      }
    }
    batches_.push(std::move(batch));
    is_walked_ = true;
    batches_.close();
  }

  void work() {
    while (true) {
      const bool was_walked = is_walked_;
      const auto batch = batches_.pop_for(kReportPeriod);
      if (batch && !end_.stop_requested()) {
        if (const auto done = take(*batch); !done) {
          fail(done.error());
        }
      }
      if (!batch && was_walked) {
        break;
      }
    }
    const MutexLock lock(mutex_);
    ++ends_;
    ended_.notify_all();
  }

  Result<void> take(const Batch& batch) {
    std::vector<std::string> keys;
    for (const Found& found : batch) {
      keys.push_back(options_.prefix + found.entry.name);
    }
    YARD_TRY(const auto known, store_.find_known(options_.bucket, keys));
    std::size_t next = 0;
    const LocalFiles files = [&]() -> std::optional<LocalFile> {
      while (next < batch.size()) {
        const std::size_t at = next++;
        if (known[at] && known[at] == batch[at].seen) {
          const MutexLock lock(mutex_);
          ++progress_.passed;
        } else if (auto file = open(batch[at].entry, keys[at])) {
          return file;
        }
      }
      return std::nullopt;
    };
    YARD_TRY(const AdoptedFiles adopted,
             store_.adopt_files(options_.bucket, files,
                                {.stop = end_.get_token(), .bytes_read = &read_}));
    count(adopted);
    return {};
  }

  // Empty when it is left out.
  std::optional<LocalFile> open(const FolderWalk::Entry& entry, const std::string& key) {
    const auto good = check_key(key);
    auto file = good ? source_.open(entry) : Result<AdoptSource::File>(good.error());
    if (!file) {
      refuse(entry.name, file.error().message);
      return std::nullopt;
    }
    return LocalFile{.key = key,
                     .fd = std::move(file->fd),
                     .size = static_cast<std::uint64_t>(file->status.st_size),
                     .modified = file->status.st_mtim,
                     .may_share = options_.mode == AdoptMode::kShare,
                     .may_link = options_.mode == AdoptMode::kLink};
  }

  void count(const AdoptedFiles& adopted) {
    for (const auto& [key, why] : adopted.refused) {
      refuse(key.substr(options_.prefix.size()), why);
    }
    const MutexLock lock(mutex_);
    progress_.files += adopted.files;
    progress_.bytes += adopted.bytes;
    progress_.shared += adopted.shared;
  }

  void refuse(const std::string& name, std::string_view why) {
    const MutexLock lock(mutex_);
    progress_.refused.push_back(to_valid_utf8(name) + ": " + std::string(why));
  }

  void fail(const Error& error) {
    end_.request_stop();
    const MutexLock lock(mutex_);
    failure_ = failure_ ? failure_ : error;
  }

  DirectoryStore& store_;
  const AdoptOptions& options_;
  const AdoptSource source_;
  std::stop_source end_;  // by the caller, or by a failure
  std::atomic<std::uint64_t> read_ = 0;
  std::atomic<bool> is_walked_ = false;
  BoundedQueue<Batch> batches_{kWaitingBatches};

  Mutex mutex_;
  ConditionVariable ended_;
  AdoptProgress progress_ GUARDED_BY(mutex_);
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  unsigned working_ GUARDED_BY(mutex_) = 0;
  unsigned ends_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<AdoptProgress> adopt(DirectoryStore& store, const AdoptOptions& options,
                            const AdoptReport& report) {
  YARD_TRY(AdoptSource source, AdoptSource::open(store, options.folder));
  if (auto made = store.create_bucket(options.bucket);
      !made && made.error().code != Code::kAlreadyExists) {
    return std::move(made).error();
  }
  return Adoption(store, options, std::move(source)).run(report);
}

}  // namespace trainyard::s3
