// SPDX-License-Identifier: Apache-2.0
#include "comm/health/status_file.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

constexpr std::string_view kPrefix = "rank-";
constexpr std::string_view kMaking = ".rank-";
constexpr int kTries = 1000;

bool is_status_file(std::string_view name) {
  return name.starts_with(kPrefix) || name.starts_with(kMaking);
}

// One at a time makes and removes files of a folder: between a look at a name and its removal
// nobody gives the name to another file. A holder that is stopped does not stop the others for
// ever.
class Turn {
 public:
  explicit Turn(const Path& folder) {
    auto opened = open_file(folder, O_RDONLY | O_DIRECTORY);
    if (!opened) {
      return;
    }
    folder_ = std::move(*opened);
    for (int left = kTries; left > 0 && ::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0; --left) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  Fd folder_;  // the lock goes with it
};

void remove_unowned(const Path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::directory_entry& entry = *entries;
    if (!is_status_file(entry.path().filename().string())) {
      continue;
    }
    const auto fd = open_file(entry.path(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd && ::flock(fd->get(), LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry.path().c_str());
    }
  }
}

struct Locked {
  Fd fd;
  Fd lock;
};

// A signal that comes amid it undoes it on a tmpfs.
Result<void> allocate(int fd, std::size_t bytes) {
  int status = EINTR;
  while (status == EINTR) {
    status = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  }
  return status == 0 ? Result<void>() : errno_error("allocate its blocks", status);
}

// A new file of the pattern `name`, locked. Waits for those who look, for a moment, whose it is.
Result<Locked> make_locked(std::string& name) {
  Locked made{.fd = Fd(::mkostemp(name.data(), O_CLOEXEC)), .lock = Fd()};
  const std::string same = "/proc/self/fd/" + std::to_string(made.fd.get());
  made.lock = Fd(::open(same.c_str(), O_RDONLY | O_CLOEXEC));
  if (!made.fd.is_open() || !made.lock.is_open() || ::flock(made.lock.get(), LOCK_EX) != 0 ||
      ::fchmod(made.fd.get(), 0644) != 0) {
    return errno_error("make " + name, errno);
  }
  return made;
}

// A file that has its name once it is filled.
Result<Locked> make_filled(const Path& path, const std::function<Result<void>(int fd)>& fill) {
  // Again when somebody took it for unowned in the moment before it was locked.
  for (int left = kTries; true; --left) {
    std::string name = path.parent_path() / (std::string(kMaking) + "XXXXXX");
    YARD_TRY(Locked made, make_locked(name));
    if (auto filled = fill(made.fd.get()); !filled) {
      ::unlink(name.c_str());
      return filled.error().in("making " + path.string());
    }
    if (::rename(name.c_str(), path.c_str()) == 0) {
      return made;
    }
    const int reason = errno;
    if (reason != ENOENT || left == 0) {
      ::unlink(name.c_str());
      return errno_error("make " + path.string(), reason);
    }
  }
}

}  // namespace

Result<StatusFile> StatusFile::make(const Path& path, std::size_t bytes) {
  const Turn turn(path.parent_path());
  remove_unowned(path.parent_path());
  // All of it now: a full disk would kill who writes to a mapped hole.
  YARD_TRY(Locked made, make_filled(path, [bytes](int fd) { return allocate(fd, bytes); }));
  return StatusFile(path, std::move(made.fd), std::move(made.lock));
}

Result<void> write_beside_status(const Path& path, std::string_view content) {
  YARD_TRY(const Locked written,
           make_filled(path, [content](int fd) { return write_all(fd, content); }));
  return {};
}

StatusFile::~StatusFile() {
  if (!fd_.is_open()) {
    return;  // moved from
  }
  const Turn turn(path_.parent_path());
  struct stat own {};
  struct stat there {};
  if (::fstat(fd_.get(), &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
      own.st_dev == there.st_dev && own.st_ino == there.st_ino) {
    ::unlink(path_.c_str());
  }
  remove_unowned(path_.parent_path());
}

}  // namespace trainyard::comm
