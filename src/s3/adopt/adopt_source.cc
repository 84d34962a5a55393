// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/adopt_source.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "s3/adopt/trainyard_folder.h"

namespace trainyard::s3 {
namespace {

// A pipe that took a file's place since the folder was read does not hold up who opens it.
constexpr std::uint64_t kToRead = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

Result<Fd> open_beneath(int folder, const std::string& name, std::uint64_t flags,
                        std::uint64_t resolve) {
  open_how how = {};
  how.flags = flags;
  how.resolve = RESOLVE_BENEATH | resolve;
  Fd fd(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how)));
  if (fd.is_open()) {
    return fd;
  }
  if (errno == EXDEV || errno == ELOOP) {
    return Error{Code::kDenied, "a link that leads out of the folder, or in a circle"};
  }
  return errno_error("cannot be opened", errno);
}

Path path_of(const Fd& found) {
  return "/proc/self/fd/" + std::to_string(found.get());
}

Result<void> require_plain(int fd, struct stat& status) {
  if (::fstat(fd, &status) != 0) {
    return Error{Code::kUnavailable, "its status cannot be read"};
  }
  if (S_ISREG(status.st_mode)) {
    return {};
  }
  return Error{Code::kDenied, S_ISDIR(status.st_mode) ? "a link to a folder" : "a special file"};
}

std::string_view kind_of_folder(const Path& folder) {
  return trainyard_folder([&folder](std::string_view name, EntryKind wanted) {
    struct stat status {};
    const bool is_there = ::lstat((folder / name).c_str(), &status) == 0;
    const mode_t kind = wanted == EntryKind::kFile ? S_IFREG : S_IFDIR;
    return is_there && (S_ISLNK(status.st_mode) || (status.st_mode & S_IFMT) == kind);
  });
}

Error not_to_be_imported(const Path& folder, std::string_view what) {
  return Error{
      Code::kInvalidArgument,
      "the folder '" + folder.string() + "' is " + std::string(what) + "; import another folder",
      "folder"};
}

}  // namespace

Result<AdoptSource> AdoptSource::open(const DirectoryStore& store, const Path& folder) {
  YARD_TRY(Fd fd, open_file(folder, O_RDONLY | O_DIRECTORY));
  AdoptSource source(store, std::move(fd));
  if (!source.exclude(source.folder()).empty()) {
    return not_to_be_imported(folder, "part of the store itself");
  }
  if (const auto kind = kind_of_folder(path_of(source.folder_)); !kind.empty()) {
    return not_to_be_imported(folder, kind);
  }
  return source;
}

// The store's own files are no data, and --mode link would give its live index to the objects.
std::string_view AdoptSource::exclude(int folder) const {
  return store_->holds("/proc/self/fd/" + std::to_string(folder)) ? "the store's own folder"
                                                                  : std::string_view();
}

Result<AdoptSource::File> AdoptSource::open(const FolderWalk::Entry& entry) const {
  File file;
  if (entry.kind == FolderWalk::Kind::kLink) {
    YARD_TRY(file.fd, open_link(entry.name));
  } else {
    YARD_TRY(file.fd, open_beneath(folder_.get(), entry.name, kToRead, RESOLVE_NO_SYMLINKS));
  }
  YARD_TRY(require_plain(file.fd.get(), file.status));
  return file;
}

std::optional<KnownFile> AdoptSource::look_at(const FolderWalk::Entry& entry) const {
  struct stat status {};
  const int flags = entry.kind == FolderWalk::Kind::kLink ? 0 : AT_SYMLINK_NOFOLLOW;
  if (::fstatat(folder_.get(), entry.name.c_str(), &status, flags) != 0) {
    return std::nullopt;
  }
  return KnownFile{.size = static_cast<std::uint64_t>(status.st_size),
                   .modified = object_time(status.st_mtim)};
}

// Links are followed inside the folder only; the kernel refuses the others, whoever swaps what.
// What a name stands for is not opened before it is known: opening a pipe or a device has effects.
Result<Fd> AdoptSource::open_link(const std::string& name) const {
  YARD_TRY(const Fd found,
           open_beneath(folder_.get(), name, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS));
  struct stat status {};
  YARD_TRY(require_plain(found.get(), status));
  if (store_->holds(path_of(found))) {
    return Error{Code::kDenied, "a link into the store's own folder"};
  }
  std::error_code error;
  const Path target = std::filesystem::read_symlink(path_of(found), error);
  if (error || is_in_a_home(target)) {
    return Error{Code::kDenied, "a link into a folder of Trainyard's own"};
  }
  return open_file(path_of(found), static_cast<int>(kToRead));
}

bool AdoptSource::is_in_a_home(const Path& target) const {
  std::error_code error;
  const Path top = std::filesystem::read_symlink(path_of(folder_), error);
  for (Path at = target.parent_path(); !error && at != at.parent_path(); at = at.parent_path()) {
    if (!kind_of_folder(at).empty()) {
      return true;
    }
    if (at == top) {
      return false;
    }
  }
  return static_cast<bool>(error);
}

}  // namespace trainyard::s3
