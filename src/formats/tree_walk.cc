// SPDX-License-Identifier: Apache-2.0
#include "formats/tree_walk.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <functional>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/encoding.h"
#include "formats/archive_path.h"

namespace trainyard {
namespace {

// Each level holds a descriptor open.
constexpr std::size_t kMaxDepth = 200;

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

Error failed(const std::string& name, int errno_value) {
  // It was listed a moment ago.
  if (errno_value == ENOENT || errno_value == ELOOP) {
    return changed_while_read(name);
  }
  return errno_error("read \"" + to_valid_utf8(name) + "\"", errno_value);
}

Error unfit(const std::string& name, mode_t mode) {
  const std::string what = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  return {Code::kInvalidArgument, "\"" + to_valid_utf8(name) + "\" is " + what, "type"};
}

}  // namespace

Error changed_while_read(const std::string& name) {
  return {Code::kConflict, "\"" + to_valid_utf8(name) + "\" changed while it was read"};
}

bool is_unfit(const Error& error) {
  return error.code == Code::kInvalidArgument &&
         (error.subject == "link" || error.subject == "type" || error.subject == "depth");
}

Result<TreeWalk> TreeWalk::open(const Path& top) {
  YARD_TRY(Fd fd, open_file(top, O_RDONLY | O_DIRECTORY));
  TreeWalk walk;
  YARD_TRY(walk.enter(std::move(fd), ""));
  return walk;
}

Result<void> TreeWalk::enter(Fd fd, std::string prefix) {
  if (levels_.size() >= kMaxDepth) {
    return Error{Code::kInvalidArgument,
                 "\"" + to_valid_utf8(prefix) + "\" lies too deep for an archive", "depth"};
  }
  // The listing gets its own descriptor: closedir() closes the one that it was given.
  const int copy = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, CloseDir> dir(copy >= 0 ? fdopendir(copy) : nullptr);
  if (!dir) {
    return errno_error("list \"" + to_valid_utf8(prefix) + "\"", errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return errno_error("list \"" + to_valid_utf8(prefix) + "\"", errno);
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  levels_.push_back({.fd = std::move(fd), .prefix = std::move(prefix), .names = std::move(names)});
  return {};
}

Result<std::optional<TreeEntry>> TreeWalk::next() {
  while (!levels_.empty()) {
    if (levels_.back().names.empty()) {
      levels_.pop_back();
      continue;
    }
    const std::string leaf = std::move(levels_.back().names.back());
    levels_.back().names.pop_back();
    YARD_TRY(TreeEntry entry, visit(leaf));
    return std::optional<TreeEntry>(std::move(entry));
  }
  return std::optional<TreeEntry>();
}

Result<TreeEntry> TreeWalk::visit(const std::string& leaf) {
  const int parent = levels_.back().fd.get();
  TreeEntry entry = {.name = levels_.back().prefix + leaf};
  struct stat status;
  if (fstatat(parent, leaf.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return failed(entry.name, errno);
  }
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
    // Non-blocking, should a pipe have taken the file's place meanwhile.
    Fd fd(openat(parent, leaf.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat opened;
    if (!fd.is_open() || fstat(fd.get(), &opened) != 0) {
      return failed(entry.name, errno);
    }
    if ((opened.st_mode & S_IFMT) != (status.st_mode & S_IFMT)) {
      return changed_while_read(entry.name);
    }
    status = opened;
    if (S_ISDIR(status.st_mode)) {
      YARD_TRY(enter(std::move(fd), entry.name + "/"));
    } else {
      entry.size = static_cast<std::uint64_t>(status.st_size);
      entry.fd = std::move(fd);
    }
  } else if (S_ISLNK(status.st_mode)) {
    YARD_TRY(read_link(parent, leaf, entry));
  } else {
    return unfit(entry.name, status.st_mode);
  }
  entry.mode = status.st_mode;
  entry.modified = status.st_mtim;
  return entry;
}

Result<void> TreeWalk::read_link(int parent, const std::string& leaf, TreeEntry& entry) {
  char target[PATH_MAX];
  const ssize_t length = readlinkat(parent, leaf.c_str(), target, sizeof target);
  if (length < 0) {
    return failed(entry.name, errno);
  }
  entry.link_target.assign(target, static_cast<std::size_t>(length));
  if (!link_stays_inside(entry.name, entry.link_target)) {
    return Error{Code::kInvalidArgument,
                 "\"" + to_valid_utf8(entry.name) + "\" is a link to \"" +
                     to_valid_utf8(entry.link_target) + "\", which leads out of the directory",
                 "link"};
  }
  return {};
}

Result<void> walk_tree(const Path& top, LeftOut& left_out,
                       const std::function<Result<void>(const TreeEntry&)>& take) {
  YARD_TRY(TreeWalk walk, TreeWalk::open(top));
  for (;;) {
    auto visited = walk.next();
    if (!visited && is_unfit(visited.error())) {
      left_out.add(visited.error());
      continue;
    }
    YARD_TRY(const auto entry, std::move(visited));
    if (!entry) {
      return {};
    }
    YARD_TRY(take(*entry));
  }
}

}  // namespace trainyard
