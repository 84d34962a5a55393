// SPDX-License-Identifier: Apache-2.0
#include "instance/run/private_mounts.h"

#include <cerrno>

#include <sched.h>
#include <sys/mount.h>

namespace trainyard::instance {

Result<void> enter_private_mounts() {
  if (unshare(CLONE_NEWNS) != 0) {
    return errno_error("unshare the mount namespace", errno);
  }
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return errno_error("make mounts private", errno);
  }
  return {};
}

Result<void> mount_sysfs(const Path& directory) {
  YARD_TRY(make_directories(directory));
  if (mount("sysfs", directory.c_str(), "sysfs", MS_RDONLY | MS_NOSUID | MS_NOEXEC | MS_NODEV,
            nullptr) != 0) {
    return errno_error("mount sysfs", errno);
  }
  return {};
}

Result<void> mount_memory(const Path& directory, const std::string& bytes) {
  const std::string options = "mode=0755,size=" + bytes;
  if (mount("tmpfs", directory.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC | MS_NODEV,
            options.c_str()) != 0) {
    return errno_error("mount tmpfs", errno);
  }
  return {};
}

}  // namespace trainyard::instance
