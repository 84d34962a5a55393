// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_tree.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr std::int64_t kNanosecondsASecond = 1'000'000'000;
constexpr std::size_t kLongestLink = 4'096;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

FileState state_of(const struct stat& info) {
  return {.size = static_cast<std::uint64_t>(info.st_size),
          .mtime_ns = info.st_mtim.tv_sec * kNanosecondsASecond + info.st_mtim.tv_nsec,
          .inode = info.st_ino};
}

std::string kind_of(mode_t mode) {
  return S_ISFIFO(mode) ? "it is a FIFO" : S_ISSOCK(mode) ? "it is a socket" : "it is a device";
}

Error odd(std::string why) {
  return Error{Code::kInvalidArgument, std::move(why), "oddity"};
}

bool is_absent(int code) {
  return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

}  // namespace

Result<FileState> state_of(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    return errno_error("look at an open file", errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return odd(S_ISDIR(info.st_mode) ? "it is a directory" : kind_of(info.st_mode));
  }
  return state_of(info);
}

std::optional<bool> is_open_for_writing(int fd) {
  // Who opens it meanwhile makes the kernel tell us: by SIGURG, which is ignored; SIGIO would kill.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0) {
    return std::nullopt;
  }
  if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
  }
  return errno == EAGAIN ? std::optional(true) : std::nullopt;
}

Result<Fd> open_beneath(const Path& root, std::string_view path, int flags) {
  Fd at(::open(root.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  int code = errno;
  std::size_t begin = 0;
  while (at.is_open() && begin <= path.size()) {
    const std::size_t slash = std::min(path.find('/', begin), path.size());
    const std::string part(path.substr(begin, slash - begin));
    const int how = slash == path.size() ? flags : O_PATH | O_DIRECTORY;
    Fd next(openat(at.get(), part.empty() ? "." : part.c_str(), how | O_NOFOLLOW | O_CLOEXEC));
    code = errno;
    at = std::move(next);
    begin = slash + 1;
  }
  if (!at.is_open()) {
    return errno_error("open " + (root / path).string(), is_absent(code) ? ENOENT : code);
  }
  return at;
}

Result<Fd> CheckpointTree::open_directory(const std::string& path) const {
  return open_beneath(place_.directory, path, O_RDONLY | O_DIRECTORY);
}

// Where the link at `path` leads, as a path below the root: by its text alone, as the container
// sees it.
Result<std::string> CheckpointTree::target_of(int directory, const std::string& path) const {
  std::array<char, kLongestLink> buffer;
  const ssize_t length = readlinkat(directory, name_of(path).c_str(), buffer.data(), buffer.size());
  if (length < 0) {
    return errno_error("read a link", errno);
  }
  const Path text(std::string(buffer.data(), static_cast<std::size_t>(length)));
  const Path target = (Path(place_.inside) / parent_of(path) / text).lexically_normal();
  const Path below = target.lexically_relative(place_.inside);
  if (below.empty() || *below.begin() == ".." || *below.begin() == ".") {
    return odd("it is a link that leads out of the directory, to '" + text.string() + "'");
  }
  return below.string();
}

Result<FileState> CheckpointTree::look(const std::string& path) const {
  YARD_TRY(const Fd fd, open(path));
  return state_of(fd.get());
}

Result<Fd> CheckpointTree::open(const std::string& path) const {
  if (std::string why = why_no_key(place_, path); !why.empty()) {
    return odd(std::move(why));
  }
  YARD_TRY(const Fd parent, open_directory(parent_of(path)));
  struct stat info = {};
  if (fstatat(parent.get(), name_of(path).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_error("look at " + path, errno);
  }
  std::string real = path;
  if (S_ISLNK(info.st_mode)) {
    YARD_TRY(real, target_of(parent.get(), path));
  } else if (S_ISDIR(info.st_mode)) {
    return errno_error("open " + path, ENOENT);
  } else if (!S_ISREG(info.st_mode)) {
    return odd(kind_of(info.st_mode));
  }
  Result<Fd> fd = open_beneath(place_.directory, real, O_RDONLY | O_NONBLOCK);
  if (!S_ISLNK(info.st_mode)) {
    return fd;
  }
  if (!fd || !state_of(fd->get())) {
    return odd("it is a link that leads to no regular file");
  }
  return fd;
}

TreeScan CheckpointTree::scan(const std::string& below) const {
  TreeScan scan;
  std::vector<std::string> waiting = {below};
  while (!waiting.empty()) {
    const std::string path = std::move(waiting.back());
    waiting.pop_back();
    read_directory(path, scan, waiting);
  }
  return scan;
}

void CheckpointTree::read_directory(const std::string& path, TreeScan& scan,
                                    std::vector<std::string>& waiting) const {
  Result<Fd> fd = open_directory(path);
  if (!fd) {
    // A directory that has just gone takes its files with it.
    scan.is_whole = scan.is_whole && fd.error().code == Code::kNotFound && !path.empty();
    return;
  }
  const Directory directory(fdopendir(fd->get()));
  if (directory == nullptr) {
    scan.is_whole = false;
    return;
  }
  const int number = fd->release();
  scan.directories.push_back(path);
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      take(number, path.empty() ? std::string(name) : path + "/" + std::string(name), scan,
           waiting);
    }
    errno = 0;
  }
  scan.is_whole = scan.is_whole && errno == 0;
}

void CheckpointTree::take(int directory, const std::string& path, TreeScan& scan,
                          std::vector<std::string>& waiting) const {
  if (std::string why = why_no_key(place_, path); !why.empty()) {
    scan.oddities.push_back({path, std::move(why)});
    return;
  }
  struct stat info = {};
  if (fstatat(directory, name_of(path).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    scan.is_whole = scan.is_whole && is_absent(errno);
    return;
  }
  if (S_ISREG(info.st_mode)) {
    scan.files.emplace(path, state_of(info));
  } else if (S_ISDIR(info.st_mode)) {
    waiting.push_back(path);
  } else if (Result<FileState> state = look(path)) {
    scan.files.emplace(path, *state);
  } else if (state.error().subject == "oddity") {
    scan.oddities.push_back({path, std::move(state).error().message});
  }
}

}  // namespace trainyard::instance
