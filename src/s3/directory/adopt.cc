// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/adopt.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/encoding.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

// A batch costs one sync, and is what a broken-off import loses at most.
constexpr std::size_t kBatchFiles = 256;
constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 30;

// What a name stands for, not opened yet: opening a pipe or a device has effects. Links are
// followed inside the folder only; the kernel refuses the others, whoever swaps what.
Result<Fd> find_beneath(int folder, const std::string& name) {
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto fd = static_cast<int>(syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how));
  if (fd >= 0) {
    return Fd(fd);
  }
  if (errno == EXDEV || errno == ELOOP) {
    return Error{Code::kDenied, "a link that leads out of the folder, or in a circle"};
  }
  return errno_error("cannot be opened", errno);
}

Path path_of(const Fd& found) {
  return "/proc/self/fd/" + std::to_string(found.get());
}

WallTime time_of(const struct stat& status) {
  return WallTime(std::chrono::seconds(status.st_mtim.tv_sec) +
                  std::chrono::milliseconds(status.st_mtim.tv_nsec / 1'000'000));
}

class Adoption {
 public:
  Adoption(DirectoryStore& store, const AdoptOptions& options, const AdoptReport& report)
      : store_(store), options_(options), report_(report) {}

  Result<AdoptProgress> run() {
    YARD_TRY(folder_, open_file(options_.folder, O_RDONLY | O_DIRECTORY));
    if (store_.holds(path_of(folder_))) {
      return Error{Code::kInvalidArgument,
                   "the folder '" + options_.folder.string() +
                       "' is part of the store itself; import another folder",
                   "folder"};
    }
    if (auto made = store_.create_bucket(options_.bucket);
        !made && made.error().code != Code::kAlreadyExists) {
      return std::move(made).error();
    }
    std::vector<std::string> folders{""};
    while (!folders.empty()) {
      const std::string folder = std::move(folders.back());
      folders.pop_back();
      YARD_TRY(walk(folder, folders));
    }
    YARD_TRY(flush());
    return std::move(progress_);
  }

 private:
  // `folder` is relative and ends in "/", or is the top, "".
  Result<void> walk(const std::string& folder, std::vector<std::string>& folders) {
    std::error_code error;
    std::filesystem::directory_iterator it(options_.folder / folder, error);
    for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
      const std::string name = folder + it->path().filename().string();
      std::error_code unknown;
      const auto kind = it->symlink_status(unknown).type();
      if (!unknown && kind == std::filesystem::file_type::directory) {
        visit(name + "/", folders);
      } else if (auto taken = take(name); !taken) {
        return taken;
      }
    }
    if (error) {
      refuse(folder, error.message());
    }
    return {};
  }

  // The store's own files are no data, and --mode link would give its live index to the objects.
  void visit(const std::string& folder, std::vector<std::string>& folders) {
    if (store_.holds(options_.folder / folder)) {
      refuse(folder, "the store's own folder");
    } else {
      folders.push_back(folder);
    }
  }

  Result<void> take(const std::string& name) {
    auto found = find_beneath(folder_.get(), name);
    struct stat status {};
    if (!found || ::fstat(found->get(), &status) != 0) {
      refuse(name, found ? "its status cannot be read" : found.error().message);
      return {};
    }
    if (!S_ISREG(status.st_mode)) {
      refuse(name, S_ISDIR(status.st_mode) ? "a link to a folder" : "a special file");
      return {};
    }
    // A link leads there, or somebody moves folders about.
    if (store_.holds(path_of(*found))) {
      refuse(name, "a link into the store's own folder");
      return {};
    }
    const std::string key = options_.prefix + name;
    if (const auto good = check_key(key); !good) {
      refuse(name, good.error().message);
      return {};
    }
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto there = store_.head(options_.bucket, key);
    if (there && there->size == size && there->last_modified == time_of(status)) {
      ++progress_.passed;
      return {};
    }
    if (!there && there.error().code != Code::kNotFound) {
      return there.error();
    }
    auto fd = open_file(path_of(*found), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!fd) {
      refuse(name, fd.error().message);
      return {};
    }
    batch_.push_back({.key = key,
                      .fd = fd->get(),
                      .size = size,
                      .modified = time_of(status),
                      .may_share = options_.mode == AdoptMode::kShare,
                      .may_link = options_.mode == AdoptMode::kLink});
    open_.push_back(*std::move(fd));
    batch_bytes_ += size;
    return batch_.size() == kBatchFiles || batch_bytes_ >= kBatchBytes ? flush() : Result<void>();
  }

  Result<void> flush() {
    if (batch_.empty()) {
      return {};
    }
    YARD_TRY(const AdoptedFiles adopted, store_.adopt_files(options_.bucket, batch_));
    progress_.files += adopted.files;
    progress_.bytes += adopted.bytes;
    progress_.shared += adopted.shared;
    for (const auto& [key, why] : adopted.refused) {
      refuse(key.substr(options_.prefix.size()), why);
    }
    batch_.clear();
    open_.clear();
    batch_bytes_ = 0;
    if (report_) {
      report_(progress_);
    }
    return {};
  }

  void refuse(const std::string& name, const std::string& why) {
    progress_.refused.push_back(to_valid_utf8(name) + ": " + why);
  }

  DirectoryStore& store_;
  const AdoptOptions& options_;
  const AdoptReport& report_;
  Fd folder_;
  AdoptProgress progress_;
  std::vector<LocalFile> batch_;
  std::vector<Fd> open_;  // those of batch_
  std::uint64_t batch_bytes_ = 0;
};

}  // namespace

Result<AdoptProgress> adopt(DirectoryStore& store, const AdoptOptions& options,
                            const AdoptReport& report) {
  return Adoption(store, options, report).run();
}

}  // namespace trainyard::s3
