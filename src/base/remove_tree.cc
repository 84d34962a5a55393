// SPDX-License-Identifier: Apache-2.0
// remove_tree() works with descriptors only: a directory that is swapped for a link while it runs
// is not followed, and the kernel refuses to step over a mount, bind mounts included.
#include <cerrno>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

namespace trainyard {
namespace {

// Each level holds a descriptor open. What lies deeper is moved up to the top and removed from
// there, so that a tree made deep on purpose exhausts neither descriptors nor the stack.
constexpr int kMaxDepth = 32;

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

Error failed(const Path& path, int errno_value) {
  if (errno_value == EXDEV || errno_value == EBUSY) {
    return {Code::kConflict, "remove " + path.string() + ": it is a mount point; unmount it first",
            "mount"};
  }
  return errno_error("remove " + path.string(), errno_value);
}

int open_directory_once(int parent, const char* name) {
  open_how how = {};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(syscall(SYS_openat2, parent, name, &how, sizeof how));
}

// Our own directories may have been made inaccessible by the program that used them. Does `step`,
// which returns 0 when it worked, and once more after the right to change what is in `directory`
// was what it lacked.
template <typename Step>
bool works_in(int directory, Step step) {
  return step() == 0 || (errno == EACCES && fchmod(directory, 0700) == 0 && step() == 0);
}

Fd open_directory(int parent, const char* name) {
  Fd fd(open_directory_once(parent, name));
  if (!fd.is_open() && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0) {
    fd = Fd(open_directory_once(parent, name));
  }
  return fd;
}

bool unlink_in(int parent, const char* name, int flags) {
  return works_in(parent, [&] { return unlinkat(parent, name, flags); }) || errno == ENOENT;
}

class TreeRemover {
 public:
  explicit TreeRemover(int top) : top_(top) {}

  // Empties the directory `fd`, called `path` in messages.
  Result<void> empty(Fd fd, const Path& path, int depth) {
    const Dir dir(fdopendir(fd.get()));
    if (!dir) {
      return failed(path, errno);
    }
    fd.release();
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(dir.get());
      if (entry == nullptr) {
        return errno == 0 ? Result<void>() : failed(path, errno);
      }
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        YARD_TRY(remove_entry(dirfd(dir.get()), name, path / name, depth));
      }
    }
  }

  // Whether something was moved to the top since the last question.
  bool moved() { return std::exchange(moved_, false); }

 private:
  Result<void> remove_entry(int parent, const std::string& name, const Path& path, int depth) {
    struct stat status;
    if (!works_in(parent,
                  [&] { return fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW); })) {
      return errno == ENOENT ? Result<void>() : failed(path, errno);
    }
    if (!S_ISDIR(status.st_mode)) {
      return unlink_in(parent, name.c_str(), 0) ? Result<void>() : failed(path, errno);
    }
    if (depth >= kMaxDepth) {
      return move_to_top(parent, name, path);
    }
    Fd fd = open_directory(parent, name.c_str());
    if (!fd.is_open()) {
      return errno == ENOENT ? Result<void>() : failed(path, errno);
    }
    YARD_TRY(empty(std::move(fd), path, depth + 1));
    return unlink_in(parent, name.c_str(), AT_REMOVEDIR) ? Result<void>() : failed(path, errno);
  }

  Result<void> move_to_top(int parent, const std::string& name, const Path& path) {
    const std::string new_name = ".trainyard-deep-" + std::to_string(count_++);
    const auto move = [&] { return renameat(parent, name.c_str(), top_, new_name.c_str()); };
    // A directory that changes its parent must be writable itself, and so must both parents.
    if (!works_in(parent, move) && (errno != EACCES || fchmod(top_, 0700) != 0 ||
                                    fchmodat(parent, name.c_str(), 0700, 0) != 0 || move() != 0)) {
      return failed(path, errno);
    }
    moved_ = true;
    return {};
  }

  int top_;
  int count_ = 0;
  bool moved_ = false;
};

}  // namespace

Result<void> remove_tree(const Path& path) {
  // A trailing slash would make the last name empty, and follow a link.
  const Path clean = path.has_filename() ? path : path.parent_path();
  const std::string name = clean.filename();
  if (name.empty() || name == "." || name == "..") {
    return Error{Code::kInvalidArgument, "remove " + path.string() + ": not a name"};
  }
  const Path above = clean.has_parent_path() ? clean.parent_path() : Path(".");
  auto parent = open_file(above, O_PATH | O_DIRECTORY);
  if (!parent) {
    return parent.error().code == Code::kNotFound ? Result<void>() : std::move(parent).error();
  }
  struct stat status;
  if (fstatat(parent->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Result<void>() : failed(path, errno);
  }
  if (!S_ISDIR(status.st_mode)) {
    return unlinkat(parent->get(), name.c_str(), 0) == 0 ? Result<void>() : failed(path, errno);
  }
  const Fd top = open_directory(parent->get(), name.c_str());
  if (!top.is_open()) {
    return failed(path, errno);
  }
  TreeRemover remover(top.get());
  do {
    Fd again = open_directory(parent->get(), name.c_str());
    if (!again.is_open()) {
      return failed(path, errno);
    }
    YARD_TRY(remover.empty(std::move(again), clean, 0));
  } while (remover.moved());
  return unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR) == 0 ? Result<void>()
                                                                  : failed(path, errno);
}

}  // namespace trainyard
