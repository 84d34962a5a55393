// SPDX-License-Identifier: Apache-2.0
// A writable layer over a directory that many jobs share, the Python environment: the job that it
// is made for may install, replace and remove packages, no other job sees that, and all of it is
// gone when the supervisor is. Call enter_private_mounts() or enter_user_namespace() before.
#pragma once

#include "base/file.h"
#include "base/result.h"

namespace trainyard::instance {

struct WritableLayer {
  Path directory;  // gets the layer, in place
  Path scratch;    // keeps what is written, on disk where its file system can, or in memory
  bool without_root = false;  // we are root in a user namespace only
};

// On failure the directory is as before, and the error says what is in the way.
Result<void> mount_layer(const WritableLayer& layer);

// Makes the directories of `tree` below `copy`, all of them empty and ours.
Result<void> copy_directories(const Path& tree, const Path& copy);

}  // namespace trainyard::instance
