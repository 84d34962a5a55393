// SPDX-License-Identifier: Apache-2.0
// The parts of a home, each copied in its turn into a directory that nobody else knows yet
// (home_copy.h, which says why in this order).
#pragma once

#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "base/file.h"
#include "base/result.h"
#include "server/backup/home_kind.h"
#include "server/backup/plain_files.h"
#include "server/backup/progress.h"

namespace trainyard::server {

struct CopyCounts {
  std::uint64_t contents = 0;
  std::uint64_t bytes = 0;  // of contents
  std::uint64_t log_files = 0;
};

// Copies into `to`, an empty directory. Contents that `owner` owns become hard links where the file
// system allows it: those of somebody else, he could change later.
Result<CopyCounts> copy_parts(const PlainFiles& from, const Path& to, uid_t owner,
                              const CopyProgress& progress);

// In the order of their names; none when the directory is not there.
Result<std::vector<Path>> entries_of(const Path& directory);

}  // namespace trainyard::server
