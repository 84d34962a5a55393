// SPDX-License-Identifier: Apache-2.0
#include "server/backup/plain_files.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trainyard::server {
namespace {

Error not_plain(const Path& file) {
  return {Code::kCorrupt, file.string() + " is not a plain file, or lies behind a link"};
}

Result<struct stat> status_of(const Fd& fd, const Path& file) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return errno_error("reading " + file.string(), errno);
  }
  return S_ISREG(status.st_mode) ? Result<struct stat>(status) : not_plain(file);
}

}  // namespace

Result<PlainFiles> PlainFiles::open(const Path& root, Links links) {
  YARD_TRY(Fd fd, open_file(root, O_PATH | O_DIRECTORY));
  return PlainFiles(root, std::move(fd), links);
}

Result<Fd> PlainFiles::find(const Path& name, int flags) const {
  open_how how = {};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.resolve = links_ == Links::kRefused ? RESOLVE_NO_SYMLINKS : 0;
  while (true) {
    Fd fd(static_cast<int>(::syscall(SYS_openat2, fd_.get(), name.c_str(), &how, sizeof how)));
    if (fd.is_open()) {
      return fd;
    }
    switch (errno) {
      case EINTR:
        break;
      case ELOOP:    // a link
      case ENOTDIR:  // a file in the place of a folder
      case ENXIO:    // a socket, a device that is not there
        return not_plain(root_ / name);
      default:
        return errno_error("open " + (root_ / name).string(), errno);
    }
  }
}

Result<Fd> PlainFiles::open_plain(const Path& name) const {
  YARD_TRY(Fd fd, find(name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  YARD_TRY(status_of(fd, root_ / name));
  return fd;
}

Result<std::uint64_t> PlainFiles::size_of(const Path& name) const {
  YARD_TRY(const Fd fd, find(name, O_PATH));
  YARD_TRY(const struct stat status, status_of(fd, root_ / name));
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace trainyard::server
