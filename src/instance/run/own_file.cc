// SPDX-License-Identifier: Apache-2.0
#include "instance/run/own_file.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trainyard::instance {

Result<Fd> open_ml(const Path& ml) {
  return open_file(ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// glibc has no function for it.
Result<Fd> open_own_file(const Fd& ml, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<unsigned>(O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags);
  how.mode = 0644;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  Fd file(static_cast<int>(::syscall(SYS_openat2, ml.get(), path.c_str(), &how, sizeof how)));
  if (!file.is_open()) {
    return errno_error("cannot open /opt/ml/" + path, errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, "/opt/ml/" + path + " is no file"};
  }
  return file;
}

}  // namespace trainyard::instance
