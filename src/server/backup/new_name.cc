// SPDX-License-Identifier: Apache-2.0
#include "server/backup/new_name.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

namespace trainyard::server {

Result<void> rename_to_new(const Path& from, const Path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return {};
  }
  // NFS and some file systems in user space know no such rename: there a moment remains.
  if (errno == EINVAL || errno == ENOSYS) {
    struct stat status {};
    if (::lstat(to.c_str(), &status) == 0) {
      errno = EEXIST;
    } else if (::rename(from.c_str(), to.c_str()) == 0) {
      return {};
    }
  }
  if (errno == EEXIST) {
    return Error{Code::kAlreadyExists,
                 to.string() + " has come meanwhile: a backup replaces nothing"};
  }
  return errno_error("naming " + to.string(), errno);
}

}  // namespace trainyard::server
