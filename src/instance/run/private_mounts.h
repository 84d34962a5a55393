// SPDX-License-Identifier: Apache-2.0
// Mounts that only the supervisor and its container see: a mount namespace of its own, the devices
// of its network namespace as /sys shows them, and memory. All of it is gone when the supervisor
// is.
#pragma once

#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::instance {

// Leaves the machine's mount namespace; what is mounted there later still comes in. Call it while
// the process has one thread.
Result<void> enter_private_mounts();

// Mounts sysfs at `directory`, which is made: it shows the network interfaces of our namespace,
// where the machine's own /sys shows the machine's.
Result<void> mount_sysfs(const Path& directory);

// Mounts memory at `directory`, which is there: at most so many `bytes`, as tmpfs(5) spells them.
Result<void> mount_memory(const Path& directory, const std::string& bytes);

}  // namespace trainyard::instance
