// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_copy.h"

#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "api/timestamps.h"
#include "formats/json.h"
#include "server/backup/home_check.h"
#include "server/backup/new_name.h"

namespace trainyard::server {
namespace {

constexpr int kBackupFormat = 1;
constexpr std::size_t kMostAbout = 64 << 10;  // bytes of backup.json
constexpr const char* kUnfinished = "unfinished";

Result<void> sync_all_below(const Path& directory) {
  YARD_TRY(const Fd fd, open_file(directory, O_RDONLY | O_DIRECTORY));
  return ::syncfs(fd.get()) == 0 ? Result<void>()
                                 : errno_error("syncing " + directory.string(), errno);
}

Path directory_above(const Path& path) {
  const Path parent = path.parent_path();
  return parent.empty() ? Path(".") : parent;
}

std::optional<struct stat> status_of(const Path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

// What says that it is a draft goes last, so that one that is killed meanwhile still is.
Result<void> remove_draft(const Path& draft) {
  std::error_code failed;
  for (std::filesystem::directory_iterator it(draft, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (it->path().filename() != kUnfinished) {
      YARD_TRY(remove_tree(it->path()));
    }
  }
  return failed ? errno_error("listing " + draft.string(), failed.value()) : remove_tree(draft);
}

// Makes room for a draft: removes that of a copy that was killed.
Result<void> remove_old(const Path& draft) {
  // An empty one is of a copy that was killed at its very beginning.
  if (!status_of(draft) || ::rmdir(draft.c_str()) == 0) {
    return {};
  }
  const auto lock_file = status_of(draft / kUnfinished);
  if (!lock_file || !S_ISREG(lock_file->st_mode)) {
    return Error{Code::kAlreadyExists, draft.string() + " is in the way: move it elsewhere"};
  }
  YARD_TRY(FileLock::acquire(draft / kUnfinished));  // else another one is at work on it
  return remove_draft(draft);
}

// The owner of the directory that `draft` will replace; what is linked is his already.
Result<void> give_to(const struct stat& old, const Path& draft) {
  const auto give = [&](const Path& path) -> Result<void> {
    const auto status = status_of(path);
    if (!status ||
        (status->st_uid != old.st_uid && ::lchown(path.c_str(), old.st_uid, old.st_gid) != 0)) {
      return errno_error("giving " + path.string() + " to the owner of the home", errno);
    }
    return {};
  };
  std::error_code failed;
  using Walk = std::filesystem::recursive_directory_iterator;
  for (Walk it(draft, failed), end; !failed && it != end; it.increment(failed)) {
    YARD_TRY(give(it->path()));
  }
  return failed ? errno_error("listing " + draft.string(), failed.value()) : give(draft);
}

// Fills `<target>.partial` and gives it its name when it is whole, checked and on disk.
class WholeCopy {
 public:
  using Finish = std::function<Result<void>(const Path& draft, const CopyCounts&)>;

  WholeCopy(Path target, const CopyProgress& progress)
      : target_(std::move(target)),
        draft_(target_.string() + ".partial"),
        old_(status_of(target_)),
        owner_(old_ && ::geteuid() == 0 ? old_->st_uid : ::geteuid()),
        progress_(progress) {}

  Result<CopyCounts> run(const PlainFiles& from, const Finish& finish) {
    YARD_TRY(remove_old(draft_));
    if (::mkdir(draft_.c_str(), 0700) != 0) {
      return errno_error("making " + draft_.string(), errno);
    }
    auto done = fill(from, finish);
    if (!done) {
      static_cast<void>(remove_draft(draft_));
    }
    return done;
  }

 private:
  Result<CopyCounts> fill(const PlainFiles& from, const Finish& finish) {
    YARD_TRY(const FileLock at_work, FileLock::acquire(draft_ / kUnfinished));
    YARD_TRY(const CopyCounts counts, copy_parts(from, draft_, owner_, progress_));
    YARD_TRY(const HomeReport report, check_home(draft_, progress_));
    if (report.problem_count > 0) {
      return Error{Code::kCorrupt, fmt::format("the copy is not sound ({} problems): {}",
                                               report.problem_count, report.problems.front())};
    }
    YARD_TRY(inherit());
    YARD_TRY(sync_all_below(draft_));
    YARD_TRY(finish(draft_, counts));  // only now it may look whole
    YARD_TRY(name());
    std::error_code ignored;
    std::filesystem::remove(target_ / kUnfinished, ignored);
    return counts;
  }

  Result<void> inherit() {
    if (!old_) {
      return {};
    }
    if (owner_ != ::geteuid()) {
      YARD_TRY(give_to(*old_, draft_));
    }
    return ::chmod(draft_.c_str(), old_->st_mode & 07777) == 0
               ? Result<void>()
               : errno_error("the mode of " + draft_.string(), errno);
  }

  // An old one is replaced only while it is empty: rename(2) refuses any other.
  Result<void> name() {
    if (!old_) {
      YARD_TRY(rename_to_new(draft_, target_));
    } else if (::rename(draft_.c_str(), target_.c_str()) != 0) {
      return errno_error("naming " + target_.string(), errno);
    }
    return sync_directory(directory_above(target_));
  }

  Path target_;
  Path draft_;
  std::optional<struct stat> old_;
  uid_t owner_;  // of all in it
  const CopyProgress& progress_;
};

Error no_whole_backup(const Path& backup) {
  return {Code::kCorrupt,
          fmt::format("{} is no whole backup: it has no {}", backup.string(), kBackupFile)};
}

Result<void> expect_whole(const PlainFiles& backup) {
  const auto file = backup.open_plain(kBackupFile);
  if (!file) {
    return file.error().code == Code::kNotFound ? no_whole_backup(backup.root()) : file.error();
  }
  std::string text(kMostAbout, '\0');
  YARD_TRY(const std::size_t size,
           read_at(file->get(), std::as_writable_bytes(std::span(text)), 0));
  text.resize(size);
  const auto about = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_known = about.is_object() && about.contains("format") &&
                        about["format"].is_number_integer() && about["format"] == kBackupFormat;
  if (!is_known) {
    return Error{Code::kUnimplemented,
                 fmt::format("{} is of a form that this program does not know: a newer one made it",
                             (backup.root() / kBackupFile).string())};
  }
  return {};
}

// Also where another directory of the same file system is bound.
bool is_mount_point(const Path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace

Result<void> expect_home(const Path& home) {
  const auto files = PlainFiles::open(home, Links::kFollowed);
  if (!files || !kind_of(*files)) {
    return Error{Code::kNotFound,
                 home.string() +
                     " is not the home of a server or a store: it has no trainyard.db; "
                     "name the right one with --home"};
  }
  return {};
}

Result<void> expect_room(const Path& home) {
  const auto status = status_of(home);
  if (!status) {
    return errno == ENOENT ? Result<void>() : errno_error("looking for " + home.string(), errno);
  }
  if (!S_ISDIR(status->st_mode)) {
    return Error{Code::kConflict, home.string() +
                                      " is no directory, or a link that leads nowhere: "
                                      "move it away, or name another home with --home"};
  }
  if (is_mount_point(home)) {
    return Error{Code::kConflict,
                 fmt::format("{0} is a mount point, and a home is made beside its place and then "
                             "renamed: restore into a directory in it (--home {1}, also of the "
                             "server), or unmount it first",
                             home.string(), (home / "home").string())};
  }
  YARD_TRY(const auto there, entries_of(home));
  if (!there.empty()) {
    return Error{Code::kConflict,
                 fmt::format("{} is not empty ({} is there): a backup is restored into an empty "
                             "home only; move the old one away, or name another with --home",
                             home.string(), there.front().filename().string())};
  }
  return {};
}

Result<CopyCounts> make_backup(const Path& home, const Path& target, WallTime now,
                               const CopyProgress& progress) {
  YARD_TRY(expect_home(home));
  if (status_of(target)) {
    return Error{Code::kAlreadyExists,
                 target.string() + " is there already: a backup replaces nothing"};
  }
  YARD_TRY(const PlainFiles from, PlainFiles::open(home, Links::kFollowed));
  return WholeCopy(target, progress).run(from, [&](const Path& draft, const CopyCounts& counts) {
    const nlohmann::json about = {
        {"format", kBackupFormat},    {"home", home.string()}, {"begun", api::to_timestamp(now)},
        {"objects", counts.contents}, {"bytes", counts.bytes}, {"log_files", counts.log_files}};
    return write_file_durably(draft / kBackupFile, dump_json(about, 2) + "\n", 0600);
  });
}

Result<CopyCounts> restore_backup(const Path& backup, const Path& home,
                                  const CopyProgress& progress) {
  const auto from = PlainFiles::open(backup, Links::kRefused);
  if (!from) {
    return from.error().code == Code::kDenied ? from.error() : no_whole_backup(backup);
  }
  YARD_TRY(expect_whole(*from));
  YARD_TRY(expect_room(home));
  YARD_TRY(make_directories(directory_above(home), 0700));
  return WholeCopy(home, progress).run(*from, [](const Path&, const CopyCounts&) {
    return Result<void>();
  });
}

}  // namespace trainyard::server
