// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::string_view kUnfinished = ".trainyard-XXXXXX";

Path directory_of(const Path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

Error failed(std::string_view doing, const Path& path, int errno_value) {
  return errno_error(std::string(doing) + " " + path.string(), errno_value);
}

// A killed process leaves its locks, for a moment, to those that it was about to execute: their
// descriptors close on exec.
constexpr std::chrono::seconds kLegacyOfTheDead{2};

std::string holder_of(int fd) {
  char text[32] = {};
  const auto got = read_at(fd, std::as_writable_bytes(std::span(text)), 0);
  return std::string(trim({text, got ? *got : 0}));
}

bool has_died(std::string_view holder) {
  const Result<std::int64_t> pid = parse_int(holder);
  return pid && *pid > 0 && kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

Result<void> sync_fd(int fd, const Path& path) {
  while (fsync(fd) != 0) {
    if (errno != EINTR) {
      return failed("sync", path, errno);
    }
  }
  return {};
}

// What a temporary file becomes once it has a name of its own; the caller unlinks it on failure.
Result<void> fill_and_rename(const Fd& fd, const Path& temporary, const Path& path,
                             std::string_view content, bool durable) {
  if (auto written = write_all(fd.get(), content); !written) {
    return written.error().in("writing " + path.string());
  }
  if (durable) {
    YARD_TRY(sync_fd(fd.get(), path));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return failed("rename to", path, errno);
  }
  return {};
}

Result<void> replace_file(const Path& path, std::string_view content, mode_t mode, bool durable) {
  const Path directory = directory_of(path);
  // Its own short name: one made from `path` could be longer than a name may be.
  std::string temporary = directory / kUnfinished;
  Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.is_open()) {
    return failed("create a file in", directory, errno);
  }
  Result<void> done;
  if (fchmod(fd.get(), mode) != 0) {
    done = failed("chmod", path, errno);
  } else {
    done = fill_and_rename(fd, temporary, path, content, durable);
  }
  if (!done) {
    unlink(temporary.c_str());
    return done;
  }
  return durable ? sync_directory(directory) : done;
}

bool leads_to_directory(const Path& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

Result<Fd> open_file(const Path& path, int flags, mode_t mode) {
  for (;;) {
    Fd fd(open(path.c_str(), flags | O_CLOEXEC, mode));
    if (fd.is_open()) {
      return fd;
    }
    if (errno != EINTR) {
      return failed("open", path, errno);
    }
  }
}

Result<std::string> read_file(const Path& path, std::size_t limit) {
  YARD_TRY(Fd fd, open_file(path, O_RDONLY));
  constexpr std::size_t kStep = std::size_t{64} << 10;
  std::string content;
  // The size that the file system tells is a hint only: /proc says 0, and a file may be growing.
  struct stat status;
  std::size_t room = kStep;
  if (fstat(fd.get(), &status) == 0 && status.st_size > 0) {
    room = static_cast<std::size_t>(status.st_size) + 1;
  }
  for (std::size_t used = 0;; room = kStep) {
    // One byte past the limit tells that there is more.
    content.resize(used + (limit - used < room ? limit - used + 1 : room));
    auto got = read_some(fd.get(), std::as_writable_bytes(std::span(content)).subspan(used));
    if (!got) {
      return got.error().in("reading " + path.string());
    }
    used += *got;
    if (used > limit) {
      return Error{Code::kExhausted, path.string() + " is larger than " + human_bytes(limit)};
    }
    if (*got == 0) {
      content.resize(used);
      return content;
    }
  }
}

Result<void> write_file_durably(const Path& path, std::string_view content, mode_t mode) {
  return replace_file(path, content, mode, true);
}

Result<void> write_file(const Path& path, std::string_view content, mode_t mode) {
  return replace_file(path, content, mode, false);
}

bool is_unfinished_file(std::string_view name) {
  return name.size() == kUnfinished.size() &&
         name.starts_with(kUnfinished.substr(0, kUnfinished.find('X')));
}

Result<void> make_directories(const Path& path, mode_t mode) {
  if (path.empty() || mkdir(path.c_str(), mode) == 0) {
    return {};
  }
  if (errno == ENOENT && path.has_parent_path()) {
    YARD_TRY(make_directories(path.parent_path(), mode));
    if (mkdir(path.c_str(), mode) == 0) {
      return {};
    }
  }
  const int failure = errno;
  // Read-only file systems report EROFS even for a directory that is there.
  return leads_to_directory(path) ? Result<void>() : failed("make directory", path, failure);
}

Result<void> sync_directory(const Path& path) {
  YARD_TRY(const Fd fd, open_file(path, O_RDONLY | O_DIRECTORY));
  return sync_fd(fd.get(), path);
}

Result<TempDir> TempDir::make(std::string_view prefix, const Path& parent) {
  std::error_code failure;
  const Path base = parent.empty() ? std::filesystem::temp_directory_path(failure) : parent;
  if (failure) {
    return Error{Code::kNotFound, "there is no directory for temporary files"};
  }
  std::string name = base / (std::string(prefix) + "XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    return failed("make a directory in", base, errno);
  }
  return TempDir(Path(name));
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, Path())) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempDir::~TempDir() {
  if (path_.empty()) {
    return;
  }
  if (const auto removed = remove_tree(path_); !removed) {
    log_warning("a temporary directory stays: " + removed.error().message);
  }
}

Result<FileLock> FileLock::acquire(const Path& path) {
  YARD_TRY(Fd fd, open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW));
  const auto until = std::chrono::steady_clock::now() + kLegacyOfTheDead;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const std::string holder = holder_of(fd.get());
      if (has_died(holder) && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      return Error{Code::kConflict, path.string() + " is locked by process " +
                                        (holder.empty() ? "(unknown)" : holder)};
    }
    if (errno != EINTR) {
      return failed("lock", path, errno);
    }
  }
  // The file is never unlinked: two processes could then hold two files of one name.
  if (ftruncate(fd.get(), 0) != 0) {
    return failed("truncate", path, errno);
  }
  YARD_TRY(write_all(fd.get(), std::to_string(getpid()) + "\n"));
  return FileLock(std::move(fd));
}

}  // namespace trainyard
