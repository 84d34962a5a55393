// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_archive.h"

#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/archive.h"
#include "formats/tar_gz.h"
#include "server/backup/new_name.h"

namespace trainyard::server {
namespace {

constexpr const char* kStaging = "backup.in-progress";
constexpr const char* kLock = "backup.lock";
// Models and checkpoints hardly shrink: more effort would only take time.
constexpr int kLevel = 1;

// Removes the tree at the end, whatever that was.
class Staging {
 public:
  explicit Staging(Path path) : path_(std::move(path)) {}
  ~Staging() { static_cast<void>(remove_tree(path_)); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

bool is_there(const Path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Result<void> write_archive(const Path& tree, const Fd& out, const CopyProgress& progress) {
  std::uint64_t written = 0;
  YARD_TRY(const LeftOut left_out,
           write_tar_gz(tree, {.level = kLevel}, [&](std::span<const std::byte> bytes) {
             written += bytes.size();
             auto told = progress("packed bytes", written, 0);
             return told ? write_all(out.get(), bytes) : told;
           }));
  if (left_out.count > 0) {
    return Error{Code::kInternal, "the archive would not hold all of the backup"};
  }
  return ::fsync(out.get()) == 0 ? Result<void>() : errno_error("syncing the archive", errno);
}

// The tree as `file`, which is `draft` until it is whole and on disk.
Result<void> pack(const Path& tree, const Path& file, const Path& draft,
                  const CopyProgress& progress) {
  YARD_TRY(const Fd out, open_file(draft, O_WRONLY | O_CREAT | O_EXCL, 0600));
  Result<void> done = write_archive(tree, out, progress);
  if (done) {
    done = rename_to_new(draft, file);
  }
  if (!done) {
    ::unlink(draft.c_str());  // made here
    return done;
  }
  return sync_directory(file.parent_path());
}

Result<void> unpack(const Path& file, const Path& directory, const CopyProgress& progress) {
  YARD_TRY(const Fd fd, open_file(file, O_RDONLY));
  std::uint64_t taken = 0;
  const ArchiveSource source = [&](std::span<std::byte> out) -> Result<std::size_t> {
    YARD_TRY(progress("unpacked bytes", taken, 0));
    YARD_TRY(const std::size_t got, read_some(fd.get(), out));
    taken += got;
    return got;
  };
  return extract_archive(source, directory,
                         {.bytes = std::numeric_limits<std::int64_t>::max(),
                          .members = std::numeric_limits<std::uint32_t>::max()});
}

}  // namespace

bool is_archive_name(const Path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".tar.gz") || name.ends_with(".tgz");
}

Result<CopyCounts> make_backup_file(const Path& home, const Path& file, WallTime now,
                                    const CopyProgress& progress) {
  YARD_TRY(expect_home(home));  // the lock would be made anywhere
  const Path draft = file.string() + ".partial";
  if (is_there(file)) {
    return Error{Code::kAlreadyExists,
                 file.string() + " is there already: a backup replaces nothing"};
  }
  if (is_there(draft)) {
    return Error{Code::kAlreadyExists,
                 draft.string() +
                     " is in the way: unless another backup is at work on it, it is "
                     "left by one that was killed: remove it"};
  }
  YARD_TRY(const FileLock lock, FileLock::acquire(home / kLock));
  const Staging staging(home / kStaging);
  YARD_TRY(remove_tree(staging.path()));  // of one that was killed
  YARD_TRY(const CopyCounts counts, make_backup(home, staging.path(), now, progress));
  YARD_TRY(pack(staging.path(), file, draft, progress));
  return counts;
}

Result<CopyCounts> restore_backup_file(const Path& file, const Path& home,
                                       const CopyProgress& progress) {
  YARD_TRY(expect_room(home));  // before all of it is unpacked
  const Path beside = home.string() + ".unpacking";
  if (auto made = make_directories(home.parent_path(), 0700); !made) {
    return made.error();
  }
  if (::mkdir(beside.c_str(), 0700) != 0) {
    return errno == EEXIST ? Error{Code::kAlreadyExists, beside.string() +
                                                             " is in the way, perhaps from a "
                                                             "restore that was killed: remove it"}
                           : errno_error("making " + beside.string(), errno);
  }
  const Staging staging(beside);
  YARD_TRY(unpack(file, staging.path(), progress));
  return restore_backup(staging.path(), home, progress);
}

}  // namespace trainyard::server
