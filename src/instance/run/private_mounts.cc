// SPDX-License-Identifier: Apache-2.0
#include "instance/run/private_mounts.h"

#include <cerrno>

#include <sched.h>
#include <sys/mount.h>

#include "base/log.h"

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

Result<void> overlay_in_place(const Path& directory, const Path& scratch) {
  const auto mount_layer = [&]() -> Result<void> {
    YARD_TRY(make_directories(scratch / "upper"));
    YARD_TRY(make_directories(scratch / "work"));
    const std::string options = "lowerdir=" + directory.string() +
                                ",upperdir=" + (scratch / "upper").string() +
                                ",workdir=" + (scratch / "work").string();
    if (mount("overlay", directory.c_str(), "overlay", 0, options.c_str()) != 0) {
      return errno_error("mount a layer over " + directory.string(), errno);
    }
    return {};
  };
  YARD_TRY(make_directories(scratch));
  if (const Result<void> mounted = mount_layer(); mounted) {
    return {};
  } else {
    log_info("layer in memory: " + mounted.error().message);
  }
  if (mount("tmpfs", scratch.c_str(), "tmpfs", MS_NODEV, nullptr) != 0) {
    return errno_error("mount tmpfs", errno);
  }
  return mount_layer();
}

}  // namespace trainyard::instance
